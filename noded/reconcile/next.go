// Package reconcile decides the next action for a container: it compares the controllers' wishes
// with the container's state. [Next] is a pure function of the present facts; past decisions do not
// matter. So the same decision follows after a crash, and a test needs no node.
//
// Package run carries the actions out.
package reconcile

import (
	"time"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/noded/container"
)

// Next returns the next action for one container, and when to ask again if nothing else happens
// (zero: never). It is a pure function of the present facts; past decisions do not matter.
func Next(f *Facts, now time.Time) (Action, time.Time) {
	switch {
	case f.Entry.Final != nil:
		return afterResult(f), time.Time{}
	case f.Actual == container.Exited && f.Exit != nil && f.Exit.Saved && f.DesiredUnknown:
		return Action{}, time.Time{} // the job's own exit code is to say so
	case f.Actual == container.Exited && f.StepsRun && now.Before(f.StepsUntil(now)):
		if !f.DesiredUnknown && !f.StepsTold {
			return Action{Kind: Tell}, time.Time{}
		}
		return Action{}, f.StepsUntil(now)
	case f.Actual == container.Exited:
		return Action{Kind: Finish, Result: f.exitReport()}, time.Time{}
	case f.Actual == container.Lost:
		return recordLost(f), time.Time{}
	case f.Exists() && f.LeaseOver:
		return Action{Kind: Kill}, time.Time{}
	case f.Actual == container.Running && excessAction(f, now).Kind != None:
		return excessAction(f, now), time.Time{}
	case f.DesiredUnknown, f.Kept && f.Exists(), f.Desired == nil && f.Unread != "" && f.Exists():
		return Action{}, time.Time{} // containers go on until a controller says otherwise
	case f.Desired == nil && f.Unread != "" && !f.Journaled:
		return Action{Kind: Finish, Result: model.WorkerReport{State: model.WorkerFailed,
			Message: "this node cannot read the job, perhaps because its version is too old: " + f.Unread}}, time.Time{}
	case f.Desired == nil:
		return whenUnwanted(f), time.Time{}
	case f.Desired.Stop != nil:
		return whenStopping(f, now)
	}
	return whenWanted(f), time.Time{}
}

// afterResult is for a container whose result is known. It is removed once the controllers have
// confirmed the result and do not list the container any more.
func afterResult(f *Facts) Action {
	switch {
	case f.Exists():
		return Action{Kind: Kill}
	case f.Actual != "" && f.Confirmed && f.Desired == nil && !f.DesiredUnknown:
		return Action{Kind: Remove}
	case f.Actual == "" && f.Kept && f.Confirmed && f.Desired == nil && !f.DesiredUnknown:
		return Action{Kind: Forget} // the controllers may use its id again
	}
	return Action{}
}

// whenUnwanted is for a container that no controller wants.
func whenUnwanted(f *Facts) Action {
	switch {
	case f.Actual != "":
		return Action{Kind: Kill}
	case f.Journaled && !f.Entry.Started:
		return Action{Kind: Forget}
	case f.Journaled:
		return recordLost(f)
	}
	return Action{}
}

// whenStopping is for a container with a stop: signal first, kill at the deadline.
func whenStopping(f *Facts, now time.Time) (Action, time.Time) {
	switch {
	case f.Actual == "" && f.Began():
		return recordLost(f), time.Time{}
	case f.Actual == "":
		return Action{Kind: Finish, Result: model.WorkerReport{
			State: model.WorkerExited, Signal: sigKill, Message: "stopped before it started", Unbegun: true,
		}}, time.Time{}
	case f.Actual == container.Created, !now.Before(f.KillAt):
		return Action{Kind: Kill}, time.Time{}
	case f.savable() && f.Save.Dir == "":
		return Action{Kind: Save}, f.KillAt
	case f.savable() && f.Save.Problem == "":
		return Action{}, f.KillAt // it is being saved
	case f.Entry.Stopped != f.Desired.Stop.Cause: // a stronger cause may follow
		return Action{Kind: Stop}, f.KillAt
	case f.Desired.Holds() && f.Steps == 0:
		return Action{Kind: Leave}, f.KillAt
	}
	return Action{}, f.KillAt
}

// savable reports whether a container is to be saved in place of being sent its signal. That is so
// if it goes on elsewhere, and nothing has stood in the way so far.
func (f *Facts) savable() bool {
	c := f.Desired.Stop.Cause
	return f.Desired.SavesProcesses() && f.Actual == container.Running && f.NotSaved == "" &&
		(c.Displaces() || c == model.CauseRequeue) && f.Entry.Stopped == ""
}

// whenWanted is for a container that should run.
func whenWanted(f *Facts) Action {
	switch {
	case f.Actual == "" && f.Began():
		return recordLost(f)
	case f.Actual == "" && !f.Blocked && f.Desired.NodeLocal() && !f.Prepared:
		return Action{Kind: Fetch}
	case f.Actual == "" && !f.Blocked:
		return Action{Kind: Create}
	case f.Actual == container.Created && f.Desired.Released:
		return Action{Kind: Start}
	case f.Actual == container.Running && f.Desired.Switch != nil && switchAction(f).Kind != None:
		return switchAction(f)
	case f.Actual == container.Running && f.Desired.Early != nil && !f.Entry.Early && f.Switch.Ordered%2 == 0:
		return Action{Kind: Early} // a paused container gets its notice when it resumes
	}
	return Action{}
}

// switchAction is for a running container that was told to pause or to go on.
func switchAction(f *Facts) Action {
	switch {
	case f.Desired.Switch.Number > f.Switch.Ordered:
		return Action{Kind: Switch}
	case f.Paused() && len(f.Entry.Cores) > 0:
		return Action{Kind: Yield}
	}
	return Action{}
}
