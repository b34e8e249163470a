package noded

import (
	"context"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/journal"
	"github.com/rota-hpc/rota/noded/reconcile"
)

// noticeTimeout is the reason in the notice of a job whose time limit comes.
const noticeTimeout = "timeout"

// tellEarly tells a container that its time limit comes: it writes the notice and sends the signal. A
// daemon that is killed before the journal is written repeats both: the shim passes the signal on
// once, and the notice says the same again.
func (a *Agent) tellEarly(ctx context.Context, id container.ID, f reconcile.Facts) (func(*worker), error) {
	if f.Excess.Message == "" { // else the notice follows when that is over
		if err := a.Bundles.Notice(id, earlyNotice(id, f)); err != nil {
			// The signal matters more than the notice.
			a.logOf(id).Error("cannot write notice", "err", err)
		}
	}
	s := container.Signal{Number: container.SignalNumber(f.Desired.Early.Signal), To: signalTo(f.Desired.Spec),
		Early: true}
	if err := a.signalWithSteps(ctx, id, f.Desired, s); err != nil {
		return nil, err
	}
	return a.toldEarly(id)
}

// toldEarly notes that a container was told.
func (a *Agent) toldEarly(id container.ID) (func(*worker), error) {
	if err := a.Journal.Append(journal.Record{Op: journal.Early, ID: id.String()}); err != nil {
		return nil, err
	}
	return func(w *worker) { w.Entry.Early = true }, nil
}

// earlyNotice tells a job when its time limit will be over.
func earlyNotice(id container.ID, f reconcile.Facts) container.Notice {
	return container.Notice{Reason: noticeTimeout, Deadline: f.LimitAt.UTC().Format(time.RFC3339Nano), Attempt: id.Attempt,
		Signal: f.Desired.Early.Signal}
}

// signalTo says which processes get the signal of a job's preemption.
func signalTo(spec *jobspec.Job) string {
	if spec == nil || spec.Preemption == nil {
		return ""
	}
	return spec.Preemption.SignalTo
}

// stopSignal returns the signal with which a worker is asked to stop. One that has to save and leave
// has only its shell signalled if it says so. It is not left to the programs of a script alone: its
// shell would go on behind them, and seem to complete the job.
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
