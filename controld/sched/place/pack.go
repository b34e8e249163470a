package place

import (
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// PackNodes is up to how many nodes a cluster may have for every node to be looked at for each
// start. Larger clusters have many nodes of every kind, so that the usual search does as well.
const PackNodes = 2048

// scarcity says how dear each resource is: the less of it is free in the whole cluster, the dearer
// it is. Twice as scarce is four times as dear, so that a plentiful resource does not decide where
// the last of a scarce one goes.
type scarcity struct {
	cores, memory, gpus int64
}

// newScarcity returns how dear the resources are now.
func newScarcity(t *scratch.State) *scarcity {
	var free, all model.Vector
	for i, n := range t.View.Nodes() {
		if n.State != model.NodeUp {
			continue
		}
		free, all = free.Plus(t.Room.Free(i).Active), all.Plus(t.Room.Total(i))
	}
	return &scarcity{dearness(free.Cores, all.Cores), dearness(int64(free.Memory), int64(all.Memory)),
		dearness(free.GPUs, all.GPUs)}
}

// dearness is the price of a resource by its free part, 0 if the cluster has none of it.
func dearness(free, all int64) int64 {
	const (
		least = 20         // thousandths: a nearly used up resource is dear enough
		scale = 50_000_000 // so that a nearly used up resource is at 125,000, and a wholly free one at 48
	)
	if all <= 0 {
		return 0
	}
	part := least + model.MulDiv(max(0, free), 1000, all)
	return scale / (part * part)
}

// left rates the rest of a node, in ten-thousandths of each resource of the node times its
// dearness. Less is better.
func (s *scarcity) left(v, of model.Vector) int64 {
	rate := func(weight, left, all int64) int64 {
		if all <= 0 {
			return 0
		}
		return weight * model.MulDiv(max(0, left), 10_000, all)
	}
	return rate(s.cores, v.Cores, of.Cores) + rate(s.memory, int64(v.Memory), int64(of.Memory)) +
		rate(s.gpus, v.GPUs, of.GPUs)
}

// Packer finds nodes for single workers so that the remaining room stays useful to others.
type Packer struct {
	state   *scratch.State
	dear    *scarcity // nil until it is needed
	mix     *Mix
	mixRead bool
}

// NewPacker returns a packer for one cycle.
func NewPacker(t *scratch.State) *Packer { return &Packer{state: t} }

// Usual returns the usual requests of jobs, nil if unknown.
func (t *Packer) Usual() *Mix {
	if !t.mixRead {
		t.mix, t.mixRead = newMix(t.state.View), true
	}
	return t.mix
}

// Took notes that something has started at some spots.
func (t *Packer) Took(spots []fit.Spot) { t.mix.forget(spots) }

// Sharing reports whether jobs ask for parts of GPUs, so that placements must count the GPUs that
// they break.
func (t *Packer) Sharing() bool {
	m := t.Usual()
	return m != nil && (m.shares || t.state.Policy.Placement == "frag")
}

// Leftover rates the room that is left on a node beside a worker: see [scarcity.left].
func (t *Packer) Leftover(node int, worker model.Request) int64 {
	if t.dear == nil {
		t.dear = newScarcity(t.state)
	}
	return t.dear.left(t.state.Room.Available(node).Minus(worker).Active, t.state.Room.Total(node))
}

// Tightest returns the node that is left with least, -1 if a worker fits on none.
func (t *Packer) Tightest(g *fit.Gang, lost func(node int, worker model.Request) int) int {
	lifted := t.state.Room.Lift(g.For)
	defer lifted.Restore()
	best, fewest, least := -1, 0, int64(0)
	for node := range t.state.Room.Holding(g) {
		cost := 0
		if lost != nil {
			cost = lost(node, g.Request)
		}
		left := t.Leftover(node, g.Request)
		if best < 0 || cost < fewest || cost == fewest && left < least {
			best, fewest, least = node, cost, left
		}
	}
	return best
}
