package fsm

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
func (m *Machine) childChangesOf(id model.JobID) *childChanges {
	c := m.childChanges[id]
	if c == nil {
		c = &childChanges{}
		if m.childChanges == nil {
			m.childChanges = map[model.JobID]*childChanges{}
		}
		m.childChanges[id] = c
	}
	return c
}

// settleParents carries what the command did to children over to their parent jobs. A parent job
// that ends may end others, so it goes on until nothing is left; the order is that of the ids.
func (m *Machine) settleParents() {
	for len(m.childChanges) > 0 {
		ids := make([]model.JobID, 0, len(m.childChanges))
		for id := range m.childChanges {
			ids = append(ids, id)
		}
		slices.Sort(ids)
		for _, id := range ids {
			if m.childChanges[id] != nil {
				m.applyChildChanges(id)
				delete(m.childChanges, id)
				m.settleParent(id)
			}
		}
	}
}

// applyChildChanges writes the changes collected so far into a parent job, which is then as its
// children say.
func (m *Machine) applyChildChanges(id model.JobID) {
	c, j := m.childChanges[id], m.v.Job(id)
	if c == nil || j == nil || c.empty() {
		return
	}
	m.childChanges[id] = &childChanges{}
	next, f := copyParent(j)
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
		next.Started = m.s.Now()
		m.s.EmitJob(model.EventStarted, next, "")
	}
	m.put(next)
}

func (c *childChanges) empty() bool {
	return len(c.made) == 0 && !c.began && !c.ran && c.live|c.completed|c.failed|c.cancelled|c.code|c.signal == 0
}

// copyParent copies a parent job and its family to be changed and put back.
func copyParent(j *model.Job) (*model.Job, *model.Children) {
	next, f := *j, *j.Children
	next.Children = &f
	return &next, &f
}

// dropWaitingTasks gives up waiting children in a draft of a parent job.
func (m *Machine) dropWaitingTasks(j *model.Job, tasks ranges.Ranges) {
	j.Children.Drop(tasks)
	if len(j.Children.Waiting) == 0 {
		j.Hold = model.NotHeld
		m.s.Unreserve(j.ID)
	}
}

// settleParent draws the conclusions from what a parent's children have come to.
func (m *Machine) settleParent(id model.JobID) {
	j := m.v.Job(id)
	if j == nil || j.Children == nil || j.State.Final() {
		return
	}
	if a := j.Spec.Array; a != nil && a.MaxFailures != nil && *a.MaxFailures >= 0 && j.Children.Failed > *a.MaxFailures &&
		len(j.Children.Waiting) > 0 {
		next, f := copyParent(j)
		m.dropWaitingTasks(next, f.Waiting)
		m.put(next)
		j = next
	}
	if f := j.Children; f.Live == 0 && len(f.Waiting) == 0 {
		next, _ := copyParent(j)
		state, why := parentOutcome(j)
		m.finish(next, state, why)
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

// giveUp ends a job that waits, for good. Of a parent job it ends what has not begun: waiting
// children are dropped and those that wait for another attempt end the same way. The parent job
// itself ends in that state once its last child has. by is the user that cancels it, if one does.
func (m *Machine) giveUp(j *model.Job, state model.JobState, why model.Reason, by model.OptionalUID) {
	if j.Children == nil {
		next := *j
		next.CancelledBy = by
		m.finish(&next, state, why)
		return
	}
	m.applyChildChanges(j.ID)
	next, f := copyParent(m.v.Job(j.ID))
	m.dropWaitingTasks(next, f.Waiting)
	if f.Fate != model.Cancelled && by != 0 {
		next.CancelledBy = by
	}
	f.Fate, next.Reason = state, why
	m.put(next)
	m.childChangesOf(j.ID)
	for task := range m.v.MadeTasks(next) {
		if task.State == model.Pending {
			m.giveUp(task, state, why, by)
		}
	}
}

// dropTasks gives up waiting children. pruned: the parent job is complete without them.
func (m *Machine) dropTasks(j *model.Job, tasks ranges.Ranges, why model.Reason, pruned bool) {
	m.applyChildChanges(j.ID)
	next, f := copyParent(m.v.Job(j.ID))
	if pruned {
		f.Pruned = f.Pruned.With(tasks.Both(f.Waiting))
	}
	m.dropWaitingTasks(next, tasks)
	if len(next.Children.Waiting) == 0 && next.Children.Live == 0 {
		next.Reason = why
	}
	m.put(next)
	m.childChangesOf(j.ID)
}

// countEndedTask counts the end of a child.
func (m *Machine) countEndedTask(j *model.Job) {
	c := m.childChangesOf(j.Parent)
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

// startTask makes a child of a parent job and begins its first attempt.
func (m *Machine) startTask(j *model.Job, c *StartJob) error {
	made := m.childChangesOf(j.ID).made
	switch f := j.Children; {
	case f == nil || c.TaskNumber < 1 || c.TaskNumber > f.Size:
		return fmt.Errorf("task %d: %w", c.TaskNumber, model.ErrNoTask)
	case !f.Waiting.Has(c.TaskNumber) || made.Has(c.TaskNumber):
		return fmt.Errorf("task %d: %w", c.TaskNumber, model.ErrWrongState)
	case model.IsSetAside(j) || j.Eligible > m.v.At() || !j.Ready().Has(c.TaskNumber):
		return fmt.Errorf("task %d: %w", c.TaskNumber, model.ErrNotEligible)
	case m.childChangesOf(j.ID).live >= j.Slots():
		return fmt.Errorf("task %d: %w", c.TaskNumber, model.ErrMaxParallel)
	}
	if err := m.launch(j.MakeTask(c.TaskNumber), c); err != nil {
		return fmt.Errorf("task %d: %w", c.TaskNumber, err)
	}
	changed := m.childChangesOf(j.ID)
	changed.made = changed.made.With(ranges.Span(c.TaskNumber, c.TaskNumber))
	changed.live++
	return nil
}
