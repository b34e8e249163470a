package model

import "cmp"

// Lost is the cost of a displacement to a job, in milliseconds of one GPU. A job without GPUs
// counts by its GPU equivalents.
type Lost struct {
	Work    int64 // work since the last save, which must be repeated
	Grace   int64 // held between the request to stop and the end of the workers
	Restart int64 // held by the next attempt before its commands ran; 0 while unknown
}

// Total returns the sum of a loss.
func (l Lost) Total() int64 { return l.Work + l.Grace + l.Restart }

// Displaces reports whether a stop with this cause serves another job or the cluster. Such a job is
// asked to save its state within its grace period, and continues later.
func (c Cause) Displaces() bool {
	switch c {
	case CauseTE, CauseReclaim, CauseOrder, CauseShrink, CauseGrow, CauseMigrate, CauseDrain:
		return true
	}
	return false
}

// Preempts reports whether a stop with this cause makes room for another job, which counts as a
// preemption.
func (c Cause) Preempts() bool { return c == CauseTE || c == CauseReclaim || c == CauseOrder }

// LosesWork reports whether an attempt that ended with this cause lost work without its own fault.
func (c Cause) LosesWork() bool {
	return c.Displaces() || c == CauseRequeue || c == CauseNodeLost || c == CauseLease
}

// Saving reports whether a job was told to stop while its commands ran, and still has time to save
// its state.
func (j *Job) Saving(now Instant) bool {
	a := j.Live()
	return j.State == Completing && a != nil && a.Stop != nil && a.Started.At != 0 &&
		(a.Stop.Cause.Displaces() || a.Stop.Cause == CauseRequeue) && now < a.Stop.KillAt
}

// ShownState returns the state of a job for users: [Checkpointing] is a part of [Completing].
func (j *Job) ShownState(now Instant) JobState {
	if j.Saving(now) {
		return Checkpointing
	}
	return j.State
}

// LostBy returns the loss so far of the attempt at an index; zero if it was not displaced.
func (j *Job) LostBy(i int, now Instant) Lost {
	a := &j.Attempts[i]
	cause, left := a.Cause, a.Ended.At
	if left == 0 {
		left = now
	}
	if a.Stop != nil {
		cause, left = cmp.Or(cause, a.Stop.Cause), a.Stop.At
	}
	if !cause.LosesWork() {
		return Lost{}
	}
	of := j.Resized(len(a.Workers))
	l := Lost{Work: of.ServiceOf(j.unsaved(a, cause, left)), Grace: of.graceOf(a, cause, now)}
	if i+1 < len(j.Attempts) {
		if next := &j.Attempts[i+1]; next.Started.At != 0 {
			l.Restart = j.Resized(len(next.Workers)).ServiceOf(int64(next.Started.At - next.Assigned.At))
		}
	}
	return l
}

// unsaved returns how long an attempt had run since its last save when it was told to stop, in ms.
// An attempt that ends with the checkpoint's exit code has saved meanwhile.
func (j *Job) unsaved(a *Attempt, cause Cause, left Instant) int64 {
	ran := int64(max(0, a.Clock(left)-a.Started.At))
	asked := cause.Displaces() || cause == CauseRequeue
	c := j.Spec.Checkpoint
	switch over := a.Ended.At != 0; {
	case a.Started.At == 0, over && asked && a.Signal == 0 && a.ExitCode == c.SavedCode():
		return 0
	case c == nil:
		return ran
	case c.Interval > 0:
		return ran % (int64(c.Interval) * 1000)
	case asked && (!over || a.Signal != sigkill):
		return 0 // it saves when told to stop
	}
	return ran
}

// sigkill ends whatever does not stop within its grace period.
const sigkill = 9

// graceOf returns what the workers of an attempt held after they were told to stop; zero if it was
// suspended. A resized attempt keeps its resources until all workers have ended.
func (j *Job) graceOf(a *Attempt, cause Cause, now Instant) int64 {
	if a.Stop == nil || a.Suspended() {
		return 0
	}
	var held int64
	for i := range a.Workers {
		until := a.Workers[i].Ended
		if cause == CauseShrink || cause == CauseGrow {
			until = a.Ended.At
		}
		if until == 0 {
			until = now
		}
		held += GPUTime(int64(max(0, until-a.Stop.At)), j.GPUEquivalentsOf(j.RequestOf(i).Active))
	}
	return held
}
