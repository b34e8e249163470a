package cluster

import (
	"cmp"
	"fmt"
	"slices"
)

// KindControlJobs is the kind of [ControlJobs].
var KindControlJobs = newKind("control-jobs/1")

// Verb is what ControlJobs does.
type Verb string

// Verbs.
const (
	VerbCancel  Verb = "cancel"
	VerbHold    Verb = "hold"
	VerbRelease Verb = "release"
	VerbRequeue Verb = "requeue"
)

// ControlJobs applies a verb to jobs, and to single children of parent jobs. Its result is []ControlResult, one for each target; one refusal
// does not stop the rest.
type ControlJobs struct {
	Verb    Verb     `json:"verb"`
	Targets []Target `json:"targets"`
	By      uint32   `json:"by"`    // uid of who asked
	Admin   bool     `json:"admin"` // an operator or root: may act on anyone's jobs
	Reason  string   `json:"reason,omitempty"`
	Signal  string   `json:"signal,omitempty"` // of cancel: in place of the one that the job says
}

// Target is a job, or some children.
type Target struct {
	ID      JobID  `json:"id"`
	Members Ranges `json:"members,omitempty"` // by number, from 1; none: the job itself and with a parent job all its children
}

// ControlResult is what became of one id of a ControlJobs.
type ControlResult struct {
	ID  JobID
	Err error // nil, ErrNoJob, ErrNotOwner or ErrWrongState
}

// Kind implements Command.
func (ControlJobs) Kind() Kind { return KindControlJobs }

// apply applies the verb to each target; one refusal does not stop the rest.
func (c ControlJobs) apply(s *State) (any, error) {
	do, ok := s.verbs()[c.Verb]
	if !ok {
		return nil, fmt.Errorf("%q: %w", c.Verb, ErrBadVerb)
	}
	if err := limit("the number of jobs in one request", int64(len(c.Targets)), MaxJobsPerCall, ""); err != nil {
		return nil, err
	}
	if c.Signal != "" && (c.Verb != VerbCancel || !slices.Contains(stopSignals, c.Signal)) {
		return nil, &SpecError{fmt.Sprintf("signal %q: a cancelled job can be sent one of %v", c.Signal, stopSignals)}
	}
	results := make([]ControlResult, len(c.Targets))
	for i, t := range c.Targets {
		results[i] = ControlResult{ID: t.ID, Err: s.control(t, &c, do)}
	}
	return results, nil
}

// stopSignals are those that a job can be asked to stop with.
var stopSignals = []string{"SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGCONT", "SIGWINCH", "SIGKILL"}

// verb does something to a job that is no parent job.
type verb func(*Job, *ControlJobs) error

func (s *State) verbs() map[Verb]verb {
	return map[Verb]verb{VerbCancel: s.cancel, VerbHold: s.hold, VerbRelease: s.release, VerbRequeue: s.askRequeue}
}

// control does it to one target. The id of a child that has not been made names that child of its parent job.
func (s *State) control(t Target, c *ControlJobs, do verb) error {
	j := s.v.Job(t.ID)
	if record, n := s.v.Element(t.ID); j == nil && record != nil && !record.State.Final() && len(t.Members) == 0 {
		j, t.Members = record, Span(n, n)
	}
	switch {
	case j == nil:
		return fmt.Errorf("job %d: %w", t.ID, ErrNoJob)
	case !c.Admin && c.By != j.Owner.UID:
		return fmt.Errorf("job %d of %s: %w", t.ID, j.Owner.User, ErrNotOwner)
	case len(t.Members) > 0 && (j.Family == nil || !within(t.Members, j.Family.Size)):
		return fmt.Errorf("members %s of job %d: %w", t.Members, t.ID, ErrNoMember)
	}
	state, err := j.State, error(nil)
	if j.Family == nil {
		err = do(j, c)
	} else {
		err = s.controlParent(j, t.Members, c, do)
	}
	if err != nil {
		return fmt.Errorf("%s job %d in state %s: %w", c.Verb, t.ID, state, err)
	}
	return nil
}

// controlParent does it to children, to all if none are named. It is refused if it comes to nothing with all of them.
func (s *State) controlParent(j *Job, members Ranges, c *ControlJobs, do verb) error {
	if j.State.Final() {
		return ErrWrongState
	}
	whole := len(members) == 0
	if whole {
		members = Span(1, j.Family.Size)
	}
	made := members.Both(j.Family.made())
	refusal := s.controlWaiting(j, members, whole, c)
	done := refusal == nil
	for n := range made.All() {
		m := s.v.Member(j.ID, n)
		if m == nil || m.State.Final() {
			continue
		}
		if err := do(m, c); err != nil {
			refusal = cmp.Or(refusal, err)
		} else {
			done = true
		}
	}
	if done {
		return nil
	}
	return refusal
}

// controlWaiting does it to the children that have not been made, by noting it in the parent job.
func (s *State) controlWaiting(j *Job, members Ranges, whole bool, c *ControlJobs) error {
	waiting := members.Both(j.Family.Waiting)
	switch {
	case c.Verb == VerbCancel && whole:
		s.giveUp(j, Cancelled, Reason{Text: c.Reason})
		return nil
	case c.Verb == VerbRequeue, len(waiting) == 0:
		return ErrWrongState
	case c.Verb == VerbCancel:
		s.dropTasks(j, waiting, Reason{Text: c.Reason})
		return nil
	case whole:
		return s.verbs()[c.Verb](j, c)
	case c.Verb == VerbHold:
		return s.holdTasks(j, waiting, c)
	}
	return s.releaseTasks(j, waiting, c)
}

// holdTasks keeps some waiting children from being made.
func (s *State) holdTasks(j *Job, waiting Ranges, c *ControlJobs) error {
	if j.Hold != NotHeld {
		return nil // all of them are
	}
	next, f := copyParent(j)
	if c.Admin && c.By != j.Owner.UID {
		f.HeldAdmin, f.HeldUser = f.HeldAdmin.With(waiting), f.HeldUser.Without(waiting)
	} else {
		f.HeldUser = f.HeldUser.With(waiting.Without(f.HeldAdmin))
	}
	if len(next.ready()) == 0 {
		s.unreserve(j.ID)
	}
	s.put(next)
	s.emitJob(EventHeld, next, "")
	return nil
}

// releaseTasks lets some waiting children be made again. When the whole parent job was held, the others stay so one by one.
func (s *State) releaseTasks(j *Job, waiting Ranges, c *ControlJobs) error {
	next, f := copyParent(j)
	switch j.Hold {
	case NotHeld:
	case HeldByAdmin:
		f.HeldAdmin, f.HeldUser = f.Waiting, nil
	default:
		f.HeldUser = f.Waiting.Without(f.HeldAdmin)
	}
	next.Hold, next.Reason = NotHeld, Reason{}
	mine := waiting.Both(f.HeldUser)
	if c.Admin {
		mine = mine.With(waiting.Both(f.HeldAdmin))
	}
	switch {
	case len(mine) == 0 && len(waiting.Both(f.HeldAdmin)) > 0:
		return ErrHeldByAdmin
	case len(mine) == 0:
		return ErrWrongState
	}
	f.HeldUser, f.HeldAdmin = f.HeldUser.Without(mine), f.HeldAdmin.Without(mine)
	s.putReleased(next)
	return nil
}

// putReleased stores a job that is not held any more.
func (s *State) putReleased(next *Job) {
	if next.Eligible > s.v.at {
		next.Reason = next.delayed()
	} else {
		next.Eligible = s.v.at // time spent on hold is no reason to be reserved for
	}
	s.put(next)
	s.emitJob(EventReleased, next, "")
}

// cancel ends a pending job at once and asks a live one to stop. Asking again changes nothing.
func (s *State) cancel(j *Job, c *ControlJobs) error {
	if j.State.Final() {
		return ErrWrongState
	}
	if j.State == Pending {
		next := *j
		s.finish(&next, Cancelled, Reason{Text: c.Reason})
		return nil
	}
	return s.askStop(j, CauseCancelled, c)
}

func (s *State) askRequeue(j *Job, c *ControlJobs) error {
	if j.Live() == nil {
		return ErrWrongState
	}
	return s.askStop(j, CauseRequeue, c)
}

// askStop stops a live job for someone. That it is being stopped for that cause or a stronger one already is no error.
func (s *State) askStop(j *Job, cause Cause, c *ControlJobs) error {
	if stop := j.Live().Stop; stop != nil && stopStrength[stop.Cause] >= stopStrength[cause] {
		if stop.Cause == cause || stop.Cause == CauseCancelled {
			return nil
		}
		return ErrStopping
	}
	next, a := copyToChange(j)
	s.stop(next, a, Stop{Cause: cause, Signal: c.Signal, By: fmt.Sprintf("uid %d", c.By), Reason: c.Reason})
	s.put(next)
	return nil
}

// hold keeps a pending job from starting. An operator's hold on someone else's job takes the place of a weaker one.
func (s *State) hold(j *Job, c *ControlJobs) error {
	byAdmin := c.Admin && c.By != j.Owner.UID
	switch {
	case !j.waits():
		return ErrWrongState
	case j.Hold == HeldByAdmin, j.Hold != NotHeld && !byAdmin:
		return nil
	}
	next := *j
	next.Hold, next.Reason = HeldByUser, Reason{Code: ReasonHeldUser, Text: c.Reason}
	if byAdmin {
		next.Hold, next.Reason.Code = HeldByAdmin, ReasonHeldAdmin
	}
	s.unreserve(j.ID)
	s.put(&next)
	s.emitJob(EventHeld, &next, "")
	return nil
}

// release lets a held job start again. The count that put it on hold starts anew.
func (s *State) release(j *Job, c *ControlJobs) error {
	switch {
	case j.Family != nil:
		return s.releaseTasks(j, j.Family.Waiting, c)
	case !j.waits() || j.Hold == NotHeld:
		return ErrWrongState
	case j.Hold == HeldByAdmin && !c.Admin:
		return ErrHeldByAdmin
	}
	next := *j
	if j.Hold == HeldRequeue {
		next.Counters.Requeues = 0
	}
	next.Hold, next.Reason = NotHeld, Reason{}
	s.putReleased(&next)
	return nil
}
