package present

import (
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/generation"
)

// Generation is how the generation of the cluster began, nil for generation 0.
func Generation(v *state.View, now model.Instant) *api.GenerationState {
	r := v.Recovery()
	if r.Generation.Number == 0 {
		return nil
	}
	out := &api.GenerationState{Generation: r.Generation.String(), Means: r.Means, Controller: r.Controller,
		Raised: api.At(r.Raised.Wall), Settled: !r.Holds(), Need: generation.Majority(len(v.Nodes())), Unknown: r.Unknown,
		Held: len(r.Ran)}
	if len(v.Nodes()) == 0 {
		out.Need = 0
	}
	for _, n := range v.Nodes() {
		if r.Accepts(n.Name) {
			out.Accepted++
		} else {
			out.Missing = append(out.Missing, n.Name)
		}
	}
	if left := r.OldJobsAt - now; left > 0 {
		out.OldJobsIn = int64(left+999) / 1000
	}
	return out
}
