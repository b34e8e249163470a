package run

import (
	"context"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec/hostlist"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/journal"
	"github.com/rota-hpc/rota/noded/reconcile"
)

// switchTo has a container pause, or go on with cores of its own. The container's status says when
// that is done. The shim knows the number of the last order, so that a repeated one does nothing.
func (r *Runner) switchTo(ctx context.Context, id container.ID, f *reconcile.Facts) (Change, error) {
	d := f.Desired.Switch
	o := container.SwitchOrder{Number: d.Number}
	if d.Pause {
		o.WithinMS, o.NoFreeze = model.PauseWithin, r.GPUs.WhyNotFreeze(ctx, f.Desired.GPUs, func(pid int) bool {
			of, known := r.Runtime.ContainerOf(pid)
			return known && of.OfWorker() != id || !known && r.Serves != nil && r.Serves(pid)
		})
		if err := r.Runtime.Switch(ctx, id, o); err != nil {
			return nil, err
		}
		return func(w *reconcile.Facts) { w.Ordered(o.Number) }, nil
	}
	cores := f.Entry.Cores
	if r.Cores != nil && len(cores) == 0 {
		if cores = r.Cores.Take(int(f.Desired.Request.Active.Cores), r.GPUs.NUMANode(f.Desired.GPUs)); cores == nil {
			return nil, ErrNoCores
		}
		if err := r.Journal.Append(journal.Record{Op: journal.Bound, ID: id.String(), Cores: cores}); err != nil {
			r.releaseCores(cores)
			return nil, err
		}
	}
	o.Cores = hostlist.Numbers(cores)
	err := r.Runtime.Switch(ctx, id, o)
	return func(w *reconcile.Facts) {
		w.Entry.Cores = cores
		if err == nil {
			w.Ordered(o.Number)
		}
	}, err
}

// yield gives the cores of a paused container back. From then on it may be reported as paused.
func (r *Runner) yield(id container.ID, f *reconcile.Facts) (Change, error) {
	if err := r.Journal.Append(journal.Record{Op: journal.Bound, ID: id.String()}); err != nil {
		return nil, err
	}
	r.releaseCores(f.Entry.Cores)
	return func(w *reconcile.Facts) { w.Entry.Cores = nil }, nil
}
