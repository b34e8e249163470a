package model

import "cmp"

// Lost is what it costs a job that it left its place, in milliseconds of one GPU. A job without
// GPUs counts by its GPU equivalents.
type Lost struct {
	Work    int64 // done since it last saved its state: it is done again
	Grace   int64 // held between the request to leave and the end of the workers
	Restart int64 // held by the next attempt before its commands ran; 0 until that is known
}

// Total returns the sum of a loss.
func (l Lost) Total() int64 { return l.Work + l.Grace + l.Restart }

// Displaces reports whether a stop for a cause serves another job or the cluster. Then the job is
// asked to save its state within its grace period, and goes on later.
func (c Cause) Displaces() bool {
	switch c {
	case CauseTE, CauseReclaim, CauseOrder, CauseShrink, CauseGrow, CauseMigrate, CauseDrain:
		return true
	}
	return false
}

// Preempts reports whether an attempt leaves for a cause so that another job can start, which
// counts as a preemption.
func (c Cause) Preempts() bool { return c == CauseTE || c == CauseReclaim || c == CauseOrder }

// LosesWork reports whether an attempt that ended for a cause loses work through no fault of its
// own commands.
func (c Cause) LosesWork() bool {
	return c.Displaces() || c == CauseRequeue || c == CauseNodeLost || c == CauseLease
}

// Saving reports whether a job was asked to leave while its commands ran, and still has time to
// save its state.
func (j *Job) Saving(now Instant) bool {
	a := j.Live()
	return j.State == Completing && a != nil && a.Stop != nil && a.Started.At != 0 &&
		(a.Stop.Cause.Displaces() || a.Stop.Cause == CauseRequeue) && now < a.Stop.KillAt
}

// ShownState returns the state of a job as users see it: [Checkpointing] is a part of [Completing].
func (j *Job) ShownState(now Instant) JobState {
	if j.Saving(now) {
		return Checkpointing
	}
	return j.State
}

// LostBy returns what the attempt at an index has lost by now, nothing if it did not have to leave.
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

// unsaved returns for how long an attempt had run without saving its state when it was to leave, in
// ms. One that ends with the checkpoint's exit code has saved it meanwhile.
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
		return 0 // it saves when it is asked to leave
	}
	return ran
}

// sigkill is the signal that ends what does not leave within its grace period.
const sigkill = 9

// graceOf returns what the workers of an attempt held after they were asked to leave: nothing if it
// was suspended. One that is resized keeps its room until all have ended.
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
