package baseline

import (
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/policy"
	"github.com/rota-hpc/rota/controld/sched/preempt"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// Random takes them by chance.
func Random(t *scratch.State, cache *preempt.Cache) policy.Policy {
	return newFitGpp(t, cache, func(p *fitgppPolicy, j *model.Job, g *fit.Gang) bool {
		return p.until(j, g, func() *preempt.Candidate { return p.drawn(j, p.mayTake) })
	})
}
