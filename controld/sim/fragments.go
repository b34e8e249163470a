package sim

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/fsm/grid"
	"github.com/rota-hpc/rota/controld/model"
)

// fragmentation is the expected part of the free GPUs that a job like those of the trace cannot
// use. It is FGD, weighted by the frequency of such jobs: see [grid.FreeResources.Unusable].
func (e *engine) fragmentation(s *snapshot) float64 {
	if s.gpus == 0 {
		return 0
	}
	kinds := e.kinds()
	unusable := 0.0
	var rest grid.FreeResources
	for node := range s.grid.Len() {
		if rest = s.grid.FreeResources(node, rest.Shared); rest.GPUs() == 0 {
			continue
		}
		for _, k := range kinds {
			if n := rest.UnusableFor(k.Worker); n > 0 {
				unusable += float64(n) * float64(k.Count) / float64(len(e.runs))
			}
		}
	}
	return unusable / float64(s.gpus)
}

// kinds returns the workers of all jobs that have arrived, in order, and how many jobs have each.
func (e *engine) kinds() []estimate.RequestCount {
	count := map[model.Vector]int64{}
	for i := range e.runs {
		count[e.runs[i].job.Request]++
	}
	kinds := make([]estimate.RequestCount, 0, len(count))
	for worker, n := range count {
		kinds = append(kinds, estimate.RequestCount{Worker: worker, Count: n})
	}
	slices.SortFunc(kinds, func(a, b estimate.RequestCount) int {
		return cmp.Or(cmp.Compare(a.Worker.GPUs, b.Worker.GPUs), cmp.Compare(a.Worker.Cores, b.Worker.Cores),
			cmp.Compare(a.Worker.Memory, b.Worker.Memory))
	})
	return kinds
}
