package compare

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/baseline"
	"github.com/rota-hpc/rota/controld/sched/reserve"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// ShortestFirst serves the jobs with the lowest time limit first, those without one last, and lets
// others pass as backfill does.
func ShortestFirst(t *scratch.State) {
	jobs := slices.Collect(baseline.Waiting(t))
	slices.SortFunc(jobs, func(a, b *model.Job) int {
		return cmp.Or(cmp.Compare(reserve.StartedNow(t, a), reserve.StartedNow(t, b)), cmp.Compare(a.ID, b.ID))
	})
	baseline.NewStarter(t).StartAny(slices.Values(jobs))
}
