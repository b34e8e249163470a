package run

import (
	"context"
	"errors"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/reconcile"
)

// tellSteps asks the steps of a worker that has ended to end too, unless the stop of their job has done that.
func (r *Runner) tellSteps(ctx context.Context, id container.ID, f *reconcile.Facts) (Change, error) {
	signal, _ := reconcile.StepsStop(f.Desired)
	if f.Desired.Stop != nil && f.Entry.Stopped != "" && stopsSteps(f.Desired) {
		signal = ""
	}
	r.Steps.Recover(id) // so that those are told that an earlier daemon has started
	r.Steps.End(ctx, id, signal, time.Until(f.StepsUntil(time.Now())))
	return func(w *reconcile.Facts) { w.StepsTold = true }, nil
}

// LiveSteps returns the parts of steps beside a worker that have not ended.
func (r *Runner) LiveSteps(id container.ID) []container.ID {
	if r.Steps == nil {
		return nil
	}
	return r.Steps.Local.Live(id)
}

// signalSteps sends a signal to the steps beside a worker.
func (r *Runner) signalSteps(ctx context.Context, id container.ID, s container.Signal) error {
	s.To = "" // the programs of steps have no script around them
	var errs []error
	for _, part := range r.LiveSteps(id) {
		errs = append(errs, r.Runtime.Signal(ctx, part, s))
	}
	return errors.Join(errs...)
}

// SignalWithSteps sends a signal to a worker and to the steps beside it, or to one of them as it
// says. Beside its steps a script runs the commands that have started them, and the signal is not
// for those. A script without a step runs its programs itself.
func (r *Runner) SignalWithSteps(ctx context.Context, id container.ID, d *api.Alloc, s container.Signal) error {
	var errs []error
	steps := d != nil && d.RunsSteps()
	if !steps || !d.Holds() && (s.To != jobspec.SignalPrograms || !r.RunsSteps(id)) {
		errs = append(errs, r.Runtime.Signal(ctx, id, s))
	}
	if steps && s.To != jobspec.SignalScript {
		errs = append(errs, r.signalSteps(ctx, id, s))
	}
	return errors.Join(errs...)
}

// RunsSteps reports whether the job of a first worker has steps that run, here or on other nodes.
func (r *Runner) RunsSteps(id container.ID) bool {
	return r.Steps != nil && (r.Steps.Running(id) || len(r.LiveSteps(id)) > 0)
}

// finishSteps ends the steps of a first worker that has ended, so that they are reported before it.
func (r *Runner) finishSteps(ctx context.Context, id container.ID) {
	if r.Steps == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, finishTime)
	defer cancel()
	r.Steps.Recover(id) // so that those have rows that have ended without a daemon
	r.Steps.Finish(ctx, id)
}

// stopsSteps reports whether the signal of a stop is for the steps too.
func stopsSteps(d *api.Alloc) bool { return d.RunsSteps() && stopSignal(d).To != jobspec.SignalScript }

// finishTime is how long the steps of a job that has ended may take to end on other nodes. The rows of
// those that take longer are lost.
const finishTime = 20 * time.Second
