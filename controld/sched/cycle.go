package sched

import "github.com/rota-hpc/rota/controld/cluster"

// Cycle decides what to do at now, given everything in v. The plan may be empty: see [cluster.CommitPlan.Empty]. One without actions may still note that
// the service order was checked, so that this is not done again at every event. The second result is the next instant, later than now, at which another
// cycle could decide otherwise although nothing has changed by then; 0 if there is none. To run many cycles, keep a [Desk].
func Cycle(v *cluster.View, now cluster.Instant, p cluster.Policy) (cluster.CommitPlan, cluster.Instant) {
	return new(Desk).Cycle(v, now, p)
}
