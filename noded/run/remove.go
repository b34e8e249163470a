package run

import (
	"context"

	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/journal"
	"github.com/rota-hpc/rota/noded/reconcile"
)

// remove removes all of an ended container but its log.
func (r *Runner) remove(ctx context.Context, id container.ID) (Change, error) {
	if err := r.Places.Clear(ctx, id); err != nil {
		return nil, err
	}
	return func(w *reconcile.Facts) { w.Actual = "" }, nil
}

// forget removes an intent whose container was never created, or the remains of a kept one.
func (r *Runner) forget(ctx context.Context, id container.ID, f *reconcile.Facts) (Change, error) {
	if err := r.Places.Clear(ctx, id); err != nil {
		return nil, err
	}
	if err := r.Journal.Append(journal.Record{Op: journal.Forget, ID: id.String()}); err != nil {
		return nil, err
	}
	if f.Entry.Final == nil {
		r.releaseCores(f.Entry.Cores)
	}
	return func(w *reconcile.Facts) { w.Journaled, w.Entry = false, journal.Entry{} }, nil
}
