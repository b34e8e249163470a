package sched

import (
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/jobspec"
)

// packNodes is up to how many nodes a cluster may have for every node to be looked at for each start. Larger ones have so many nodes of
// every kind that the usual search does as well.
const packNodes = 2048

// scarcity says how dear each resource is: the less of it is free in the whole cluster, the dearer what is left over on a node. Twice as
// scarce is four times as dear: what there is plenty of must not decide where the last of something else goes.
type scarcity struct {
	cores, memory, gpus int64
}

// newScarcity returns how dear the resources are now.
func newScarcity(t *trial) *scarcity {
	var free, all cluster.Vector
	for i, n := range t.view.Nodes() {
		if n.State != cluster.NodeUp {
			continue
		}
		f, a := t.room.Free(i).Active, t.room.Total(i)
		free = cluster.Vector{Cores: free.Cores + f.Cores, Memory: free.Memory + f.Memory, GPUs: free.GPUs + f.GPUs}
		all = cluster.Vector{Cores: all.Cores + a.Cores, Memory: all.Memory + a.Memory, GPUs: all.GPUs + a.GPUs}
	}
	return &scarcity{dearness(free.Cores, all.Cores), dearness(int64(free.Memory), int64(all.Memory)), dearness(free.GPUs, all.GPUs)}
}

// dearness is how dear a resource is of which so much is free, 0 if there is none at all.
func dearness(free, all int64) int64 {
	const (
		least = 20         // thousandths: what is nearly used up is dear enough
		scale = 50_000_000 // so that what is nearly used up is at 125,000, and what is all free at 48
	)
	if all <= 0 {
		return 0
	}
	part := least + cluster.MulDiv(max(0, free), 1000, all)
	return scale / (part * part)
}

// left rates what is left over on a node, in ten-thousandths of what it has of each resource times how dear that is: less is better.
func (s *scarcity) left(v, of cluster.Vector) int64 {
	rate := func(weight, left, all int64) int64 {
		if all <= 0 {
			return 0
		}
		return weight * cluster.MulDiv(max(0, left), 10_000, all)
	}
	return rate(s.cores, v.Cores, of.Cores) + rate(s.memory, int64(v.Memory), int64(of.Memory)) + rate(s.gpus, v.GPUs, of.GPUs)
}

// pack finds spots for a gang. A single worker that likes all nodes alike goes where it takes no room that is kept free for
// trial-and-error jobs if it can, and where it leaves least of what is scarce or, once parts of GPUs are asked for, where it leaves most of those usable.
func (t *trial) pack(c *contender) ([]fit.Spot, bool) {
	g := c.asks(t)
	alone := t.byService && g.Size() == 1 && g.Levels == nil
	switch {
	case alone && t.sharing():
		spots, ok := t.leaveUsable(g, c.job.Class == jobspec.BE)
		return spots, ok && t.spare.allows(t, c, spots)
	case !alone || len(t.view.Nodes()) > packNodes:
		spots, ok := t.room.Place(g)
		return spots, ok && t.spare.allows(t, c, spots)
	}
	node := t.tightest(g, c.job.Class == jobspec.BE)
	if node < 0 {
		return nil, false
	}
	spots, ok := t.room.PlaceOn(g, node)
	return spots, ok && t.spare.allows(t, c, spots)
}

// tightest returns the node that is left with least, -1 if a worker fits on none.
func (t *trial) tightest(g *fit.Gang, spare bool) int {
	defer t.room.Waive(g.For)()
	if t.dear == nil {
		t.dear = newScarcity(t)
	}
	best, lost, least := -1, 0, int64(0)
	for node := range t.view.Nodes() {
		if !t.room.Usable(node, &g.Part, g.Exclude) || !t.room.Holds(node, &g.Part) {
			continue
		}
		cost := 0
		if spare && t.spare != nil {
			cost = t.spare.cost(t, node, g.Request)
		}
		left := t.dear.left(fit.Minus(t.room.Available(node), g.Request).Active, t.room.Total(node))
		if best < 0 || cost < lost || cost == lost && left < least {
			best, lost, least = node, cost, left
		}
	}
	return best
}
