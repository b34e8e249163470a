package workers

import (
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/noded/reconcile"
	"github.com/rota-hpc/rota/noded/report"
)

// queueReport puts the state of the worker into the outbox, if it was not reported yet.
func (h held) queueReport(w *worker) {
	state := reconcile.Reportable(&w.Facts)
	if state == "" || state == w.lastReported || w.Kept {
		return
	}
	w.lastReported = state
	if w.Entry.Final != nil {
		h.Outbox.PutState(*w.Entry.Final)
		return
	}
	h.Outbox.PutState(report.Of(w.ID, state))
}

// queueSwitch puts into the outbox that the worker has carried out the last order to pause or to go
// on, or why it cannot, if that was not reported yet.
func (h held) queueSwitch(w *worker) {
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
		h.logOf(w.ID).Warn("a job does not pause", "why", r.Unpaused)
	}
	h.Outbox.PutFinding(r)
}

// Confirmed notes which results the controllers have confirmed.
func (t *Table) Confirmed(workers []model.WorkerReport) {
	h, unlock := t.lock()
	defer unlock()
	if h.ctx.Err() != nil {
		return
	}
	for _, r := range workers {
		if w := h.workers[report.WorkerOf(r)]; w != nil && r.State.Final() && r.Policy == "" {
			w.Confirmed = true
			h.reconcile(w)
		}
	}
}
