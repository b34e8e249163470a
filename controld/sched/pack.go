package sched

import (
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
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

// packer finds nodes for single workers so that what is left over stays useful to others.
type packer struct {
	*trial
	dear    *scarcity // nil until it is needed
	mix     *mixture
	mixRead bool
}

func newPacker(t *trial) *packer { return &packer{trial: t} }

// usual returns what jobs usually ask for, nil if nothing is known.
func (t *packer) usual() *mixture {
	if !t.mixRead {
		t.mix, t.mixRead = newMixture(t.view), true
	}
	return t.mix
}

// took notes that something has started at some spots.
func (t *packer) took(spots []fit.Spot) { t.mix.forget(spots) }

// sharing reports whether parts of GPUs are asked for, so that placements have to look at what they break.
func (t *packer) sharing() bool {
	m := t.usual()
	return m != nil && (m.shares || t.policy.Placement == "frag") && t.policy.Placement != "tight"
}

// leftover rates what is left over on a node beside a worker: see [scarcity.left].
func (t *packer) leftover(node int, worker cluster.Request) int64 {
	if t.dear == nil {
		t.dear = newScarcity(t.trial)
	}
	return t.dear.left(fit.Minus(t.room.Available(node), worker).Active, t.room.Total(node))
}

// tightest returns the node that is left with least, -1 if a worker fits on none.
func (t *packer) tightest(g *fit.Gang, lost func(node int, worker cluster.Request) int) int {
	defer t.room.Waive(g.For)()
	best, fewest, least := -1, 0, int64(0)
	for node := range t.view.Nodes() {
		if !t.room.Usable(node, &g.Part, g.Exclude) || !t.room.Holds(node, &g.Part) {
			continue
		}
		cost := 0
		if lost != nil {
			cost = lost(node, g.Request)
		}
		left := t.leftover(node, g.Request)
		if best < 0 || cost < fewest || cost == fewest && left < least {
			best, fewest, least = node, cost, left
		}
	}
	return best
}
