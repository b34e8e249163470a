package run

import (
	"context"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/journal"
	"github.com/rota-hpc/rota/noded/reconcile"
)

// recordResult writes the result of a container to the journal. From then on its cores are free.
// Before that its GPUs are checked for processes that are left on them.
func (r *Runner) recordResult(
	ctx context.Context, id container.ID, f *reconcile.Facts, result model.WorkerReport,
) (Change, error) {
	result.Job, result.Attempt, result.Worker = model.JobID(id.Job), id.Attempt, id.Worker
	r.finishSteps(ctx, id)
	result.Usage, result.OutputLost = r.Usage(id, f), f.OutputLost()
	if f.Desired != nil && f.Entry.Started {
		for _, n := range f.Desired.GPUs {
			if !r.GPUs.AwaitVacant(ctx, n) {
				r.Register(ctx)
			}
		}
		r.Outbox.PutSamples(r.Progress(id), false) // the last progress is reported with the end
		r.Findings(id)
		result.Total = r.ReachedTotal(id, f.Desired)
	}
	if err := r.Journal.Append(journal.Record{Op: journal.Final, ID: id.String(), Final: &result}); err != nil {
		return nil, err
	}
	if e, ok := r.Journal.Entry(id.String()); ok && e.Final != nil {
		result = *e.Final // the first result stands, even if writing it seemed to fail
	}
	return func(w *reconcile.Facts) {
		r.releaseCores(w.Entry.Cores)
		w.Journaled, w.Entry.ID, w.Entry.Cores, w.Entry.Final = true, id.String(), nil, &result
	}, nil
}
