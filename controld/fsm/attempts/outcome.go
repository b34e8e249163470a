package attempts

import (
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/lifecycle"
	"github.com/rota-hpc/rota/controld/model"
)

// endAttempt closes an attempt, and with it the job or the job's way back to the queue.
func (m *Manager) endAttempt(j *model.Job, a *model.Attempt) {
	o := lifecycle.OutcomeOf(j, a)
	trial := trialOf(j, a)
	next := m.cancelResize(j, a, resizes(o.Cause))
	a.Ended, a.Cause, a.Rule, a.ExitCode, a.Signal = m.state.Now(), o.Cause, o.Rule, o.Code, o.Signal
	if o.Cause == model.CauseOOM {
		a.ExitCode, a.Signal = 0, model.SignalOOM
	}
	m.state.FreePorts(a)
	m.state.Learn().Release()
	m.measureGrace(j, a)
	j.ExitCode, j.Signal = a.ExitCode, a.Signal
	m.jobs.EmitFor(model.EventEnded, j, o.Cause)
	m.applyOutcome(j, a, o)
	if next != nil && resizes(o.Cause) {
		m.relaunch(j.ID, next, o.Cause, trial)
	}
}

// measureGrace learns how long an attempt took to leave that was asked to make room. One whose
// commands did not run had nothing to save, and a node that is lost says nothing about the job.
func (m *Manager) measureGrace(j *model.Job, a *model.Attempt) {
	if a.Stop == nil || a.Started == (model.Stamp{}) || a.Cause == model.CauseNodeLost || a.Cause == model.CauseLease ||
		!lifecycle.Yields(a.Stop.Cause) {
		return
	}
	m.state.Learn().Grace(j, a.Ended.At-a.Stop.At)
}

// applyOutcome gives a job the state that follows from how its attempt has ended, see
// [lifecycle.OutcomeOf].
func (m *Manager) applyOutcome(j *model.Job, a *model.Attempt, o lifecycle.Outcome) {
	p := &m.view.Config().Policy
	switch o.Cause {
	case model.CauseCompleted:
		m.state.Learn().Service(j)
		m.jobs.Finish(j, model.Completed, model.Reason{})
	case model.CauseCancelled:
		m.jobs.Finish(j, model.Cancelled, model.Reason{Text: a.Stop.Reason})
	case model.CauseTimeout:
		why := model.Reason{Code: model.ReasonTimeLimit}
		if lifecycle.PastDeadline(j, a) {
			why = model.Reason{Code: model.ReasonDeadline, Until: j.Deadline}
		}
		m.jobs.Finish(j, model.TimedOut, why)
	case model.CauseFailed, model.CauseOOM:
		m.applyFailure(j, o)
	case model.CauseLaunch:
		m.applyLaunchFailure(j, o)
	case model.CauseNodeLost, model.CauseLease:
		j.Counters.NodeLosses++
		if int(j.Counters.NodeLosses) > p.MaxNodeLosses || runsOnce(j, a) {
			m.jobs.Finish(j, model.NodeFailed, model.Reason{Code: model.ReasonNodeDown, Text: o.Message})
			return
		}
		m.jobs.ReturnToQueue(j, o.Cause, 0)
	default:
		m.applyRequeue(j, o)
	}
}

// applyRequeue returns a job to the queue that was displaced, or that saved its progress and asked
// for another attempt. Only requeues at the job's own request are limited.
func (m *Manager) applyRequeue(j *model.Job, o lifecycle.Outcome) {
	c := &j.Counters
	lifecycle.CountDisplacement(c, o.Cause)
	m.displaced(j, o.Cause)
	if lifecycle.Yields(o.Cause) && runsOnce(j, &j.Attempts[len(j.Attempts)-1]) {
		if j.OwnRoomFirst = false; j.Reason.Code != model.ReasonPreempted {
			j.Reason = model.Reason{Code: model.ReasonPreempted, Text: fmt.Sprintf("it had to leave (%s)", o.Cause)}
		}
		m.jobs.Finish(j, model.Preempted, j.Reason)
		return
	}
	if o.Checkpoint {
		c.Requeues++
		if most, setting := m.view.Config().MaxRequeues(j.Queue); int(c.Requeues) > most {
			j.Hold, j.Reason = model.HeldRequeue, model.Reason{Code: model.ReasonMaxRequeue,
				Text: fmt.Sprintf("%d times, and %s allows %d", c.Requeues, setting, most)}
		}
	}
	m.jobs.ReturnToQueue(j, o.Cause, 0)
}

// runsOnce reports whether a job must not be started again because its attempt has begun. One whose
// commands have not run yet loses nothing by another attempt.
func runsOnce(j *model.Job, a *model.Attempt) bool {
	return j.Spec.RunsOnce() && a.Started != (model.Stamp{})
}

// applyLaunchFailure tries elsewhere after a failure to launch. It costs the user no retry. A job whose
// checkpoint lies on a node is held rather than ended after too many: its end would remove that.
func (m *Manager) applyLaunchFailure(j *model.Job, o lifecycle.Outcome) {
	j.Counters.LaunchFailures++
	n := int(j.Counters.LaunchFailures)
	if n >= m.view.Config().Policy.MaxLaunchFails && !o.Final && j.KeepsOnNodes() && j.HasRun() {
		j.Counters.LaunchFailures = 0
		j.Hold, j.Reason = model.HeldLaunch, model.Reason{Code: model.ReasonLaunchFailure, Text: o.Message}
		m.jobs.ReturnToQueue(j, o.Cause, 0)
		return
	}
	if n >= m.view.Config().Policy.MaxLaunchFails || o.Final {
		m.jobs.Finish(j, model.BootFailed, model.Reason{Code: model.ReasonLaunchFailure, Text: o.Message})
		return
	}
	delay := lifecycle.LaunchBackOff(n)
	if o.PortTaken {
		delay = 0 // the next attempt gets another port
	} else {
		m.avoid(j, o.Nodes)
	}
	j.Reason = model.Reason{Code: model.ReasonBackoff, Text: o.Message}
	m.jobs.ReturnToQueue(j, o.Cause, delay)
}

// applyFailure retries what failed by its own fault as far as the job's restart block allows.
func (m *Manager) applyFailure(j *model.Job, o lifecycle.Outcome) {
	j.Counters.UserFailures++
	r := lifecycle.RetryAfterFailure(j, o, m.view.At())
	if r == nil {
		state, code := model.Failed, model.ReasonNonZeroExit
		if o.Cause == model.CauseOOM {
			state, code = model.OutOfMemory, model.ReasonOOM
		}
		m.jobs.Finish(j, state, model.Reason{Code: code, Text: o.Message})
		return
	}
	if r.ExcludeNode == nil || *r.ExcludeNode {
		m.avoid(j, o.Nodes)
	}
	j.Reason = model.Reason{Code: model.ReasonBackoff, Text: o.Message}
	m.jobs.ReturnToQueue(j, o.Cause, lifecycle.FailureBackOff(r, len(j.Failures)))
}

// avoid adds nodes to those that a job avoids. Where too few would remain for its gang, it forgives
// all: waiting for ever would be worse.
func (m *Manager) avoid(j *model.Job, nodes []string) {
	exclude := slices.Clone(j.Exclude)
	for _, n := range nodes {
		if !slices.Contains(exclude, n) {
			exclude = append(exclude, n)
		}
	}
	exclude = exclude[max(0, len(exclude)-model.MaxExclude):]
	if !m.view.CouldHoldAll(model.ShapeOf(j), exclude) {
		exclude = nil
	}
	j.Exclude = exclude
}
