package noded

import (
	"context"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec/hostlist"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/journal"
	"github.com/rota-hpc/rota/noded/reconcile"
	"github.com/rota-hpc/rota/noded/report"
)

// switchTo has a container pause, or go on with cores of its own. The container's status says when
// that is done. The shim knows the number of the last order, so that a repeated one does nothing.
func (a *Agent) switchTo(ctx context.Context, id container.ID, f reconcile.Facts) (func(*worker), error) {
	d := f.Desired.Switch
	o := container.SwitchOrder{Number: d.Number}
	if d.Pause {
		o.WithinMS, o.NoFreeze = model.PauseWithin, a.gpus.WhyNotFreeze(ctx, f.Desired.GPUs, func(pid int) bool {
			of, known := a.Runtime.ContainerOf(pid)
			return known && of.OfWorker() != id || !known && a.Serves != nil && a.Serves(pid)
		})
		if err := a.Runtime.Switch(ctx, id, o); err != nil {
			return nil, err
		}
		return func(w *worker) { w.Ordered(o.Number) }, nil
	}
	cores := f.Entry.Cores
	if a.Cores != nil && len(cores) == 0 {
		if cores = a.Cores.Take(int(f.Desired.Request.Active.Cores), a.gpus.NUMANode(f.Desired.GPUs)); cores == nil {
			return nil, errNoCores
		}
		if err := a.Journal.Append(journal.Record{Op: journal.Bound, ID: id.String(), Cores: cores}); err != nil {
			a.releaseCores(cores)
			return nil, err
		}
	}
	o.Cores = hostlist.Numbers(cores)
	err := a.Runtime.Switch(ctx, id, o)
	return func(w *worker) {
		w.Entry.Cores = cores
		if err == nil {
			w.Ordered(o.Number)
		}
	}, err
}

// yield gives the cores of a paused container back. From then on it may be reported as paused.
func (a *Agent) yield(id container.ID, f reconcile.Facts) (func(*worker), error) {
	if err := a.Journal.Append(journal.Record{Op: journal.Bound, ID: id.String()}); err != nil {
		return nil, err
	}
	a.releaseCores(f.Entry.Cores)
	return func(w *worker) { w.Entry.Cores = nil }, nil
}

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
