package run

import (
	"context"
	"time"

	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/journal"
	"github.com/rota-hpc/rota/noded/reconcile"
)

// NoticeTimeout is the reason in the notice of a job whose time limit comes.
const NoticeTimeout = "timeout"

// tellEarly tells a container that its time limit comes: it writes the notice and sends the signal.
// A daemon that is killed before the journal is written repeats both. The shim passes the signal on
// once, and the notice says the same again.
func (r *Runner) tellEarly(ctx context.Context, id container.ID, f *reconcile.Facts) (Change, error) {
	if f.Excess.Message == "" { // else the notice follows when that is over
		if err := r.Bundles.Notice(id, earlyNotice(id, f)); err != nil {
			// The signal matters more than the notice.
			r.logOf(id).Error("cannot write notice", "err", err)
		}
	}
	s := container.Signal{Number: container.SignalNumber(f.Desired.Early.Signal), To: signalTo(f.Desired.Spec),
		Early: true}
	if err := r.SignalWithSteps(ctx, id, f.Desired, s); err != nil {
		return nil, err
	}
	return r.toldEarly(id)
}

// toldEarly notes that a container was told.
func (r *Runner) toldEarly(id container.ID) (Change, error) {
	if err := r.Journal.Append(journal.Record{Op: journal.Early, ID: id.String()}); err != nil {
		return nil, err
	}
	return func(w *reconcile.Facts) { w.Entry.Early = true }, nil
}

// earlyNotice tells a job when its time limit will be over.
func earlyNotice(id container.ID, f *reconcile.Facts) container.Notice {
	return container.Notice{Reason: NoticeTimeout, Deadline: f.LimitAt.UTC().Format(time.RFC3339Nano), Attempt: id.Attempt,
		Signal: f.Desired.Early.Signal}
}
