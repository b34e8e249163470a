package place

import (
	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/fsm/grid"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/fit"
)

// Mix is the requests that are usual, and how much of the free GPUs of each node is of no use to
// them. That is the measure of FGD (ATC'23), in thousandths of a GPU times the workers that are
// known.
type Mix struct {
	Kinds  []estimate.RequestCount
	shares bool    // some ask for a part of a GPU
	at     []int64 // by node; -1: not known now
	shared []int64 // scratch
}

// newMix returns the mix that the state has learned, nil if nothing is known.
func newMix(v *state.View) *Mix {
	l := v.Statistics()
	if l == nil || l.Mix == nil || len(l.Mix.Kinds) == 0 {
		return nil
	}
	m := &Mix{Kinds: l.Mix.Kinds, at: make([]int64, len(v.Nodes()))}
	for i := range m.at {
		m.at[i] = -1
	}
	for i := range m.Kinds {
		m.shares = m.shares || m.Kinds[i].Worker.GPUs < model.WholeGPU
	}
	return m
}

// forget drops the cached values of nodes on which a job has started.
func (m *Mix) forget(spots []fit.Spot) {
	if m == nil {
		return
	}
	for i := range spots {
		m.at[spots[i].Node] = -1
	}
}

// Unusable adds up, over all kinds, the free GPUs of a node that the kind cannot use.
func (m *Mix) Unusable(r *grid.FreeResources) int64 {
	all := r.GPUs()
	if all == 0 {
		return 0
	}
	most, least := int64(0), int64(model.WholeGPU)
	for _, left := range r.Shared {
		most, least = max(most, left), min(least, left)
	}
	shared, sum := all-r.Empty*model.WholeGPU, int64(0)
	for i := range m.Kinds {
		k := &m.Kinds[i]
		need := k.Worker.GPUs
		switch {
		case k.Worker.Cores > r.Cores || k.Worker.Memory > r.Memory || r.Empty*model.WholeGPU < need && most < need:
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
