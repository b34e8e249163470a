package fsm

import (
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/lifecycle"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// endAttempt closes an attempt, and with it the job or the job's way back to the queue.
func (m *Machine) endAttempt(j *model.Job, a *model.Attempt) {
	o := lifecycle.OutcomeOf(j, a)
	trial := trialOf(j, a)
	next := m.cancelResize(j, a, resizes(o.Cause))
	a.Ended, a.Cause, a.Rule, a.ExitCode, a.Signal = m.s.Now(), o.Cause, o.Rule, o.Code, o.Signal
	if o.Cause == model.CauseOOM {
		a.ExitCode, a.Signal = 0, model.SignalOOM
	}
	m.s.FreePorts(a)
	m.s.Learn().Release()
	m.measureGrace(j, a)
	j.ExitCode, j.Signal = a.ExitCode, a.Signal
	m.emitFor(model.EventEnded, j, o.Cause)
	m.applyOutcome(j, a, o)
	if next != nil && resizes(o.Cause) {
		m.relaunch(j.ID, next, o.Cause, trial)
	}
}

// measureGrace learns how long an attempt took to leave that was asked to make room. One whose
// commands did not run had nothing to save, and a node that is lost says nothing about the job.
func (m *Machine) measureGrace(j *model.Job, a *model.Attempt) {
	if a.Stop == nil || a.Started == (model.Stamp{}) || a.Cause == model.CauseNodeLost || a.Cause == model.CauseLease ||
		!lifecycle.Yields(a.Stop.Cause) {
		return
	}
	m.s.Learn().Grace(j, a.Ended.At-a.Stop.At)
}

// applyOutcome gives a job the state that follows from how its attempt has ended, see
// [lifecycle.OutcomeOf].
func (m *Machine) applyOutcome(j *model.Job, a *model.Attempt, o lifecycle.Outcome) {
	p := &m.v.Config().Policy
	switch o.Cause {
	case model.CauseCompleted:
		m.s.Learn().Service(j)
		m.finish(j, model.Completed, model.Reason{})
	case model.CauseCancelled:
		m.finish(j, model.Cancelled, model.Reason{Text: a.Stop.Reason})
	case model.CauseTimeout:
		why := model.Reason{Code: model.ReasonTimeLimit}
		if lifecycle.PastDeadline(j, a) {
			why = model.Reason{Code: model.ReasonDeadline, Until: j.Deadline}
		}
		m.finish(j, model.TimedOut, why)
	case model.CauseFailed, model.CauseOOM:
		m.applyFailure(j, o)
	case model.CauseLaunch:
		m.applyLaunchFailure(j, o)
	case model.CauseNodeLost, model.CauseLease:
		j.Counters.NodeLosses++
		if int(j.Counters.NodeLosses) > p.MaxNodeLosses || runsOnce(j, a) {
			m.finish(j, model.NodeFailed, model.Reason{Code: model.ReasonNodeDown, Text: o.Message})
			return
		}
		m.returnToQueue(j, o.Cause, 0)
	default:
		m.applyRequeue(j, o)
	}
}

// applyRequeue returns a job to the queue that was displaced, or that saved its progress and asked
// for another attempt. Only requeues at the job's own request are limited.
func (m *Machine) applyRequeue(j *model.Job, o lifecycle.Outcome) {
	c := &j.Counters
	lifecycle.CountDisplacement(c, o.Cause)
	m.displaced(j, o.Cause)
	if lifecycle.Yields(o.Cause) && runsOnce(j, &j.Attempts[len(j.Attempts)-1]) {
		if j.OwnRoomFirst = false; j.Reason.Code != model.ReasonPreempted {
			j.Reason = model.Reason{Code: model.ReasonPreempted, Text: fmt.Sprintf("it had to leave (%s)", o.Cause)}
		}
		m.finish(j, model.Preempted, j.Reason)
		return
	}
	if o.Checkpoint {
		c.Requeues++
		if most, setting := m.v.Config().MaxRequeues(j.Queue); int(c.Requeues) > most {
			j.Hold, j.Reason = model.HeldRequeue, model.Reason{Code: model.ReasonMaxRequeue,
				Text: fmt.Sprintf("%d times, and %s allows %d", c.Requeues, setting, most)}
		}
	}
	m.returnToQueue(j, o.Cause, 0)
}

// runsOnce reports whether a job must not be started again because its attempt has begun. One whose
// commands have not run yet loses nothing by another attempt.
func runsOnce(j *model.Job, a *model.Attempt) bool {
	return j.Spec.RunsOnce() && a.Started != (model.Stamp{})
}

// applyLaunchFailure tries elsewhere after a failure to launch. It costs the user no retry. A job whose
// checkpoint lies on a node is held rather than ended after too many: its end would remove that.
func (m *Machine) applyLaunchFailure(j *model.Job, o lifecycle.Outcome) {
	j.Counters.LaunchFailures++
	n := int(j.Counters.LaunchFailures)
	if n >= m.v.Config().Policy.MaxLaunchFails && !o.Final && j.KeepsOnNodes() && j.HasRun() {
		j.Counters.LaunchFailures = 0
		j.Hold, j.Reason = model.HeldLaunch, model.Reason{Code: model.ReasonLaunchFailure, Text: o.Message}
		m.returnToQueue(j, o.Cause, 0)
		return
	}
	if n >= m.v.Config().Policy.MaxLaunchFails || o.Final {
		m.finish(j, model.BootFailed, model.Reason{Code: model.ReasonLaunchFailure, Text: o.Message})
		return
	}
	delay := lifecycle.LaunchBackOff(n)
	if o.PortTaken {
		delay = 0 // the next attempt gets another port
	} else {
		m.avoid(j, o.Nodes)
	}
	j.Reason = model.Reason{Code: model.ReasonBackoff, Text: o.Message}
	m.returnToQueue(j, o.Cause, delay)
}

// applyFailure retries what failed by its own fault as far as the job's restart block allows.
func (m *Machine) applyFailure(j *model.Job, o lifecycle.Outcome) {
	j.Counters.UserFailures++
	r := lifecycle.RetryAfterFailure(j, o, m.v.At())
	if r == nil {
		state, code := model.Failed, model.ReasonNonZeroExit
		if o.Cause == model.CauseOOM {
			state, code = model.OutOfMemory, model.ReasonOOM
		}
		m.finish(j, state, model.Reason{Code: code, Text: o.Message})
		return
	}
	if r.ExcludeNode == nil || *r.ExcludeNode {
		m.avoid(j, o.Nodes)
	}
	j.Reason = model.Reason{Code: model.ReasonBackoff, Text: o.Message}
	m.returnToQueue(j, o.Cause, lifecycle.FailureBackOff(r, len(j.Failures)))
}

// avoid adds nodes to those that a job avoids. Where too few would remain for its gang, it forgives
// all: waiting for ever would be worse.
func (m *Machine) avoid(j *model.Job, nodes []string) {
	exclude := slices.Clone(j.Exclude)
	for _, n := range nodes {
		if !slices.Contains(exclude, n) {
			exclude = append(exclude, n)
		}
	}
	exclude = exclude[max(0, len(exclude)-model.MaxExclude):]
	if !m.v.CouldHoldAll(model.ShapeOf(j), exclude) {
		exclude = nil
	}
	j.Exclude = exclude
}

// returnToQueue makes a job pending again, at its old place, to start after a delay at the
// earliest.
func (m *Machine) returnToQueue(j *model.Job, cause model.Cause, delay jobspec.Seconds) {
	j.SettleSize()
	j.State, j.Eligible = model.Pending, m.v.At().After(delay)
	m.settleReturn(j)
	if j.Reason.Code == model.ReasonBackoff {
		j.Reason.Until = j.Eligible
	}
	m.put(j)
	m.emitFor(model.EventRequeued, j, cause)
	if j.Hold != model.NotHeld {
		m.s.Unreserve(j.ID) // it was to move
		m.s.EmitJob(model.EventHeld, j, cause)
	}
}

// finish ends a job for good and numbers it for the history.
func (m *Machine) finish(j *model.Job, state model.JobState, why model.Reason) {
	m.s.Unreserve(j.ID)
	j.State, j.Reason, j.Hold, j.Ended, j.Seq = state, why, model.NotHeld, m.s.Now(), m.s.NextSeq()
	m.s.Learn().Runtime(j)
	m.put(j)
	var cause model.Cause
	if n := len(j.Attempts); n > 0 {
		cause = j.Attempts[n-1].Cause
	}
	if state == model.Cancelled {
		cause = model.CauseCancelled
	}
	if state == model.Preempted {
		m.emitFor(model.EventFinished, j, cause)
	} else {
		m.s.EmitJob(model.EventFinished, j, cause)
	}
	if j.Parent != 0 {
		m.countEndedTask(j)
	}
}
