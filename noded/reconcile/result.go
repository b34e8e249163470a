package reconcile

import (
	"cmp"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
)

// recordLost returns the action that records a container whose exit record is missing.
func recordLost(f *Facts) Action {
	message := "its shim was lost"
	if f.Actual == "" {
		message = "its container disappeared without an exit record"
	}
	if f.LostReason != "" {
		message += ": " + f.LostReason
	}
	return Action{Kind: Finish, Result: model.WorkerReport{State: model.WorkerFailed, Began: f.Began(),
		Message: message}}
}

// exitReport is the report of an exited container. A job whose processes were saved counts as one
// that has saved by itself.
func (f *Facts) exitReport() model.WorkerReport {
	r := exitReport(f.Exit, f.Entry.Started)
	if f.Exit != nil && f.Exit.Saved {
		r.ExitCode, r.Signal = jobspec.DefaultCheckpointExitCode, 0
		if f.Desired != nil && f.Desired.Spec != nil {
			r.ExitCode = f.Desired.Spec.Checkpoint.SavedCode()
		}
	}
	return evictedReport(f, r)
}

// exitReport turns the exit record of a container into the worker's report. The controllers derive
// the state of the attempt from it.
func exitReport(e *container.Exit, began bool) model.WorkerReport {
	if e == nil {
		return model.WorkerReport{State: model.WorkerFailed, Began: began,
			Message: "its exit record cannot be read"}
	}
	if e.NotRestored {
		return model.WorkerReport{State: model.WorkerFailed, Message: "its processes could not be restored: " + e.Why}
	}
	return model.WorkerReport{State: model.WorkerExited, ExitCode: e.Code, Signal: e.Signal, OOM: e.OOM,
		Lease: e.Lease, Why: cmp.Or(e.Killed, e.Why), Unbegun: e.Unbegun || !began, Own: e.Own, Finished: e.Finished}
}

// Reportable returns the state that is to be reported to the controllers, "" for none. A
// single worker goes from assigned to running at once, so that its creation is not reported.
func Reportable(f *Facts) model.WorkerState {
	switch {
	case f.Entry.Final != nil:
		return f.Entry.Final.State
	case f.Actual == container.Running:
		return model.WorkerRunning
	case f.Actual == container.Created && f.Desired != nil && !f.Desired.Released:
		return model.WorkerCreated
	}
	return ""
}

const sigKill = 9

// MessageMax is how many bytes of an error a report has.
const MessageMax = 2000

// Message returns the text of an error for a report, cut off at MessageMax bytes.
func Message(err error) string {
	s := err.Error()
	if len(s) > MessageMax {
		return s[:MessageMax] + "…"
	}
	return s
}
