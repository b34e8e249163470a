package reconcile

import (
	"cmp"
	"slices"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/lossy"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/journal"
	"github.com/rota-hpc/rota/noded/oci"
)

// Facts is all that a decision about one container depends on.
type Facts struct {
	DesiredUnknown bool                // no controller has named the wanted containers since this daemon started
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
	Blocked        bool                // an earlier attempt of the job, or a kept container, still runs here
	Kept           bool                // controllers that are no more ordered it: it runs until its lease ends
	Tries          int                 // how often the action that is due has failed
	Excess         Excess              // of a running container
	Warned         bool                // it has a notice of an excess
	Prepared       bool                // it has the folder of its checkpoint, if it is to have one
	Save           container.Saving    // of a running container
	Pid            int                 // of the first process of a running container
	Extern         container.Spent     // of a running or a lost container
	Lost           lossy.Loss          // output that could not be written, of a running or a lost container
	Steps          int                 // parts of steps that run beside it
	StepsRun       bool                // steps that it has started have not ended, here or on other nodes
	StepsTold      bool                // since it has ended, they were asked to end too
	NotSaved       string              // why its processes cannot be saved, so that it gets its signal
}

// OutputLost returns the output of an ended container that could not be written; nil: none.
func (f *Facts) OutputLost() *lossy.Loss {
	lost := f.Lost
	if f.Exit != nil {
		lost = f.Exit.Lost()
	}
	if !lost.Possible() {
		return nil
	}
	return &lost
}

// Worker holds the facts about one container.
type Worker struct {
	ID container.ID
	Facts
}

// ended is the order of a container that has ended.
const ended = 4

// order orders states: a container only ever moves forward.
func order(s container.State) int {
	switch s {
	case container.Silent:
		return 1
	case container.Created:
		return 2
	case container.Running:
		return 3
	case container.Exited, container.Lost:
		return ended
	}
	return 0
}

// Lives reports whether a container in this state exists and has not ended.
func Lives(s container.State) bool { return order(s) > 0 && order(s) < ended }

// Ended reports whether a container in this state has ended.
func Ended(s container.State) bool { return order(s) == ended }

// OlderThan reports whether a status says more than the facts do.
func (f *Facts) OlderThan(s container.Status) bool {
	if now, known := order(s.State), order(f.Actual); now != known {
		return now > known
	}
	return s.State == container.Running &&
		(s.Switch != f.Switch && s.Switch.Ordered >= f.Switch.Ordered || s.Save != f.Save)
}

// Advance sets the state that an action has reached, unless the runtime has reported a later one
// meanwhile.
func (f *Facts) Advance(s container.State) {
	if order(s) > order(f.Actual) {
		f.Actual = s
	}
}

// Exists reports whether the container exists and has not ended.
func (f *Facts) Exists() bool { return Lives(f.Actual) }

// Idle reports whether no more actions can be due.
func (f *Facts) Idle() bool {
	return !f.DesiredUnknown && f.Desired == nil && f.Actual == "" && (f.Confirmed || f.Entry.Final == nil)
}

// Began reports whether the command of a container may have begun. This node's journal says so, or
// the controllers do: the node may have reported it before it lost its journal.
func (f *Facts) Began() bool { return f.Entry.Started || f.Desired != nil && f.Desired.Began }

// WaitsForSteps reports whether a worker has ended before its steps, whose time is not over.
func (f *Facts) WaitsForSteps(now time.Time) bool {
	return f.Actual == container.Exited && f.Entry.Final == nil && now.Before(f.StepsUntil(now))
}

// InUse reports whether a worker, or steps beside it, may use something of the machine.
func (f *Facts) InUse(now time.Time) bool {
	return f.Actual == container.Running || f.WaitsForSteps(now)
}

// LookAgain is how long a decision for which facts are missing holds: after it they are looked at again.
const LookAgain = 10 * time.Second

// StepsUntil returns until when the steps of an ended worker may go on. They may take as long as
// its program might have taken to stop, or as long as the stop of its job says. While that is not
// known they go on, unless their leases end.
func (f *Facts) StepsUntil(now time.Time) time.Time {
	switch {
	case f.Exit == nil || f.Exit.Lease || f.Desired == nil && !f.DesiredUnknown || f.Desired != nil && f.Desired.Holds():
		return time.Time{}
	case f.Desired == nil:
		return now.Add(LookAgain)
	case f.Desired.Stop != nil:
		return f.KillAt
	}
	_, grace := StepsStop(f.Desired)
	return time.UnixMilli(f.Exit.Ended).Add(grace)
}

// StepsStop returns the signal that asks the steps of a worker to end with it, and how long they may take.
func StepsStop(d *api.Alloc) (signal string, grace time.Duration) {
	t := &jobspec.Task{}
	if d.Spec != nil && d.Group < len(d.Spec.Groups) {
		tasks := d.Spec.Groups[d.Group].Tasks
		t = &tasks[max(oci.StepTask(tasks), 0)]
	}
	return cmp.Or(t.KillSignal, "SIGTERM"), time.Duration(cmp.Or(t.KillTimeout, jobspec.DefaultKillTimeout)) * time.Second
}

// Paused reports whether a container has paused as it was told last.
func (f *Facts) Paused() bool {
	return f.Actual == container.Running && f.Switch.Done%2 == 1 && f.Switch.Done == f.Switch.Ordered
}

// Pauses reports whether a worker was told to pause.
func (f *Facts) Pauses() bool { return f.Desired.Switch != nil && f.Desired.Switch.Pause }

// Runs reports whether a worker runs, and is not about to stop or to pause.
func (f *Facts) Runs() bool {
	d := f.Desired
	return d != nil && f.Actual == container.Running && f.Entry.Final == nil && d.Stop == nil && !f.Kept && !f.Pauses() &&
		(d.Switch == nil || d.Switch.Number == f.Switch.Done)
}

// Ordered notes that the container has been given an order to pause or to go on.
func (f *Facts) Ordered(number int) {
	if number > f.Switch.Ordered {
		f.Switch.Ordered, f.Switch.Problem = number, ""
	}
}

// SwitchDone returns the number of the last order to pause or to go on if it has been carried out as
// a whole, else 0.
func (f *Facts) SwitchDone() int {
	d := f.Desired
	if d == nil || d.Switch == nil || f.Actual != container.Running || f.Switch.Done != d.Switch.Number ||
		f.Paused() && len(f.Entry.Cores) > 0 {
		return 0
	}
	return f.Switch.Done
}

// Unpaused returns why a container that was told last to pause goes on; "" if it does not.
func (f *Facts) Unpaused() string {
	d := f.Desired
	if d == nil || d.Switch == nil || f.Actual != container.Running || f.Switch.Ordered != d.Switch.Number {
		return ""
	}
	return f.Switch.Problem
}

// MayShare reports whether a worker may ever share its GPU, as [model.Job.CanPack] says.
func (f *Facts) MayShare() bool {
	d := f.Desired
	return d != nil && d.Spec != nil && d.Spec.Preemption != nil && d.Spec.Preemption.Mode == jobspec.PreemptSuspend &&
		!d.Request.Exclusive && len(d.Nodes) == 1 && len(d.GPUs) == 1 && d.Request.Active.GPUs == model.WholeGPU
}

// Uses reports whether a worker was given one of these GPUs.
func (f *Facts) Uses(gpus []int) bool {
	return slices.ContainsFunc(f.Desired.GPUs, func(n int) bool { return slices.Contains(gpus, n) })
}
