package noded

import (
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/noded/reconcile"
	"github.com/rota-hpc/rota/noded/report"
)

// queueReport puts the state of the worker into the outbox, if it was not reported yet. The mutex
// is held.
func (a *Agent) queueReport(w *worker) {
	state := reconcile.Reportable(&w.Facts)
	if state == "" || state == w.lastReported || w.Kept {
		return
	}
	w.lastReported = state
	if w.Entry.Final != nil {
		a.out.PutState(*w.Entry.Final)
		return
	}
	a.out.PutState(report.Of(w.ID, state))
}

// markConfirmed notes which results the controllers have confirmed.
func (a *Agent) markConfirmed(workers []model.WorkerReport) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ctx.Err() != nil {
		return
	}
	for _, r := range workers {
		if w := a.workers[report.WorkerOf(r)]; w != nil && r.State.Final() && r.Policy == "" {
			w.Confirmed = true
			a.reconcile(w)
		}
	}
}
