package baseline

import (
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// Backfill serves jobs in the order in which they came, and lets later jobs pass those that do not
// fit, however often.
func Backfill(t *scratch.State) { NewStarter(t).StartAny(Waiting(t)) }
