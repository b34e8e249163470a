package run

import (
	"context"

	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/journal"
	"github.com/rota-hpc/rota/noded/reconcile"
)

// start starts the command of a container. The journal is written first: a container that may have
// been started is never created again.
func (r *Runner) start(ctx context.Context, id container.ID, f *reconcile.Facts) (Change, error) {
	if err := r.Journal.Append(journal.Record{Op: journal.Started, ID: id.String()}); err != nil {
		return nil, err
	}
	started := func(w *reconcile.Facts) { w.Entry.Started = true }
	if err := r.Runtime.Start(ctx, id); err != nil {
		return started, err // its shim may be slow: the attempt has not failed while the container may run
	}
	return func(w *reconcile.Facts) { started(w); w.Advance(container.Running) }, nil
}
