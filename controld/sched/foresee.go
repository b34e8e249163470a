package sched

import (
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
)

// foreseeCycles is how many further cycles are looked at. Policies check the order of service once
// a minute, and wait until a job has run for its least time.
const foreseeCycles = 8

// Foreseen is the list of stops and resizes that a waiting job would cause.
type Foreseen struct {
	Displacements []steering.Displacement
	After         model.Instant // from now on; 0: at once
	DryRun        bool          // it would only be recorded: an operator has a dry run on
}

// Foresee returns which running jobs would be asked to leave for a job or for its members, whose
// ids follow its own. It runs the cycles that would come next on the view, which stays as it is:
// the first that asks a job to leave decides. They are not carried out, so it does not foresee jobs
// that end or start meanwhile.
func Foresee(v *state.View, now model.Instant, p cluster.Policy, first, last model.JobID) Foreseen {
	m := new(memory)
	settings := v.Steering().WithoutDryRun()
	for at, n := now, 0; n <= foreseeCycles; n++ {
		t, _ := decide(v, at, p, settings, m)
		out := Foreseen{After: at - now, DryRun: v.Steering().Setting(steering.DryRun) != nil}
		for _, x := range displacements(t) {
			if x.For >= first && x.For <= last {
				out.Displacements = append(out.Displacements, x)
			}
		}
		if len(out.Displacements) > 0 {
			return out
		}
		if t.NextWake() <= at {
			break
		}
		at = t.NextWake()
	}
	return Foreseen{}
}
