package sched

// backfill serves jobs in the order in which they came, and lets everybody pass those that do not fit, however often.
func backfill(t *trial) { newStarter(t).startAny(waiting(t)) }
