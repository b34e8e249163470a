package place

import (
	"slices"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/fit"
)

// nodeChoice is a place for one worker with its sort keys: less is better, in this order.
type nodeChoice struct {
	node, gpu int   // gpu: of a share, -1 of others
	cost      int   // of the headroom
	grows     int64 // by how much more is of no use
	left      int64 // thousandths of GPUs that are free there afterwards
}

func (c *nodeChoice) better(o *nodeChoice) bool {
	switch {
	case o.node < 0 || c.cost != o.cost:
		return o.node < 0 || c.cost < o.cost
	case c.grows != o.grows:
		return c.grows < o.grows
	}
	return c.left < o.left
}

// mixCandidates is at how many nodes a placement looks in a cluster that is too large to look at
// all: those that are fullest.
const mixCandidates = 512

// LeaveUsable puts a worker where it makes the least of the free GPUs useless to usual requests;
// false if it has no room anywhere. Of equal places it takes that where least is left. If it is to
// spare the headroom that comes first.
func (t *Packer) LeaveUsable(g *fit.Gang, lost func(node int, worker model.Request) int) ([]fit.Spot, bool) {
	best := t.mostUsable(g, lost)
	switch {
	case best.node < 0:
		return nil, false
	case best.gpu >= 0:
		return []fit.Spot{{Node: best.node, GPUs: []int{best.gpu}}}, true
	}
	return t.state.Room.PlaceOn(g, best.node)
}

func (t *Packer) mostUsable(g *fit.Gang, lost func(node int, worker model.Request) int) nodeChoice {
	lifted := t.state.Room.Lift(g.For)
	defer lifted.Restore()
	m, best, left := t.Usual(), nodeChoice{node: -1}, len(t.state.View.Nodes())
	if left > PackNodes {
		left = mixCandidates
	}
	for node := range t.state.Room.Candidates(&g.Component, g.Exclude) {
		if left--; left < 0 {
			break
		}
		c := nodeChoice{node: node, gpu: -1}
		if lost != nil {
			if c.cost = lost(node, g.Request); best.node >= 0 && c.cost > best.cost {
				continue
			}
		}
		t.weigh(m, &best, c, &g.Component)
	}
	return best
}

// weigh looks at all places for a worker on one node.
func (t *Packer) weigh(m *Mix, best *nodeChoice, c nodeChoice, p *fit.Component) {
	rest := t.state.Room.Rest(c.node, m.shared)
	m.shared = rest.Shared
	if m.at[c.node] < 0 {
		m.at[c.node] = m.Unusable(&rest)
	}
	share, before := p.Request.Share(), m.at[c.node]
	rest.Cores -= p.Request.Active.Cores
	rest.Memory -= p.Request.Active.Memory
	try := func(gpu int) {
		if c.gpu, c.grows, c.left = gpu, m.Unusable(&rest)-before, rest.GPUs(); c.better(best) &&
			(gpu < 0 || t.state.Room.HoldsOn(c.node, p, []int{gpu})) {
			*best = c
		}
	}
	if share == 0 {
		rest.Empty -= p.Request.Active.GPUs / model.WholeGPU
		try(-1)
		return
	}
	for n, gpu := range t.state.Room.SharedGPUs(c.node) {
		if rest.Shared[n] < share || slices.Contains(rest.Shared[:n], rest.Shared[n]) {
			continue // too little, or as much as on a GPU before it
		}
		rest.Shared[n] -= share
		try(gpu)
		rest.Shared[n] += share
	}
	if gpu := t.state.Room.FirstEmpty(c.node); gpu >= 0 {
		rest.Empty--
		rest.Shared = append(rest.Shared, model.WholeGPU-share)
		try(gpu)
		m.shared = rest.Shared
	}
}
