package compare

import (
	"slices"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// lasLevels are the bounds of attained service between the levels of policy las, in ms of one GPU.
var lasLevels = [2]int64{3_250_000, 72_000_000}

// LAS serves jobs by least attained service: levels of GPU time held so far, then age. At every
// round, running jobs outside the first in order are displaced for jobs inside (discretised
// two-dimensional LAS).
func LAS(t *scratch.State) {
	minimum := model.Instant(t.Policy.MinRunMS)
	displace(t, minimum, func(j *model.Job) int64 {
		attained := attainedBy(j, t.Now)
		level, _ := slices.BinarySearch(lasLevels[:], attained+1)
		return int64(level)
	})
}

// attainedBy is the GPU time that a job has held, in ms of one GPU; of jobs without GPUs the time
// of their workers.
func attainedBy(j *model.Job, now model.Instant) int64 {
	sum := scratch.RanInAll(j, now)
	if gpus := j.Total().GPUs; gpus > 0 {
		return model.GPUTime(sum, gpus)
	}
	return sum * int64(j.Workers)
}
