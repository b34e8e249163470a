package noded

import (
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/journal"
)

// facts is all that a decision about one container depends on.
type facts struct {
	DesiredUnknown bool            // no controller has said yet, since this daemon started, what is wanted
	Desired        *api.Alloc      // nil: the controllers do not want it, unless Unheard
	KillAt         time.Time       // when Desired.Stop runs out, on this machine's clock
	Actual         container.State // "": there is none
	Exit           *container.Exit // of an exited one
	LostReason     string          // of a lost one
	Entry          journal.Entry   // zero: nothing has been written down
	Journaled      bool            // Entry is there
	Confirmed      bool            // the controllers have confirmed Entry.Final
	Blocked        bool            // an earlier attempt of the job still runs here
	Tries          int             // how often the step that is due has failed
}

// op is what may be done to one container.
type op string

// The steps. Each is idempotent: done again after a crash it changes nothing, or goes on where it was.
const (
	opNone   op = ""
	opCreate op = "create"
	opStart  op = "start"
	opStop   op = "stop" // notice and signal
	opKill   op = "kill"
	opFinish op = "finish" // write down what became of it
	opRemove op = "remove" // nothing of it is needed any more
	opForget op = "forget" // it never ran
)

// step is an op with what it needs.
type step struct {
	Op     op
	Result cluster.WorkerReport // of opFinish, without its ids
}

// plan decides what is to be done next about one container, and when to ask again if nothing else happens (zero: not).
// It is a pure function: everything is decided again from what is true, whatever happened before.
func nextStep(f facts, now time.Time) (step, time.Time) {
	switch {
	case f.Entry.Final != nil:
		return stepAfterResult(f), time.Time{}
	case f.Actual == container.Exited:
		return step{Op: opFinish, Result: exitReport(f.Exit, f.Entry.Started)}, time.Time{}
	case f.Actual == container.Lost:
		return recordLost(f), time.Time{}
	case f.DesiredUnknown:
		return step{}, time.Time{} // what runs goes on, until somebody who knows says otherwise
	case f.Desired == nil:
		return stepWhenUnwanted(f), time.Time{}
	case f.Desired.Stop != nil:
		return stepWhenStopping(f, now)
	}
	return stepWhenWanted(f), time.Time{}
}

// planEnded: the result is known; what is left is to be rid of the container once nobody asks for it any more.
func stepAfterResult(f facts) step {
	switch f.Actual {
	case container.Created, container.Running:
		return step{Op: opKill}
	case container.Exited, container.Lost:
		if f.Confirmed && f.Desired == nil && !f.DesiredUnknown {
			return step{Op: opRemove}
		}
	}
	return step{}
}

// planUnwanted: nothing of it should exist.
func stepWhenUnwanted(f facts) step {
	switch {
	case f.Actual != "":
		return step{Op: opKill}
	case f.Journaled && !f.Entry.Started:
		return step{Op: opForget}
	case f.Journaled:
		return recordLost(f)
	}
	return step{}
}

// planStop: it is wanted for as long as it takes to stop.
func stepWhenStopping(f facts, now time.Time) (step, time.Time) {
	switch {
	case f.Actual == "" && f.Entry.Started:
		return recordLost(f), time.Time{}
	case f.Actual == "":
		return step{Op: opFinish, Result: cluster.WorkerReport{
			State: cluster.WorkerExited, Signal: sigKill, Message: "stopped before it was started",
		}}, time.Time{}
	case f.Actual == container.Created, !now.Before(f.KillAt):
		return step{Op: opKill}, time.Time{}
	case f.Entry.Stopped != f.Desired.Stop.Cause: // a stronger one may come on top
		return step{Op: opStop}, f.KillAt
	}
	return step{}, f.KillAt
}

// planRun: it is wanted and should go on.
func stepWhenWanted(f facts) step {
	switch {
	case f.Actual == "" && f.Entry.Started:
		return recordLost(f)
	case f.Actual == "" && !f.Blocked:
		return step{Op: opCreate}
	case f.Actual == container.Created && f.Desired.Released:
		return step{Op: opStart}
	}
	return step{}
}

// lost is the end of a container whose end nobody has seen.
func recordLost(f facts) step {
	message := "its shim was lost"
	if f.Actual == "" {
		message = "its container is gone without an exit record"
	}
	if f.LostReason != "" {
		message += ": " + f.LostReason
	}
	return step{Op: opFinish, Result: cluster.WorkerReport{State: cluster.WorkerFailed, Began: f.Entry.Started, Message: message}}
}

// resultOf is what an exit record says to the controllers.
func exitReport(e *container.Exit, began bool) cluster.WorkerReport {
	if e == nil {
		return cluster.WorkerReport{State: cluster.WorkerFailed, Began: began, Message: "its exit record cannot be read"}
	}
	return cluster.WorkerReport{State: cluster.WorkerExited, ExitCode: e.Code, Signal: e.Signal, OOM: e.OOM, Lease: e.Lease, Why: e.Why}
}

// reached is how far a container has come that has no result yet, or "" when that is not worth a report: a single worker goes from
// assigned to running at once.
func reportableState(f facts) cluster.WorkerState {
	switch {
	case f.Entry.Final != nil:
		return f.Entry.Final.State
	case f.Actual == container.Running:
		return cluster.WorkerRunning
	case f.Actual == container.Created && f.Desired != nil && !f.Desired.Released:
		return cluster.WorkerCreated
	}
	return ""
}

const sigKill = 9
