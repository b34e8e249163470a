package cluster

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/jobspec"
)

// controlJobs applies a verb to each target; one refusal does not stop the rest.
func (s *State) controlJobs(c ControlJobs) (any, error) {
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
type verb func(*Job, *ControlJobs) error

func (s *State) verbs() map[Verb]verb {
	return map[Verb]verb{VerbCancel: s.cancel, VerbHold: s.hold, VerbRelease: s.release, VerbRequeue: s.askRequeue}
}

// control does it to one target. The id of a member that has not been made names that member of its record.
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
		err = s.controlRecord(j, t.Members, c, do)
	}
	if err != nil {
		return fmt.Errorf("%s job %d in state %s: %w", c.Verb, t.ID, state, err)
	}
	return nil
}

// controlRecord does it to members of a record, to all if none are named. It is refused if it comes to nothing with all of them.
func (s *State) controlRecord(j *Job, members Ranges, c *ControlJobs, do verb) error {
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
func (s *State) controlWaiting(j *Job, members Ranges, whole bool, c *ControlJobs) error {
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
func (s *State) holdMembers(j *Job, waiting Ranges, c *ControlJobs) error {
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
func (s *State) releaseMembers(j *Job, waiting Ranges, c *ControlJobs) error {
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
	if stop := j.Live().Stop; stop != nil && strength[stop.Cause] >= strength[cause] {
		if stop.Cause == cause || stop.Cause == CauseCancelled {
			return nil
		}
		return ErrStopping
	}
	next, a := redraft(j)
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
		return s.releaseMembers(j, j.Family.Waiting, c)
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
	s.letGo(&next)
	return nil
}

// strength orders causes of a stop: one in progress is replaced only by a stronger one. Being lost outranks having failed, because
// the rest of a gang fails when one of its nodes is lost, and that must not count against its user.
var strength = map[Cause]int{
	CauseGrow: 1, CauseShrink: 1, CauseMigrate: 1,
	CauseDrain: 2, CauseOrder: 2, CauseReclaim: 2, CauseTE: 2, CauseRequeue: 2,
	CauseCompleted: 3, CauseFailed: 3, CauseOOM: 3, CauseLaunch: 3,
	CauseLease: 4, CauseNodeLost: 4, CauseTimeout: 4,
	CauseCancelled: 5,
}

// stop asks an attempt to stop. A stop that replaces a weaker one keeps its clock: the kill never comes later than announced.
func (s *State) stop(j *Job, a *Attempt, ask Stop) {
	signal, grace := manner(j.Spec, j.group(), ask.Cause)
	ask.Signal = cmp.Or(ask.Signal, signal)
	ask.At, ask.KillAt = s.v.at, s.v.at.after(grace)
	if a.Stop != nil {
		s.forgo(j, a, false)
		ask.At, ask.KillAt = a.Stop.At, min(a.Stop.KillAt, ask.KillAt)
	}
	a.Stop = &ask
	j.State = Completing
	s.touch(a)
	s.emitFor(EventStopping, j, ask.Cause)
}

// manner returns the signal and the grace with which a job is stopped for a cause.
func manner(spec *jobspec.Job, g *jobspec.Group, cause Cause) (signal string, grace jobspec.Seconds) {
	t := mainTask(g)
	signal, grace = cmp.Or(t.KillSignal, "SIGTERM"), cmp.Or(t.KillTimeout, defaultGrace)
	switch cause {
	case CauseLease:
		return signal, leaseGrace
	case CauseTE, CauseReclaim, CauseOrder, CauseShrink, CauseGrow, CauseMigrate, CauseDrain, CauseRequeue:
		signal, grace = "SIGTERM", defaultGrace
		if t.Launch != nil && t.Launch.Type == "slurm" {
			signal = "SIGUSR1"
		}
		if p := spec.Preemption; p != nil {
			signal, grace = cmp.Or(p.Signal, signal), cmp.Or(p.GracePeriod, grace)
		}
	}
	return signal, max(0, grace)
}
