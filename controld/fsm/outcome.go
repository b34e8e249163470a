package fsm

import (
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/lifecycle"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// end closes an attempt, and with it the job or the job's way back to the queue.
func (s *State) end(j *model.Job, a *model.Attempt) {
	o := lifecycle.OutcomeOf(j, a)
	next := s.cancelResize(j, a, resizes(o.Cause))
	a.Ended, a.Cause, a.ExitCode, a.Signal = s.now(), o.Cause, o.Code, o.Signal
	s.freePorts(a)
	s.learn().Release()
	j.ExitCode, j.Signal = o.Code, o.Signal
	s.emitFor(model.EventEnded, j, o.Cause)
	s.settle(j, a, o)
	if next != nil && resizes(o.Cause) {
		s.relaunch(j.ID, next, o.Cause)
	}
}

// settle decides what an attempt's end means for its job.
func (s *State) settle(j *model.Job, a *model.Attempt, o lifecycle.Outcome) {
	p := &s.v.config.Policy
	switch o.Cause {
	case model.CauseCompleted:
		s.learn().Service(j)
		s.finish(j, model.Completed, model.Reason{})
	case model.CauseCancelled:
		s.finish(j, model.Cancelled, model.Reason{Text: a.Stop.Reason})
	case model.CauseTimeout:
		why := model.Reason{Code: model.ReasonTimeLimit}
		if j.Deadline != 0 && s.v.at >= j.Deadline {
			why = model.Reason{Code: model.ReasonDeadline, Until: j.Deadline}
		}
		s.finish(j, model.TimedOut, why)
	case model.CauseFailed, model.CauseOOM:
		s.settleFailure(j, o)
	case model.CauseLaunch:
		s.settleLaunch(j, o)
	case model.CauseNodeLost, model.CauseLease:
		j.Counters.NodeLosses++
		if j.Counters.NodeLosses > p.MaxNodeLosses {
			s.finish(j, model.NodeFailed, model.Reason{Code: model.ReasonNodeDown, Text: o.Message})
			return
		}
		s.returnToQueue(j, o.Cause, 0)
	default:
		s.settleRequeue(j, o)
	}
}

// settleRequeue returns a job to the queue that was displaced, or that saved its progress and asked for
// another attempt. Only requeues at the job's own request are limited.
func (s *State) settleRequeue(j *model.Job, o lifecycle.Outcome) {
	c := &j.Counters
	lifecycle.CountDisplacement(c, o.Cause)
	s.displaced(j, o.Cause)
	if o.Checkpoint {
		c.Requeues++
		if c.Requeues > s.v.config.Policy.MaxRequeues {
			j.Hold, j.Reason = model.HeldRequeue, model.Reason{Code: model.ReasonMaxRequeue}
		}
	}
	s.returnToQueue(j, o.Cause, 0)
}

// settleLaunch tries elsewhere after a failure to launch. It costs the user no retry.
func (s *State) settleLaunch(j *model.Job, o lifecycle.Outcome) {
	j.Counters.LaunchFailures++
	n := j.Counters.LaunchFailures
	if n >= s.v.config.Policy.MaxLaunchFails || o.Final {
		s.finish(j, model.BootFailed, model.Reason{Code: model.ReasonLaunchFailure, Text: o.Message})
		return
	}
	s.avoid(j, o.Nodes)
	j.Reason = model.Reason{Code: model.ReasonBackoff, Text: o.Message}
	s.returnToQueue(j, o.Cause, lifecycle.LaunchBackOff(n))
}

// settleFailure retries what failed by its own fault as far as the job's restart block allows.
func (s *State) settleFailure(j *model.Job, o lifecycle.Outcome) {
	j.Counters.UserFailures++
	r := lifecycle.RetryAfterFailure(j, o, s.v.at)
	if r == nil {
		state, code := model.Failed, model.ReasonNonZeroExit
		if o.Cause == model.CauseOOM {
			state, code = model.OutOfMemory, model.ReasonOOM
		}
		s.finish(j, state, model.Reason{Code: code, Text: o.Message})
		return
	}
	if r.ExcludeNode == nil || *r.ExcludeNode {
		s.avoid(j, o.Nodes)
	}
	j.Reason = model.Reason{Code: model.ReasonBackoff, Text: o.Message}
	s.returnToQueue(j, o.Cause, lifecycle.FailureBackOff(r, len(j.Failures)))
}

// avoid adds nodes to those that a job avoids. Where too few would remain for its gang, it forgives all: waiting for ever would be worse.
func (s *State) avoid(j *model.Job, nodes []string) {
	exclude := slices.Clone(j.Exclude)
	for _, n := range nodes {
		if !slices.Contains(exclude, n) {
			exclude = append(exclude, n)
		}
	}
	exclude = exclude[max(0, len(exclude)-model.MaxExclude):]
	if !s.v.couldHoldAll(model.ShapeOf(j), exclude) {
		exclude = nil
	}
	j.Exclude = exclude
}

// returnToQueue makes a job pending again, at its old place, to start after a delay at the earliest.
func (s *State) returnToQueue(j *model.Job, cause model.Cause, delay jobspec.Seconds) {
	j.SettleSize()
	j.State, j.Eligible = model.Pending, s.v.at.After(delay)
	if j.Reason.Code == model.ReasonBackoff {
		j.Reason.Until = j.Eligible
	}
	s.put(j)
	s.emitFor(model.EventRequeued, j, cause)
	if j.Hold != model.NotHeld {
		s.emitJob(model.EventHeld, j, cause)
	}
}

// finish ends a job for good and numbers it for the history.
func (s *State) finish(j *model.Job, state model.JobState, why model.Reason) {
	s.unreserve(j.ID)
	s.v.lastSeq++
	j.State, j.Reason, j.Hold, j.Ended, j.Seq = state, why, model.NotHeld, s.now(), s.v.lastSeq
	s.learn().Runtime(j)
	s.put(j)
	var cause model.Cause
	if n := len(j.Attempts); n > 0 {
		cause = j.Attempts[n-1].Cause
	}
	if state == model.Cancelled {
		cause = model.CauseCancelled
	}
	s.emitJob(model.EventFinished, j, cause)
	if j.Parent != 0 {
		s.countEndedTask(j)
	}
}
