package run

import (
	"time"

	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/journal"
	"github.com/rota-hpc/rota/noded/reconcile"
)

// NoticeGPUMemory is the reason in the notice of a job that uses too much of its GPU's memory.
const NoticeGPUMemory = "gpu_memory"

// warn writes the notice of an excess, or takes it back.
func (r *Runner) warn(id container.ID, f *reconcile.Facts) (Change, error) {
	over := f.Excess.Message != ""
	if !over {
		if err := r.Bundles.Withdraw(id, NoticeGPUMemory); err != nil {
			return nil, err
		}
		if f.Entry.Early && f.Desired != nil && f.Desired.Early != nil { // that notice has been overwritten
			if err := r.Bundles.Notice(id, earlyNotice(id, f)); err != nil {
				return nil, err
			}
		}
		r.logOf(id).Info("the job is within its declared GPU memory again")
		return func(w *reconcile.Facts) { w.Warned = false }, nil
	}
	r.logOf(id).Warn("a job uses more GPU memory than it declared: it will be stopped unless it frees some",
		"why", f.Excess.Message, "until", f.Excess.Until)
	err := r.Bundles.Notice(id, container.Notice{Reason: NoticeGPUMemory, Attempt: id.Attempt,
		Deadline: f.Excess.Until.UTC().Format(time.RFC3339Nano), Message: f.Excess.Message})
	if err != nil {
		return nil, err
	}
	return func(w *reconcile.Facts) { w.Warned = true }, nil
}

// evict writes down that a container is to be killed for its GPU's memory. The kill follows, also
// by another daemon.
func (r *Runner) evict(id container.ID, f *reconcile.Facts) (Change, error) {
	r.logOf(id).Warn("stopping a job, because it uses more GPU memory than it declared",
		"why", f.Excess.Message)
	stopped := journal.Record{Op: journal.Stopped, ID: id.String(), Cause: reconcile.CauseGPUMemory, Signal: "SIGKILL"}
	if err := r.Journal.Append(stopped); err != nil {
		return nil, err
	}
	return func(w *reconcile.Facts) { w.Entry.Stopped, w.Entry.Signal = reconcile.CauseGPUMemory, "SIGKILL" }, nil
}
