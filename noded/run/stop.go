package run

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/journal"
	"github.com/rota-hpc/rota/noded/reconcile"
)

// stop carries out the first part of a stop. It writes the notice that tells the job why it has to
// end, and sends the signal. A stronger cause writes a new notice, and sends its signal if that is
// another one. A daemon that is killed before the journal is written repeats both: that does no
// harm, while a job without notice would lose work. The kill at the deadline is reconcile.Kill.
func (r *Runner) stop(ctx context.Context, id container.ID, f *reconcile.Facts) (Change, error) {
	s := f.Desired.Stop
	if why := cmp.Or(f.NotSaved, f.Save.Problem); why != "" && f.Entry.Stopped == "" {
		r.logOf(id).Warn("cannot save the processes of a job; asking it to stop instead", "why", why)
	}
	n := container.Notice{
		Reason: NoticeReason(s.Cause), Deadline: f.KillAt.UTC().Format(time.RFC3339Nano), Attempt: id.Attempt,
		Signal: s.Signal,
	}
	if err := r.Bundles.Notice(id, n); err != nil {
		// The signal matters more than the notice.
		r.logOf(id).Error("cannot write notice", "err", err)
	}
	if f.Entry.Stopped == "" || f.Entry.Signal != s.Signal {
		if err := r.signalStop(ctx, id, f); err != nil {
			return nil, err
		}
	}
	stopped := journal.Record{Op: journal.Stopped, ID: id.String(), Cause: s.Cause, Signal: s.Signal}
	if err := r.Journal.Append(stopped); err != nil {
		r.logOf(id).Error("cannot record in the journal that a signal was sent", "err", err)
	}
	return func(w *reconcile.Facts) { w.Entry.Stopped, w.Entry.Signal = s.Cause, s.Signal }, nil
}

// signalStop sends the signal of a stop to a worker, and to the steps beside it. A worker that only holds
// their room leaves when they have ended.
func (r *Runner) signalStop(ctx context.Context, id container.ID, f *reconcile.Facts) error {
	var errs []error
	if !f.Desired.Holds() {
		errs = append(errs, r.Runtime.Signal(ctx, id, stopSignal(f.Desired)))
	}
	if stopsSteps(f.Desired) {
		errs = append(errs, r.signalSteps(ctx, id, stopSignal(f.Desired)))
	}
	return errors.Join(errs...)
}

// NoticeReason returns the reason in the notice file for a cause.
func NoticeReason(c model.Cause) string {
	switch c {
	case model.CauseTE, model.CauseReclaim, model.CauseOrder, model.CauseRequeue:
		return "preempt"
	case model.CauseCancelled:
		return "cancel"
	}
	return string(c)
}

// stopSignal returns the signal with which a worker is asked to stop. If the job says so, only the
// shell of a job that must save and leave gets the signal. It is not left to the programs of a
// script alone: its shell would go on behind them, and seem to complete the job.
func stopSignal(d *api.Alloc) container.Signal {
	s := container.Signal{Number: container.SignalNumber(d.Stop.Signal)}
	if to := signalTo(d.Spec); to == jobspec.SignalScript && savesBefore(d.Stop.Cause) {
		s.To = to
	}
	return s
}

// savesBefore reports whether a job that is stopped for a cause gets the signal of its preemption, to
// save its work.
func savesBefore(c model.Cause) bool {
	switch c {
	case model.CauseRequeue, model.CauseShrink, model.CauseGrow, model.CauseMigrate, model.CauseDrain:
		return true
	}
	return c.Preempts()
}

// signalTo says which processes get the signal of a job's preemption.
func signalTo(spec *jobspec.Job) string {
	if spec == nil || spec.Preemption == nil {
		return ""
	}
	return spec.Preemption.SignalTo
}
