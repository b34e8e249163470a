package noded

import (
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/noded/report"
)

// queueSwitch puts into the outbox that the worker has carried out the last order to pause or to go
// on, or why it cannot, if that was not reported yet. The mutex is held.
func (a *Agent) queueSwitch(w *worker) {
	r := report.Of(w.ID, model.WorkerRunning)
	r.Switch, r.Unpaused = w.SwitchDone(), w.Unpaused()
	if r.Unpaused != "" {
		r.Switch = w.Switch.Ordered
	} else if r.Switch != 0 {
		r.Means, r.TookMS = string(w.Switch.Means), max(1, w.Switch.TookMS)
	}
	if r.Switch == 0 || r == w.lastSwitch || w.Kept {
		return
	}
	w.lastSwitch = r
	if r.Unpaused != "" {
		a.logOf(w.ID).Warn("a job does not pause", "why", r.Unpaused)
	}
	a.out.PutFinding(r)
}
