package sched

import (
	"github.com/rota-hpc/rota/controld/cluster"
)

// remaining serves jobs by what is left of their time limit, which is what srtf is told of how long they run.
func remaining(t *trial) {
	displace(t, cluster.Instant(t.policy.MinRunMS), func(j *cluster.Job) int64 {
		if j.Limit <= 0 {
			return int64(never)
		}
		left := int64(j.Limit) * 1000
		for i := range j.Attempts {
			left -= ranFor(&j.Attempts[i], t.now)
		}
		return max(0, left)
	})
}
