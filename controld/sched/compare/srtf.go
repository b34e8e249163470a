package compare

import (
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// LeastRemaining serves jobs by what is left of their time limit, which is what srtf is told of how
// long they run.
func LeastRemaining(t *scratch.State) {
	displace(t, model.Instant(t.Policy.MinRunMS), func(j *model.Job) int64 {
		if j.Limit <= 0 {
			return int64(scratch.Never)
		}
		return max(0, timeLeft(j, t.Now))
	})
}
