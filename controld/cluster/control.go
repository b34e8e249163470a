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
	ask := &ControlJobs2{Verb: c.Verb, By: c.By, Admin: c.Admin, Reason: c.Reason}
	results := make([]ControlResult, len(c.IDs))
	for i, id := range c.IDs {
		results[i] = ControlResult{ID: id, Err: s.control(Target{ID: id}, ask, do)}
	}
	return results, nil
}

// cancel ends a pending job at once and asks a live one to stop. Asking again changes nothing.
func (s *State) cancel(j *Job, c *ControlJobs2) error {
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

func (s *State) askRequeue(j *Job, c *ControlJobs2) error {
	if j.Live() == nil {
		return ErrWrongState
	}
	return s.askStop(j, CauseRequeue, c)
}

// askStop stops a live job for someone. That it is being stopped for that cause or a stronger one already is no error.
func (s *State) askStop(j *Job, cause Cause, c *ControlJobs2) error {
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
func (s *State) hold(j *Job, c *ControlJobs2) error {
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
func (s *State) release(j *Job, c *ControlJobs2) error {
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
