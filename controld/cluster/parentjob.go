package cluster

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/jobspec"
)

// MaxMembers bounds the children of one parent job. Their ids are given with its own.
const MaxMembers = jobspec.MaxElements

// childChanges is what one command has done to a parent's children so far. It is folded into the parent job once, when the command is over, so that
// a parent job is copied once a command and not once for each of its children.
type childChanges struct {
	made  map[int]bool
	ill   map[int]bool // ended otherwise than well
	began bool         // an attempt of a child was assigned
	ran   bool         // and all its workers have run

	live, completed, failed, cancelled int
	code, signal                       int // the highest of the children that have ended and were not cancelled
	fate                               JobState
}

// childChangesOf returns the changes to a parent job that the present command has collected. That there are any makes the parent job be settled.
func (s *State) childChangesOf(id JobID) *childChanges {
	c := s.childChanges[id]
	if c == nil {
		c = &childChanges{}
		if s.childChanges == nil {
			s.childChanges = map[JobID]*childChanges{}
		}
		s.childChanges[id] = c
	}
	return c
}

// settleParents carries what the command did to children over to their parent jobs. A parent job that ends may end others, so it goes on until
// nothing is left; the order is that of the ids.
func (s *State) settleParents() {
	for len(s.childChanges) > 0 {
		ids := make([]JobID, 0, len(s.childChanges))
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
func (s *State) applyChildChanges(id JobID) {
	c, j := s.childChanges[id], s.v.Job(id)
	if c == nil || j == nil || c.empty() {
		return
	}
	s.childChanges[id] = &childChanges{}
	next, f := copyParent(j)
	if len(c.made) > 0 {
		f.Waiting = f.Waiting.Without(rangesOfSet(c.made))
		next.Bypassed = 0
		f.trim()
	}
	if len(c.ill) > 0 {
		f.Ill = f.Ill.With(rangesOfSet(c.ill))
	}
	f.Live += c.live
	f.Completed, f.Failed, f.Cancelled = f.Completed+c.completed, f.Failed+c.failed, f.Cancelled+c.cancelled
	next.ExitCode, next.Signal = max(j.ExitCode, c.code), max(j.Signal, c.signal)
	f.Fate = cmp.Or(f.Fate, c.fate)
	if c.began && next.State == Pending {
		next.State = Running
		if next.Hold == NotHeld {
			next.Reason = Reason{}
		}
	}
	if c.ran && next.Started.At == 0 {
		next.Started = s.now()
		s.emitJob(EventStarted, next, "")
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
func rangesOfSet(set map[int]bool) Ranges {
	numbers := make([]int, 0, len(set))
	for n := range set {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	var r Ranges
	for _, n := range numbers {
		if k := len(r); k > 0 && r[k-1].Last+1 == n {
			r[k-1].Last = n
			continue
		}
		r = append(r, Range{n, n})
	}
	return r
}

// copyParent copies a parent job and its family to be changed and put back.
func copyParent(j *Job) (*Job, *Family) {
	next, f := *j, *j.Family
	next.Family = &f
	return &next, &f
}

// trim keeps the sets that are about waiting children within them.
func (f *Family) trim() {
	f.Ready, f.HeldUser, f.HeldAdmin = f.Ready.Both(f.Waiting), f.HeldUser.Both(f.Waiting), f.HeldAdmin.Both(f.Waiting)
}

// drop gives up waiting children.
func (f *Family) drop(members Ranges) {
	f.Dropped = f.Dropped.With(members.Both(f.Waiting))
	f.Waiting = f.Waiting.Without(members)
	f.trim()
}

// dropWaitingTasks gives up waiting children in a draft of a parent job.
func (s *State) dropWaitingTasks(j *Job, members Ranges) {
	j.Family.drop(members)
	if len(j.Family.Waiting) == 0 {
		j.Hold = NotHeld
		s.unreserve(j.ID)
	}
}

// Made returns how many children have been made, those that have ended included.
func (f *Family) Made() int { return f.Live + f.Completed + f.Failed + f.Cancelled }

// settleParent draws the conclusions from what a parent's children have come to.
func (s *State) settleParent(id JobID) {
	j := s.v.Job(id)
	if j == nil || j.Family == nil || j.State.Final() {
		return
	}
	if a := j.Spec.Array; a != nil && a.MaxFailures != nil && *a.MaxFailures >= 0 && j.Family.Failed > *a.MaxFailures && len(j.Family.Waiting) > 0 {
		next, f := copyParent(j)
		s.dropWaitingTasks(next, f.Waiting)
		s.put(next)
		j = next
	}
	if f := j.Family; f.Live == 0 && len(f.Waiting) == 0 {
		next, _ := copyParent(j)
		state, why := parentOutcome(j)
		s.finish(next, state, why)
	}
}

// parentOutcome says how a parent job ends, all of whose children have: as was decided for the whole, or failed if one did. Elements that were taken
// out of an array singly do not count against the rest.
func parentOutcome(j *Job) (JobState, Reason) {
	f := j.Family
	switch {
	case f.Completed == f.Size:
		return Completed, Reason{}
	case f.Fate != "":
		return f.Fate, j.Reason
	case f.Failed > 0:
		return Failed, Reason{Code: ReasonNonZeroExit, Fit: f.Failed, Want: f.Size}
	case f.Completed == 0:
		return Cancelled, Reason{Text: j.Reason.Text}
	}
	return Completed, Reason{}
}

// giveUp ends a job that waits, for good. Of a parent job it ends what has not begun: waiting children are dropped and those that wait for
// another attempt end the same way. The parent job itself ends in that state once its last child has.
func (s *State) giveUp(j *Job, state JobState, why Reason) {
	if j.Family == nil {
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
		if m.State == Pending {
			s.giveUp(m, state, why)
		}
	}
}

// dropTasks gives up waiting children.
func (s *State) dropTasks(j *Job, members Ranges, why Reason) {
	s.applyChildChanges(j.ID)
	next, _ := copyParent(s.v.Job(j.ID))
	s.dropWaitingTasks(next, members)
	if len(next.Family.Waiting) == 0 && next.Family.Live == 0 {
		next.Reason = why
	}
	s.put(next)
	s.childChangesOf(j.ID)
}

// countEndedTask counts the end of a child.
func (s *State) countEndedTask(j *Job) {
	c := s.childChangesOf(j.Parent)
	c.live--
	if j.State != Completed {
		c.ill = withNumber(c.ill, j.Member)
	}
	switch j.State {
	case Completed:
		c.completed++
	case Cancelled:
		c.cancelled++
		if j.Spec.Array == nil && j.Reason.Code != ReasonNeverMet {
			c.fate = Cancelled // a group that somebody took out is missing, unlike one that was not needed
		}
	default:
		c.failed++
	}
	if j.State != Cancelled { // how one that was taken out ended says nothing of the others
		c.code, c.signal = max(c.code, j.ExitCode), max(c.signal, j.Signal)
	}
}

// Waits reports whether a job, or a child of a parent job that is not made yet, waits to be started. It may be held.
func (j *Job) Waits() bool { return j.waits() }

// ready returns the waiting children that nothing keeps from starting but room and max_parallel.
func (j *Job) ready() Ranges {
	r := j.MayStart()
	if f := j.Family; len(f.HeldUser)+len(f.HeldAdmin) > 0 {
		r = r.Without(f.HeldUser).Without(f.HeldAdmin)
	}
	return r
}

// Startable returns how many of a parent's children may start now as far as the parent job is concerned: those that wait and are not held, up to
// max_parallel.
func (j *Job) Startable() int {
	return min(j.ready().Len(), j.slots())
}

// slots returns how many more children may live at once.
func (j *Job) slots() int {
	most := MaxMembers
	if a := j.Spec.Array; a != nil && a.MaxParallel > 0 {
		most = a.MaxParallel
	}
	return max(0, most-j.Family.Live)
}

// Turns yields a parent's startable children in the order in which they should start: see [Job.Startable].
type Turns struct {
	ready Ranges
	left  int
	mix   shuffle // of an array in random order
	rank  int
	size  int
}

// Turns begins with the child that should start next.
func (j *Job) Turns() *Turns {
	t := &Turns{ready: j.ready(), size: j.Family.Size}
	t.left = min(t.ready.Len(), j.slots())
	if a := j.Spec.Array; a != nil && a.Order == "random" {
		t.mix = newShuffle(uint64(j.ID), t.size)
	}
	return t
}

// Left returns how many children it will still yield.
func (t *Turns) Left() int { return t.left }

// Next returns the next child, 0 if there is none.
func (t *Turns) Next() int {
	if t.left == 0 {
		return 0
	}
	t.left--
	if t.mix.rounds != nil {
		for ; ; t.rank++ {
			if member := 1 + t.mix.at(t.rank); t.ready.Has(member) {
				t.rank++
				return member
			}
		}
	}
	for t.rank >= t.ready[0].Last {
		t.ready = t.ready[1:]
	}
	t.rank = max(t.rank+1, t.ready[0].First)
	return t.rank
}
