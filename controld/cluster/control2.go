package cluster

import (
	"cmp"
	"fmt"
	"slices"
)

// controlJobs2 applies a verb to each target; one refusal does not stop the rest.
func (s *State) controlJobs2(c ControlJobs2) (any, error) {
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

// verb does something to a job that is no record.
type verb func(*Job, *ControlJobs2) error

func (s *State) verbs() map[Verb]verb {
	return map[Verb]verb{VerbCancel: s.cancel, VerbHold: s.hold, VerbRelease: s.release, VerbRequeue: s.askRequeue}
}

// control does it to one target. The id of a member that has not been made names that member of its record.
func (s *State) control(t Target, c *ControlJobs2, do verb) error {
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
		err = s.controlRecord(j, t.Members, c, do)
	}
	if err != nil {
		return fmt.Errorf("%s job %d in state %s: %w", c.Verb, t.ID, state, err)
	}
	return nil
}

// controlRecord does it to members of a record, to all if none are named. It is refused if it comes to nothing with all of them.
func (s *State) controlRecord(j *Job, members Ranges, c *ControlJobs2, do verb) error {
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

// controlWaiting does it to the members that have not been made, by noting it in the record.
func (s *State) controlWaiting(j *Job, members Ranges, whole bool, c *ControlJobs2) error {
	waiting := members.Both(j.Family.Waiting)
	switch {
	case c.Verb == VerbCancel && whole:
		s.abandon(j, Cancelled, Reason{Text: c.Reason})
		return nil
	case c.Verb == VerbRequeue, len(waiting) == 0:
		return ErrWrongState
	case c.Verb == VerbCancel:
		s.dropMembers(j, waiting, Reason{Text: c.Reason})
		return nil
	case whole:
		return s.verbs()[c.Verb](j, c)
	case c.Verb == VerbHold:
		return s.holdMembers(j, waiting, c)
	}
	return s.releaseMembers(j, waiting, c)
}

// holdMembers keeps some waiting members from being made.
func (s *State) holdMembers(j *Job, waiting Ranges, c *ControlJobs2) error {
	if j.Hold != NotHeld {
		return nil // all of them are
	}
	next, f := redraftRecord(j)
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

// releaseMembers lets some waiting members be made again. When the whole record was held, the others stay so one by one.
func (s *State) releaseMembers(j *Job, waiting Ranges, c *ControlJobs2) error {
	next, f := redraftRecord(j)
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
	s.letGo(next)
	return nil
}

// letGo stores a job that is not held any more.
func (s *State) letGo(next *Job) {
	if next.Eligible > s.v.at {
		next.Reason = next.delayed()
	} else {
		next.Eligible = s.v.at // time spent on hold is no reason to be reserved for
	}
	s.put(next)
	s.emitJob(EventReleased, next, "")
}
