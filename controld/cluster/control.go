package cluster

import (
	"cmp"
	"fmt"

	"github.com/rota-hpc/rota/jobspec"
)

// controlJobs applies a verb to each job; one refusal does not stop the rest.
func (s *State) controlJobs(c ControlJobs) (any, error) {
	do, ok := s.verbs()[c.Verb]
	if !ok {
		return nil, fmt.Errorf("%q: %w", c.Verb, ErrBadVerb)
	}
	if err := limit("the number of jobs in one request", int64(len(c.IDs)), MaxJobsPerCall, ""); err != nil {
		return nil, err
	}
	results := make([]ControlResult, len(c.IDs))
	for i, id := range c.IDs {
		results[i] = ControlResult{ID: id, Err: s.control(id, c, do)}
	}
	return results, nil
}

func (s *State) verbs() map[Verb]func(*Job, ControlJobs) error {
	return map[Verb]func(*Job, ControlJobs) error{
		VerbCancel: s.cancel, VerbHold: s.hold, VerbRelease: s.release, VerbRequeue: s.askRequeue,
	}
}

func (s *State) control(id JobID, c ControlJobs, do func(*Job, ControlJobs) error) error {
	j := s.v.Job(id)
	switch {
	case j == nil:
		return fmt.Errorf("job %d: %w", id, ErrNoJob)
	case !c.Admin && c.By != j.Owner.UID:
		return fmt.Errorf("job %d of %s: %w", id, j.Owner.User, ErrNotOwner)
	}
	if err := do(j, c); err != nil {
		return fmt.Errorf("%s job %d in state %s: %w", c.Verb, id, j.State, err)
	}
	return nil
}

// cancel ends a pending job at once and asks a live one to stop. Asking again changes nothing.
func (s *State) cancel(j *Job, c ControlJobs) error {
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

func (s *State) askRequeue(j *Job, c ControlJobs) error {
	if j.Live() == nil {
		return ErrWrongState
	}
	return s.askStop(j, CauseRequeue, c)
}

// askStop stops a live job for someone. That it is being stopped for that cause or a stronger one already is no error.
func (s *State) askStop(j *Job, cause Cause, c ControlJobs) error {
	if stop := j.Live().Stop; stop != nil && strength[stop.Cause] >= strength[cause] {
		if stop.Cause == cause || stop.Cause == CauseCancelled {
			return nil
		}
		return ErrStopping
	}
	next, a := redraft(j)
	s.stop(next, a, Stop{Cause: cause, By: fmt.Sprintf("uid %d", c.By), Reason: c.Reason})
	s.put(next)
	return nil
}

// hold keeps a pending job from starting. An operator's hold on someone else's job takes the place of a weaker one.
func (s *State) hold(j *Job, c ControlJobs) error {
	byAdmin := c.Admin && c.By != j.Owner.UID
	switch {
	case j.State != Pending:
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
func (s *State) release(j *Job, c ControlJobs) error {
	switch {
	case j.State != Pending || j.Hold == NotHeld:
		return ErrWrongState
	case j.Hold == HeldByAdmin && !c.Admin:
		return ErrHeldByAdmin
	}
	next := *j
	if j.Hold == HeldRequeue {
		next.Counters.Requeues = 0
	}
	next.Hold, next.Reason = NotHeld, Reason{}
	if next.Eligible > s.v.at {
		next.Reason = next.delayed()
	} else {
		next.Eligible = s.v.at // time spent on hold is no reason to be reserved for
	}
	s.put(&next)
	s.emitJob(EventReleased, &next, "")
	return nil
}

// strength orders causes of a stop: one in progress is replaced only by a stronger one. Being lost outranks having failed, because
// the rest of a gang fails when one of its nodes is lost, and that must not count against its user.
var strength = map[Cause]int{
	CauseGrow: 1, CauseShrink: 1, CauseMigrate: 1,
	CauseDrain: 2, CauseOrder: 2, CauseReclaim: 2, CauseTE: 2, CauseRequeue: 2,
	CauseFailed: 3, CauseOOM: 3, CauseLaunch: 3,
	CauseLease: 4, CauseNodeLost: 4, CauseTimeout: 4,
	CauseCancelled: 5,
}

// stop asks an attempt to stop. A stop that replaces a weaker one keeps its clock: the kill never comes later than announced.
func (s *State) stop(j *Job, a *Attempt, ask Stop) {
	var grace jobspec.Seconds
	ask.Signal, grace = manner(j.Spec, j.group(), ask.Cause)
	ask.At, ask.KillAt = s.v.at, s.v.at.after(grace)
	if a.Stop != nil {
		ask.At, ask.KillAt = a.Stop.At, min(a.Stop.KillAt, ask.KillAt)
	}
	a.Stop = &ask
	j.State = Completing
	s.touch(a)
	s.emitJob(EventStopping, j, ask.Cause)
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
