package reconcile

import (
	"time"

	"github.com/rota-hpc/rota/controld/model"
)

// CauseGPUMemory is the cause in the journal of a container that is killed for its GPU's memory. No
// controller gives it.
const CauseGPUMemory model.Cause = "gpu-memory"

// Excess says that a worker uses more of a GPU's memory than it declared. The zero value says that
// it does not.
type Excess struct {
	Message string    // how much it uses and declared
	Until   time.Time // it must use less
}

// excessAction is for a running container that uses, or used, too much of its GPU's memory. A
// notice comes first, and the kill when the grace is over. The notice goes when the excess has
// ended.
func excessAction(f *Facts, now time.Time) Action {
	over := f.Excess.Message != ""
	switch {
	case f.Entry.Stopped == CauseGPUMemory:
		return Action{Kind: Kill}
	case over && !f.Kept && !now.Before(f.Excess.Until):
		return Action{Kind: Evict}
	case over != f.Warned && (f.Desired == nil || f.Desired.Stop == nil): // the notice of a stop stays
		return Action{Kind: Warn}
	}
	return Action{}
}

// evictedReport changes the report of a container that was killed for its GPU's memory: it says so.
func evictedReport(f *Facts, r model.WorkerReport) model.WorkerReport {
	if f.Entry.Stopped != CauseGPUMemory || r.Signal != sigKill {
		return r
	}
	r.OOM, r.Why = true, "it used more GPU memory than it declared" // the daemon was restarted meanwhile
	if f.Excess.Message != "" {
		r.Why = "stopped: " + f.Excess.Message
	}
	return r
}
