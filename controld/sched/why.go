package sched

import (
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
)

// Explain computes why a job waits, as [Cycle] at now sees it. For a job that does not wait the reason is what the state knows of it, and for an unknown
// id it is empty.
func Explain(v *cluster.View, now cluster.Instant, p cluster.Policy, id cluster.JobID) Explanation {
	return reasonsAt(v, now, p).explain(id)
}

// Reasons returns a function that says why a job waits. It runs one cycle, and then looks once at each distinct request that it is asked about, so that
// listing the whole queue costs little more than listing its groups. Not for concurrent use.
func Reasons(v *cluster.View, now cluster.Instant, p cluster.Policy) func(cluster.JobID) cluster.Reason {
	return reasonsAt(v, now, p).reason
}

func reasonsAt(v *cluster.View, now cluster.Instant, p cluster.Policy) *reasons {
	after, rules := new(Desk).decide(v, now, p)
	return newReasons(newTrial(v, now, p, new(fit.Room)), after, rules)
}
