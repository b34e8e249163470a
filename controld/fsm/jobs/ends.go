package jobs

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// ReturnToQueue makes a job pending again, at its old place, to start after a delay at the
// earliest.
func (s *Store) ReturnToQueue(j *model.Job, cause model.Cause, delay jobspec.Seconds) {
	j.SettleSize()
	j.State, j.Eligible = model.Pending, s.view.At().After(delay)
	s.settleReturn(j)
	if j.Reason.Code == model.ReasonBackoff {
		j.Reason.Until = j.Eligible
	}
	s.Put(j)
	s.EmitFor(model.EventRequeued, j, cause)
	if j.Hold != model.NotHeld {
		s.state.Unreserve(j.ID) // it was to move
		s.state.EmitJob(model.EventHeld, j, cause)
	}
}

// Finish ends a job for good and numbers it for the history.
func (s *Store) Finish(j *model.Job, state model.JobState, why model.Reason) {
	s.state.Unreserve(j.ID)
	j.State, j.Reason, j.Hold, j.Ended, j.Seq = state, why, model.NotHeld, s.state.Now(), s.state.NextSeq()
	s.state.Learn().Runtime(j)
	s.Put(j)
	var cause model.Cause
	if n := len(j.Attempts); n > 0 {
		cause = j.Attempts[n-1].Cause
	}
	if state == model.Cancelled {
		cause = model.CauseCancelled
	}
	if state == model.Preempted {
		s.EmitFor(model.EventFinished, j, cause)
	} else {
		s.state.EmitJob(model.EventFinished, j, cause)
	}
	if j.Parent != 0 {
		s.countEndedTask(j)
	}
}

// EmitFor is emitJob for consequences of an attempt's stop: the event names the job that it was
// stopped for, and its cost.
func (s *Store) EmitFor(t model.EventType, j *model.Job, cause model.Cause) {
	e := state.JobEvent(t, j, cause)
	if n := len(j.Attempts); n > 0 {
		if t == model.EventEnded {
			e.Text = j.Attempts[n-1].Killed()
		}
		lost := j.LostBy(n-1, s.view.At())
		leave := model.Leave{Lost: lost.Total()}
		if s := j.Attempts[n-1].Stop; s != nil {
			e.For, leave.User, leave.Account = s.For, s.ForUser, s.ForAccount
		}
		if leave != (model.Leave{}) {
			e.Leave = &leave
		}
	}
	s.state.Emit(e)
}

// HoldForAdmin holds a draft of a job whose later attempt has ended unknown.
func (s *Store) HoldForAdmin(j *model.Job) {
	ran := s.view.Recovery().RanOf(j.ID)
	j.Hold, j.Reason = model.HeldByAdmin, model.Reason{Code: model.ReasonHeldAdmin, Text: fmt.Sprintf(
		"attempt %d ran on node %s after the controllers' state was saved, and its end is unknown: look at its output, "+
			"then release or cancel the job", ran.Attempt, ran.Node)}
}

// settleReturn applies the present generation to a draft of a job that returns to the queue.
func (s *Store) settleReturn(j *model.Job) {
	r := s.view.Recovery()
	if r.Generation.Number == 0 {
		return
	}
	if r.RanOf(j.ID).Attempt >= j.Attempt { // which is 1 or more
		s.HoldForAdmin(j)
	}
	if j.ID <= r.Before {
		j.Eligible = max(j.Eligible, r.OldJobsAt)
	}
}
