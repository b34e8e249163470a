package compare

import (
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// LeastRemaining serves jobs by the rest of their time limit: the limit is all that srtf knows
// about run times.
func LeastRemaining(t *scratch.State) {
	displace(t, model.Instant(t.Policy.MinRunMS), func(j *model.Job) int64 {
		if j.Limit <= 0 {
			return int64(scratch.Never)
		}
		return max(0, timeLeft(j, t.Now))
	})
}
