package sim

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/cluster"
)

// fragmentation is the expected part of the free GPUs that a job like those of the trace cannot use
// (FGD, weighted by the frequency of such jobs): see [cluster.Rest.Unusable].
func (e *engine) fragmentation(s *snapshot) float64 {
	if s.gpus == 0 {
		return 0
	}
	kinds := e.kinds()
	unusable := 0.0
	var rest cluster.Rest
	for node := range s.grid.Len() {
		if rest = s.grid.Rest(node, rest.Shared); rest.GPUs() == 0 {
			continue
		}
		for _, k := range kinds {
			if n := rest.Unusable(k.Worker); n > 0 {
				unusable += float64(n) * float64(k.Count) / float64(len(e.runs))
			}
		}
	}
	return unusable / float64(s.gpus)
}

// kinds returns the workers of all jobs that have arrived, in order, and how many jobs have each.
func (e *engine) kinds() []cluster.Asked {
	count := map[cluster.Vector]int64{}
	for i := range e.runs {
		count[e.runs[i].job.Request]++
	}
	kinds := make([]cluster.Asked, 0, len(count))
	for worker, n := range count {
		kinds = append(kinds, cluster.Asked{Worker: worker, Count: n})
	}
	slices.SortFunc(kinds, func(a, b cluster.Asked) int {
		return cmp.Or(cmp.Compare(a.Worker.GPUs, b.Worker.GPUs), cmp.Compare(a.Worker.Cores, b.Worker.Cores),
			cmp.Compare(a.Worker.Memory, b.Worker.Memory))
	})
	return kinds
}
