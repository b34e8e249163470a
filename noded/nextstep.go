package noded

import (
	"cmp"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/journal"
)

// facts is all that a decision about one container depends on.
type facts struct {
	DesiredUnknown bool                // no controller has said, since this daemon started, what is wanted
	Desired        *api.Alloc          // nil: the controllers do not want it, unless DesiredUnknown
	KillAt         time.Time           // when the grace of Desired.Stop ends, on this machine's clock
	LimitAt        time.Time           // when the time limit of Desired.Early is over, on this machine's clock
	Actual         container.State     // "": no container exists
	Exit           *container.Exit     // of an exited container
	LostReason     string              // of a lost container
	Silent         string              // why the shim of a container cannot be asked; "": it answers
	LeaseOver      bool                // the lease of a container with a silent shim is over
	Unread         string              // why the controllers' words of it cannot be read; "": they can
	Entry          journal.Entry       // zero if the journal has none
	Journaled      bool                // the journal has Entry
	Confirmed      bool                // the controllers have confirmed Entry.Final
	Switch         container.Switching // of a running container
	Blocked        bool                // an earlier attempt of the job, or what was kept, still runs here
	Kept           bool                // controllers that are no more ordered it: it runs until its lease ends
	Tries          int                 // how often the step that is due has failed
	Excess         gpuExcess           // of a running container
	Warned         bool                // it has a notice of an excess
	Prepared       bool                // it has the folder of its checkpoint, if it is to have one
	Save           container.Saving    // of a running container
	Pid            int                 // of the first process of a running container
	Extern         container.Spent     // of a running or a lost container
	Steps          int                 // parts of steps that run beside it
	StepsRun       bool                // steps that it has started have not ended, here or on other nodes
	StepsTold      bool                // since it has ended, they were asked to end too
	NotSaved       string              // why its processes cannot be saved, so that it gets its signal
}

// stepsUntil returns until when the steps of a worker that has ended may go on: for as long as its program
// might have taken to stop, or as long as the stop of its job says. While that is not known they go on,
// unless their leases end.
func (f facts) stepsUntil(now time.Time) time.Time {
	switch {
	case f.Exit == nil || f.Exit.Lease || f.Desired == nil && !f.DesiredUnknown || f.Desired != nil && f.Desired.Holds():
		return time.Time{}
	case f.Desired == nil:
		return now.Add(listInterval)
	case f.Desired.Stop != nil:
		return f.KillAt
	}
	_, grace := stepsStop(f.Desired)
	return time.UnixMilli(f.Exit.Ended).Add(grace)
}

// exists reports whether the container exists and has not ended.
func (f facts) exists() bool {
	return f.Actual == container.Silent || f.Actual == container.Created || f.Actual == container.Running
}

// op is a kind of step that can be due for a container.
type op string

// The steps. Each is idempotent: repeated after a crash it changes nothing, or continues where it
// was.
const (
	opNone   op = ""
	opLeave  op = "leave" // end a worker that has held room for steps, of which none runs any more
	opTell   op = "tell"  // ask the steps of a worker that has ended to end too
	opFetch  op = "fetch" // make the folder of its checkpoint
	opCreate op = "create"
	opStart  op = "start"
	opStop   op = "stop"  // write the notice and send the signal
	opSave   op = "save"  // save its processes, and end them
	opEarly  op = "early" // the same before the time limit, which stops nothing
	opWarn   op = "warn"  // write the notice of an excess, or take it back
	opEvict  op = "evict" // write down that it is killed for an excess
	opKill   op = "kill"
	opSwitch op = "switch" // have it pause, or go on with cores of its own
	opYield  op = "yield"  // give its cores back, when it has paused
	opFinish op = "finish" // write its result to the journal
	opRemove op = "remove" // remove all that is left of it but its log
	opForget op = "forget" // remove an intent whose container never ran
)

// step is an op with its argument.
type step struct {
	Op     op
	Result model.WorkerReport // of opFinish, without its ids
}

// nextStep returns what is due for one container, and when to ask again if nothing else happens
// (zero: never). It is a pure function of the present facts; past decisions do not matter.
func nextStep(f facts, now time.Time) (step, time.Time) {
	switch {
	case f.Entry.Final != nil:
		return stepAfterResult(f), time.Time{}
	case f.Actual == container.Exited && f.Exit != nil && f.Exit.Saved && f.DesiredUnknown:
		return step{}, time.Time{} // the job's own exit code is to say so
	case f.Actual == container.Exited && f.StepsRun && now.Before(f.stepsUntil(now)):
		if !f.DesiredUnknown && !f.StepsTold {
			return step{Op: opTell}, time.Time{}
		}
		return step{}, f.stepsUntil(now)
	case f.Actual == container.Exited:
		return step{Op: opFinish, Result: f.exitReport()}, time.Time{}
	case f.Actual == container.Lost:
		return recordLost(f), time.Time{}
	case f.exists() && f.LeaseOver:
		return step{Op: opKill}, time.Time{}
	case f.Actual == container.Running && stepOfExcess(f, now).Op != opNone:
		return stepOfExcess(f, now), time.Time{}
	case f.DesiredUnknown, f.Kept && f.exists(), f.Desired == nil && f.Unread != "" && f.exists():
		return step{}, time.Time{} // containers go on until a controller says otherwise
	case f.Desired == nil && f.Unread != "" && !f.Journaled:
		return step{Op: opFinish, Result: model.WorkerReport{State: model.WorkerFailed,
			Message: "this node cannot read the job, its version may be too old: " + f.Unread}}, time.Time{}
	case f.Desired == nil:
		return stepWhenUnwanted(f), time.Time{}
	case f.Desired.Stop != nil:
		return stepWhenStopping(f, now)
	}
	return stepWhenWanted(f), time.Time{}
}

// stepAfterResult is for a container whose result is known: it is removed once the controllers have
// confirmed the result and do not list the container any more.
func stepAfterResult(f facts) step {
	switch {
	case f.exists():
		return step{Op: opKill}
	case f.Actual != "" && f.Confirmed && f.Desired == nil && !f.DesiredUnknown:
		return step{Op: opRemove}
	case f.Actual == "" && f.Kept && f.Confirmed && f.Desired == nil && !f.DesiredUnknown:
		return step{Op: opForget} // the controllers may use its id again
	}
	return step{}
}

// stepWhenUnwanted is for a container that no controller wants.
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

// stepWhenStopping is for a container with a stop: signal first, kill at the deadline.
func stepWhenStopping(f facts, now time.Time) (step, time.Time) {
	switch {
	case f.Actual == "" && f.began():
		return recordLost(f), time.Time{}
	case f.Actual == "":
		return step{Op: opFinish, Result: model.WorkerReport{
			State: model.WorkerExited, Signal: sigKill, Message: "stopped before it started", Unbegun: true,
		}}, time.Time{}
	case f.Actual == container.Created, !now.Before(f.KillAt):
		return step{Op: opKill}, time.Time{}
	case f.savable() && f.Save.Dir == "":
		return step{Op: opSave}, f.KillAt
	case f.savable() && f.Save.Problem == "":
		return step{}, f.KillAt // it is being saved
	case f.Entry.Stopped != f.Desired.Stop.Cause: // a stronger cause may follow
		return step{Op: opStop}, f.KillAt
	case f.Desired.Holds() && f.Steps == 0:
		return step{Op: opLeave}, f.KillAt
	}
	return step{}, f.KillAt
}

// savable reports whether a container is to be saved in place of being sent its signal: it goes on
// elsewhere, and nothing has stood in the way so far.
func (f facts) savable() bool {
	c := f.Desired.Stop.Cause
	return f.Desired.SavesProcesses() && f.Actual == container.Running && f.NotSaved == "" &&
		(c.Displaces() || c == model.CauseRequeue) && f.Entry.Stopped == ""
}

// stepWhenWanted is for a container that should run.
func stepWhenWanted(f facts) step {
	switch {
	case f.Actual == "" && f.began():
		return recordLost(f)
	case f.Actual == "" && !f.Blocked && f.Desired.NodeLocal() && !f.Prepared:
		return step{Op: opFetch}
	case f.Actual == "" && !f.Blocked:
		return step{Op: opCreate}
	case f.Actual == container.Created && f.Desired.Released:
		return step{Op: opStart}
	case f.Actual == container.Running && f.Desired.Switch != nil && stepOfSwitch(f).Op != opNone:
		return stepOfSwitch(f)
	case f.Actual == container.Running && f.Desired.Early != nil && !f.Entry.Early && f.Switch.Ordered%2 == 0:
		return step{Op: opEarly} // what has paused is told when it goes on
	}
	return step{}
}

// began reports whether the command of a container may have begun: this node's journal says so, or the
// controllers do, because the node has reported it before it lost its journal.
func (f facts) began() bool { return f.Entry.Started || f.Desired != nil && f.Desired.Began }

// stepOfSwitch is for a running container that was told to pause or to go on.
func stepOfSwitch(f facts) step {
	switch {
	case f.Desired.Switch.Number > f.Switch.Ordered:
		return step{Op: opSwitch}
	case f.paused() && len(f.Entry.Cores) > 0:
		return step{Op: opYield}
	}
	return step{}
}

// paused reports whether a container has paused as it was told last.
func (f facts) paused() bool {
	return f.Actual == container.Running && f.Switch.Done%2 == 1 && f.Switch.Done == f.Switch.Ordered
}

// switchDone returns the number of the last order to pause or to go on if it has been carried out as
// a whole, else 0.
func (f facts) switchDone() int {
	d := f.Desired
	if d == nil || d.Switch == nil || f.Actual != container.Running || f.Switch.Done != d.Switch.Number ||
		f.paused() && len(f.Entry.Cores) > 0 {
		return 0
	}
	return f.Switch.Done
}

// unpaused returns why a container that was told last to pause goes on; "" if it does not.
func (f facts) unpaused() string {
	d := f.Desired
	if d == nil || d.Switch == nil || f.Actual != container.Running || f.Switch.Ordered != d.Switch.Number {
		return ""
	}
	return f.Switch.Problem
}

// recordLost returns the step that records a container whose exit record is missing.
func recordLost(f facts) step {
	message := "its shim was lost"
	if f.Actual == "" {
		message = "its container disappeared without an exit record"
	}
	if f.LostReason != "" {
		message += ": " + f.LostReason
	}
	return step{Op: opFinish, Result: model.WorkerReport{State: model.WorkerFailed, Began: f.began(),
		Message: message}}
}

// exitReport is the report of an exited container. One whose processes were saved counts as one that
// has saved by itself.
func (f facts) exitReport() model.WorkerReport {
	r := exitReport(f.Exit, f.Entry.Started)
	if f.Exit != nil && f.Exit.Saved {
		r.ExitCode, r.Signal = jobspec.DefaultCheckpointExitCode, 0
		if f.Desired != nil && f.Desired.Spec != nil {
			r.ExitCode = f.Desired.Spec.Checkpoint.SavedCode()
		}
	}
	return evictedReport(f, r)
}

// exitReport turns the exit record of a container into the worker's report: here an exit code
// becomes a report, from which the controllers derive the state of the attempt.
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

// reportableState returns the state that is to be reported to the controllers, "" for none. A
// single worker goes from assigned to running at once, so that its creation is not reported.
func reportableState(f facts) model.WorkerState {
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
