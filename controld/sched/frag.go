package sched

import (
	"slices"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
)

// mixture is what jobs usually ask for, and how much of the free GPUs of each node is of no use to them: the measure of FGD (ATC'23), in
// thousandths of a GPU times the workers that are known.
type mixture struct {
	kinds  []cluster.Asked
	shares bool    // some ask for a part of a GPU
	at     []int64 // by node; -1: not known now
	shared []int64 // scratch
}

// usual returns the mix that the state has learned, nil if nothing is known.
func (t *trial) usual() *mixture {
	if t.mix == nil {
		t.mix = &mixture{}
		if l := t.view.Learned(); l != nil && l.Mix != nil {
			t.mix.kinds = l.Mix.Kinds
			t.mix.at = make([]int64, len(t.view.Nodes()))
			for i := range t.mix.at {
				t.mix.at[i] = -1
			}
			for i := range t.mix.kinds {
				t.mix.shares = t.mix.shares || t.mix.kinds[i].Worker.GPUs < wholeGPU
			}
		}
	}
	if len(t.mix.kinds) == 0 {
		return nil
	}
	return t.mix
}

// sharing reports whether parts of GPUs are asked for, so that placements have to look at what they break.
func (t *trial) sharing() bool {
	m := t.usual()
	return m != nil && (m.shares || t.policy.Placement == "frag") && t.policy.Placement != "tight"
}

// took notes that somebody has started on some nodes.
func (m *mixture) took(spots []fit.Spot) {
	if m == nil || m.at == nil {
		return
	}
	for i := range spots {
		m.at[spots[i].Node] = -1
	}
}

// unusable adds up for all kinds what of a node's free GPUs is of no use to them.
func (m *mixture) unusable(r *cluster.Rest) int64 {
	all := r.GPUs()
	if all == 0 {
		return 0
	}
	most, least := int64(0), int64(wholeGPU)
	for _, left := range r.Shared {
		most, least = max(most, left), min(least, left)
	}
	shared, sum := all-r.Empty*wholeGPU, int64(0)
	for i := range m.kinds {
		k := &m.kinds[i]
		need := k.Worker.GPUs
		switch {
		case k.Worker.Cores > r.Cores || k.Worker.Memory > r.Memory || r.Empty*wholeGPU < need && most < need:
			sum += k.Count * all
		case need > most: // only empty GPUs will do
			sum += k.Count * shared
		case need > least:
			for _, left := range r.Shared {
				if left < need {
					sum += k.Count * left
				}
			}
		}
	}
	return sum
}

// wholeGPU is one GPU in the unit of vectors.
const wholeGPU = cluster.WholeGPU

// candidate is a place for one worker, and what is to be said for it: less is better, in this order.
type candidate struct {
	node, gpu int   // gpu: of a share, -1 of others
	cost      int   // of the headroom
	grows     int64 // by how much more is of no use
	left      int64 // thousandths of GPUs that are free there afterwards
}

func (c *candidate) better(o *candidate) bool {
	switch {
	case o.node < 0 || c.cost != o.cost:
		return o.node < 0 || c.cost < o.cost
	case c.grows != o.grows:
		return c.grows < o.grows
	}
	return c.left < o.left
}

// mixCandidates is at how many nodes a placement looks in a cluster that is too large to look at all: those that are fullest.
const mixCandidates = 512

// leaveUsable puts a worker where it makes least of the free GPUs useless to what is usually asked for, false if it has no room anywhere. Of equal
// places it takes that where least is left. If it is to spare the headroom that comes first.
func (t *trial) leaveUsable(g *fit.Gang, spare bool) ([]fit.Spot, bool) {
	best := t.mostUsable(g, spare)
	switch {
	case best.node < 0:
		return nil, false
	case best.gpu >= 0:
		return []fit.Spot{{Node: best.node, GPUs: []int{best.gpu}}}, true
	}
	return t.room.PlaceOn(g, best.node)
}

func (t *trial) mostUsable(g *fit.Gang, spare bool) candidate {
	defer t.room.Waive(g.For)()
	m, best, left := t.usual(), candidate{node: -1}, len(t.view.Nodes())
	if left > packNodes {
		left = mixCandidates
	}
	for node := range t.room.Candidates(&g.Part, g.Exclude) {
		if left--; left < 0 {
			break
		}
		c := candidate{node: node, gpu: -1}
		if spare && t.spare != nil {
			if c.cost = t.spare.cost(t, node, g.Request); best.node >= 0 && c.cost > best.cost {
				continue
			}
		}
		t.weigh(m, &best, c, &g.Part)
	}
	return best
}

// weigh looks at all places for a worker on one node.
func (t *trial) weigh(m *mixture, best *candidate, c candidate, p *fit.Part) {
	rest := t.room.Rest(c.node, m.shared)
	m.shared = rest.Shared
	if m.at[c.node] < 0 {
		m.at[c.node] = m.unusable(&rest)
	}
	share, before := p.Request.Share(), m.at[c.node]
	rest.Cores -= p.Request.Active.Cores
	rest.Memory -= p.Request.Active.Memory
	try := func(gpu int) {
		if c.gpu, c.grows, c.left = gpu, m.unusable(&rest)-before, rest.GPUs(); c.better(best) && (gpu < 0 || t.room.HoldsOn(c.node, p, []int{gpu})) {
			*best = c
		}
	}
	if share == 0 {
		rest.Empty -= p.Request.Active.GPUs / wholeGPU
		try(-1)
		return
	}
	for n, gpu := range t.room.SharedGPUs(c.node) {
		if rest.Shared[n] < share || slices.Contains(rest.Shared[:n], rest.Shared[n]) {
			continue // too little, or as much as on a GPU before it
		}
		rest.Shared[n] -= share
		try(gpu)
		rest.Shared[n] += share
	}
	if gpu := t.room.FirstEmpty(c.node); gpu >= 0 {
		rest.Empty--
		rest.Shared = append(rest.Shared, wholeGPU-share)
		try(gpu)
		m.shared = rest.Shared
	}
}
