package jobs

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/ranges"
)

// childChanges is what one command has done to a parent's children so far. It is folded into the
// parent once, when the command is over, so that a parent job is copied once for each command, not
// for each child.
type childChanges struct {
	made   ranges.Ranges
	ill    ranges.Ranges // ended otherwise than well
	pruned ranges.Ranges // those of ill that early stopping cancelled
	began  bool          // an attempt of a child was assigned
	ran    bool          // and all its workers have run

	live, completed, failed, cancelled int
	code, signal                       int // the highest of the children that have ended and were not cancelled
	fate                               model.JobState
}

// childChangesOf returns the changes to a parent job that the present command has collected. That
// there are any makes the parent job be settled.
func (s *Store) childChangesOf(id model.JobID) *childChanges {
	c := s.childChanges[id]
	if c == nil {
		c = &childChanges{}
		if s.childChanges == nil {
			s.childChanges = map[model.JobID]*childChanges{}
		}
		s.childChanges[id] = c
	}
	return c
}

// TaskBegan notes that an attempt of a child was assigned.
func (s *Store) TaskBegan(parent model.JobID) { s.childChangesOf(parent).began = true }

// TaskRan notes that all workers of a child have run.
func (s *Store) TaskRan(parent model.JobID) { s.childChangesOf(parent).ran = true }

// TaskMade notes that a child was made, with its number.
func (s *Store) TaskMade(parent model.JobID, n int) {
	c := s.childChangesOf(parent)
	c.made = c.made.With(ranges.Span(n, n))
	c.live++
}

// MadeNow returns the children of a parent that this entry has made, and by how many the number of
// live children has grown.
func (s *Store) MadeNow(parent model.JobID) (made ranges.Ranges, live int) {
	c := s.childChangesOf(parent)
	return c.made, c.live
}

// settleParents carries what the command did to children over to their parent jobs. A parent job
// that ends may end others, so it goes on until nothing is left; the order is that of the ids.
func (s *Store) settleParents() {
	for len(s.childChanges) > 0 {
		ids := make([]model.JobID, 0, len(s.childChanges))
		for id := range s.childChanges {
			ids = append(ids, id)
		}
		slices.Sort(ids)
		for _, id := range ids {
			if s.childChanges[id] != nil {
				s.ApplyChildChanges(id)
				delete(s.childChanges, id)
				s.settleParent(id)
			}
		}
	}
}

// ApplyChildChanges writes the changes collected so far into a parent job, which is then as its
// children say.
func (s *Store) ApplyChildChanges(id model.JobID) {
	c, j := s.childChanges[id], s.view.Job(id)
	if c == nil || j == nil || c.empty() {
		return
	}
	s.childChanges[id] = &childChanges{}
	next, f := CopyParent(j)
	if len(c.made) > 0 {
		f.Waiting = f.Waiting.Without(c.made)
		next.Bypassed = 0
		f.Trim()
	}
	f.Unsuccessful, f.Pruned = f.Unsuccessful.With(c.ill), f.Pruned.With(c.pruned)
	f.Live += c.live
	f.Completed, f.Failed, f.Cancelled = f.Completed+c.completed, f.Failed+c.failed, f.Cancelled+c.cancelled
	next.ExitCode, next.Signal = max(j.ExitCode, c.code), max(j.Signal, c.signal)
	f.Fate = cmp.Or(f.Fate, c.fate)
	if c.began && next.State == model.Pending {
		next.State = model.Running
		if next.Hold == model.NotHeld {
			next.Reason = model.Reason{}
		}
	}
	if c.ran && next.Started.At == 0 {
		next.Started = s.state.Now()
		s.state.EmitJob(model.EventStarted, next, "")
	}
	s.Put(next)
}

func (c *childChanges) empty() bool {
	return len(c.made) == 0 && !c.began && !c.ran && c.live|c.completed|c.failed|c.cancelled|c.code|c.signal == 0
}

// dropWaitingTasks gives up waiting children in a draft of a parent job.
func (s *Store) dropWaitingTasks(j *model.Job, tasks ranges.Ranges) {
	j.Children.Drop(tasks)
	if len(j.Children.Waiting) == 0 {
		j.Hold = model.NotHeld
		s.state.Unreserve(j.ID)
	}
}

// settleParent draws the conclusions from what a parent's children have come to.
func (s *Store) settleParent(id model.JobID) {
	j := s.view.Job(id)
	if j == nil || j.Children == nil || j.State.Final() {
		return
	}
	if a := j.Spec.Array; a != nil && a.MaxFailures != nil && *a.MaxFailures >= 0 && j.Children.Failed > *a.MaxFailures &&
		len(j.Children.Waiting) > 0 {
		next, f := CopyParent(j)
		s.dropWaitingTasks(next, f.Waiting)
		s.Put(next)
		j = next
	}
	if f := j.Children; f.Live == 0 && len(f.Waiting) == 0 {
		next, _ := CopyParent(j)
		state, why := parentOutcome(j)
		s.Finish(next, state, why)
	}
}

// parentOutcome says how a parent job ends, all of whose children have: as was decided for the
// whole, or failed if one did. An array is not complete if an element was cancelled, or never ran because
// its counterpart had failed; pruned elements are not missing.
func parentOutcome(j *model.Job) (model.JobState, model.Reason) {
	f := j.Children
	switch {
	case f.Completed == f.Size:
		return model.Completed, model.Reason{}
	case f.Fate != "":
		return f.Fate, j.Reason
	case f.Failed > 0:
		return model.Failed, model.Reason{Code: model.ReasonNonZeroExit, Fit: f.Failed, Want: f.Size}
	case f.Completed == 0:
		return model.Cancelled, model.Reason{Text: j.Reason.Text}
	}
	if missing := f.Size - f.Completed - f.Pruned.Len(); j.Spec.Array != nil && missing > 0 {
		return model.Cancelled, model.Reason{Text: cmp.Or(j.Reason.Text,
			fmt.Sprintf("%d of its %d elements were cancelled", missing, f.Size))}
	}
	return model.Completed, model.Reason{}
}

// GiveUp ends a job that waits, for good. Of a parent job it ends what has not begun: waiting
// children are dropped and those that wait for another attempt end the same way. The parent job
// itself ends in that state once its last child has. by is the user that cancels it, if one does.
func (s *Store) GiveUp(j *model.Job, state model.JobState, why model.Reason, by model.OptionalUID) {
	if j.Children == nil {
		next := *j
		next.CancelledBy = by
		s.Finish(&next, state, why)
		return
	}
	s.ApplyChildChanges(j.ID)
	next, f := CopyParent(s.view.Job(j.ID))
	s.dropWaitingTasks(next, f.Waiting)
	if f.Fate != model.Cancelled && by != 0 {
		next.CancelledBy = by
	}
	f.Fate, next.Reason = state, why
	s.Put(next)
	s.childChangesOf(j.ID)
	for task := range s.view.MadeTasks(next) {
		if task.State == model.Pending {
			s.GiveUp(task, state, why, by)
		}
	}
}

// DropTasks gives up waiting children. pruned: the parent job is complete without them.
func (s *Store) DropTasks(j *model.Job, tasks ranges.Ranges, why model.Reason, pruned bool) {
	s.ApplyChildChanges(j.ID)
	next, f := CopyParent(s.view.Job(j.ID))
	if pruned {
		f.Pruned = f.Pruned.With(tasks.Both(f.Waiting))
	}
	s.dropWaitingTasks(next, tasks)
	if len(next.Children.Waiting) == 0 && next.Children.Live == 0 {
		next.Reason = why
	}
	s.Put(next)
	s.childChangesOf(j.ID)
}

// countEndedTask counts the end of a child.
func (s *Store) countEndedTask(j *model.Job) {
	c := s.childChangesOf(j.Parent)
	c.live--
	if j.State != model.Completed {
		c.ill = c.ill.With(ranges.Span(j.TaskNumber, j.TaskNumber))
	}
	switch j.State {
	case model.Completed:
		c.completed++
	case model.Cancelled:
		c.cancelled++
		if j.Pruned {
			c.pruned = c.pruned.With(ranges.Span(j.TaskNumber, j.TaskNumber))
		}
		if j.Spec.Array == nil && j.Reason.Code != model.ReasonNeverMet {
			c.fate = model.Cancelled // a group that a user took out is missing, unlike one that was not needed
		}
	default:
		c.failed++
	}
	if j.State != model.Cancelled { // how one that was taken out ended says nothing of the others
		c.code, c.signal = max(c.code, j.ExitCode), max(c.signal, j.Signal)
	}
}
