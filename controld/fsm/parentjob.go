package fsm

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
)

// childChanges is what one command has done to a parent's children so far. It is folded into the parent job once, when the command is over, so that
// a parent job is copied once a command and not once for each of its children.
type childChanges struct {
	made  map[int]bool
	ill   map[int]bool // ended otherwise than well
	began bool         // an attempt of a child was assigned
	ran   bool         // and all its workers have run

	live, completed, failed, cancelled int
	code, signal                       int // the highest of the children that have ended and were not cancelled
	fate                               model.JobState
}

// childChangesOf returns the changes to a parent job that the present command has collected. That there are any makes the parent job be settled.
func (s *State) childChangesOf(id model.JobID) *childChanges {
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

// settleParents carries what the command did to children over to their parent jobs. A parent job that ends may end others, so it goes on until
// nothing is left; the order is that of the ids.
func (s *State) settleParents() {
	for len(s.childChanges) > 0 {
		ids := make([]model.JobID, 0, len(s.childChanges))
		for id := range s.childChanges {
			ids = append(ids, id)
		}
		slices.Sort(ids)
		for _, id := range ids {
			if s.childChanges[id] != nil {
				s.applyChildChanges(id)
				delete(s.childChanges, id)
				s.settleParent(id)
			}
		}
	}
}

// applyChildChanges writes the changes collected so far into a parent job, which is then as its children say.
func (s *State) applyChildChanges(id model.JobID) {
	c, j := s.childChanges[id], s.v.Job(id)
	if c == nil || j == nil || c.empty() {
		return
	}
	s.childChanges[id] = &childChanges{}
	next, f := copyParent(j)
	if len(c.made) > 0 {
		f.Waiting = f.Waiting.Without(rangesOfSet(c.made))
		next.Bypassed = 0
		f.Trim()
	}
	if len(c.ill) > 0 {
		f.Unsuccessful = f.Unsuccessful.With(rangesOfSet(c.ill))
	}
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
		next.Started = s.now()
		s.emitJob(model.EventStarted, next, "")
	}
	s.put(next)
}

func (c *childChanges) empty() bool {
	return len(c.made) == 0 && !c.began && !c.ran && c.live|c.completed|c.failed|c.cancelled|c.code|c.signal == 0
}

// withNumber adds a child to a set, which is made if there is none.
func withNumber(set map[int]bool, member int) map[int]bool {
	if set == nil {
		set = map[int]bool{}
	}
	set[member] = true
	return set
}

// rangesOfSet returns the keys of a set of numbers.
func rangesOfSet(set map[int]bool) model.Ranges {
	numbers := make([]int, 0, len(set))
	for n := range set {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	var r model.Ranges
	for _, n := range numbers {
		if k := len(r); k > 0 && r[k-1].Last+1 == n {
			r[k-1].Last = n
			continue
		}
		r = append(r, model.Range{First: n, Last: n})
	}
	return r
}

// copyParent copies a parent job and its family to be changed and put back.
func copyParent(j *model.Job) (*model.Job, *model.Children) {
	next, f := *j, *j.Children
	next.Children = &f
	return &next, &f
}

// dropWaitingTasks gives up waiting children in a draft of a parent job.
func (s *State) dropWaitingTasks(j *model.Job, members model.Ranges) {
	j.Children.Drop(members)
	if len(j.Children.Waiting) == 0 {
		j.Hold = model.NotHeld
		s.unreserve(j.ID)
	}
}

// settleParent draws the conclusions from what a parent's children have come to.
func (s *State) settleParent(id model.JobID) {
	j := s.v.Job(id)
	if j == nil || j.Children == nil || j.State.Final() {
		return
	}
	if a := j.Spec.Array; a != nil && a.MaxFailures != nil && *a.MaxFailures >= 0 && j.Children.Failed > *a.MaxFailures && len(j.Children.Waiting) > 0 {
		next, f := copyParent(j)
		s.dropWaitingTasks(next, f.Waiting)
		s.put(next)
		j = next
	}
	if f := j.Children; f.Live == 0 && len(f.Waiting) == 0 {
		next, _ := copyParent(j)
		state, why := parentOutcome(j)
		s.finish(next, state, why)
	}
}

// parentOutcome says how a parent job ends, all of whose children have: as was decided for the whole, or failed if one did. Elements that were taken
// out of an array singly do not count against the rest.
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
	return model.Completed, model.Reason{}
}

// giveUp ends a job that waits, for good. Of a parent job it ends what has not begun: waiting children are dropped and those that wait for
// another attempt end the same way. The parent job itself ends in that state once its last child has.
func (s *State) giveUp(j *model.Job, state model.JobState, why model.Reason) {
	if j.Children == nil {
		next := *j
		s.finish(&next, state, why)
		return
	}
	s.applyChildChanges(j.ID)
	next, f := copyParent(s.v.Job(j.ID))
	s.dropWaitingTasks(next, f.Waiting)
	f.Fate, next.Reason = state, why
	s.put(next)
	s.childChangesOf(j.ID)
	for m := range s.v.madeTasks(next) {
		if m.State == model.Pending {
			s.giveUp(m, state, why)
		}
	}
}

// dropTasks gives up waiting children.
func (s *State) dropTasks(j *model.Job, members model.Ranges, why model.Reason) {
	s.applyChildChanges(j.ID)
	next, _ := copyParent(s.v.Job(j.ID))
	s.dropWaitingTasks(next, members)
	if len(next.Children.Waiting) == 0 && next.Children.Live == 0 {
		next.Reason = why
	}
	s.put(next)
	s.childChangesOf(j.ID)
}

// countEndedTask counts the end of a child.
func (s *State) countEndedTask(j *model.Job) {
	c := s.childChangesOf(j.Parent)
	c.live--
	if j.State != model.Completed {
		c.ill = withNumber(c.ill, j.TaskNumber)
	}
	switch j.State {
	case model.Completed:
		c.completed++
	case model.Cancelled:
		c.cancelled++
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
