package compare

import (
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/baseline"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/policy"
	"github.com/rota-hpc/rota/controld/sched/preempt"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// Random takes them by chance.
func Random(t *scratch.State, cache *preempt.Cache) policy.Phases {
	return baseline.NewFitGpp(t, cache, func(p *baseline.FitGppPolicy, j *model.Job, g *fit.Gang) bool {
		return until(p, j, g, func() *preempt.Candidate { return p.Drawn(j, p.MayTake) })
	})
}
