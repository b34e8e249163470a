package workers

import (
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/noded/container"
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
		h.Outbox.Put(w.ID, report.Result(*w.Entry.Final))
		return
	}
	h.Outbox.Put(w.ID, report.State(state))
}

// queueSwitch reports that the worker has carried out the last order to pause or to go on, or why
// it cannot. It reports each of them once.
func (h held) queueSwitch(w *worker) {
	n := report.Switch{Number: w.SwitchDone(), Unpaused: w.Unpaused()}
	if n.Unpaused != "" {
		n.Number = w.Switch.Ordered
	} else if n.Number != 0 {
		n.Means, n.TookMS = string(w.Switch.Means), max(1, w.Switch.TookMS)
	}
	if n.Number == 0 || n == w.lastSwitch || w.Kept {
		return
	}
	w.lastSwitch = n
	if n.Unpaused != "" {
		h.logOf(w.ID).Warn("cannot suspend a job", "why", n.Unpaused)
	}
	h.Outbox.Put(w.ID, n)
}

// queueLoss reports lost output: the first bytes, and when the loss has doubled. So a worker has
// few such reports, whatever it writes. The result of the worker has the exact number.
func (h held) queueLoss(w *worker) {
	if l := w.Lost; w.Actual == container.Running && l.Bytes > 0 && l.Bytes >= 2*w.lastLoss.Bytes && !w.Kept {
		w.lastLoss = l
		h.logOf(w.ID).Warn("output of a job is lost", "bytes", l.Bytes, "why", l.Why())
		h.Outbox.Put(w.ID, report.Loss(l))
	}
}

// Confirmed notes which results the controllers have confirmed, among states of workers.
func (t *Table) Confirmed(states []model.WorkerReport) {
	h, unlock := t.lock()
	defer unlock()
	if h.ctx.Err() != nil {
		return
	}
	for _, r := range states {
		if w := h.workers[report.WorkerOf(r)]; w != nil && r.State.Final() {
			w.Confirmed = true
			h.reconcile(w)
		}
	}
}
