package fsm

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/jobs"
	"github.com/rota-hpc/rota/controld/fsm/lifecycle"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/ranges"
)

// KindControlJobs is the kind of [ControlJobs].
var KindControlJobs = newKind("control-jobs/1")

// ControlJobs applies a verb to jobs, and to single children of parent jobs. The server has decided
// that its caller may: a job's owner never changes. Its result is []ControlResult, one for each
// target; one refusal does not stop the rest.
type ControlJobs struct {
	Verb    model.Verb `json:"verb"`             // cancel, hold, release or requeue
	Targets []Target   `json:"targets"`          // jobs, or tasks and children of one
	By      uint32     `json:"by"`               // uid of the caller
	System  bool       `json:"system,omitempty"` // no user asks: the leader does it by itself
	// it acts for the operators, as far as jobs of others go: its holds are theirs, and it ends such
	// holds
	Admin  bool   `json:"admin"`
	Reason string `json:"reason,omitempty"` // given by the caller
	Signal string `json:"signal,omitempty"` // of cancel: in place of the one that the job says
	Own    bool   `json:"own,omitempty"`    // of requeue: the job asks by itself, from within its container
	Pruned bool   `json:"pruned,omitempty"` // of cancel: array tasks that are worse than others of their array
}

// user returns the user that asks, if one does.
func (c *ControlJobs) user() model.OptionalUID {
	if c.System {
		return 0
	}
	return model.SomeUID(c.By)
}

// Target is a job, or some children.
type Target struct {
	ID model.JobID `json:"id"`
	// by number, from 1; none: the job itself and with a parent job all its children
	Tasks ranges.Ranges `json:"tasks,omitempty"`
}

// Kind implements Command.
func (ControlJobs) Kind() Kind { return KindControlJobs }

// apply applies the verb to each target; one refusal does not stop the rest.
func (c ControlJobs) apply(m *Machine) (any, error) {
	do, ok := m.verbs()[c.Verb]
	if !ok {
		return nil, fmt.Errorf("%q: %w", c.Verb, model.ErrBadVerb)
	}
	if err := model.Limit("the number of jobs in one request", int64(len(c.Targets)), model.MaxJobsPerCall,
		""); err != nil {
		return nil, err
	}
	if c.Signal != "" && (c.Verb != model.VerbCancel || !slices.Contains(stopSignals, c.Signal)) {
		return nil, &model.SpecError{Text: fmt.Sprintf("signal %q: a cancelled job can be sent one of %v", c.Signal,
			stopSignals)}
	}
	results := make([]model.ControlResult, len(c.Targets))
	for i, t := range c.Targets {
		results[i] = model.ControlResult{ID: t.ID, Err: m.control(t, &c, do)}
	}
	return results, nil
}

// stopSignals are those that a job can be asked to stop with.
var stopSignals = []string{"SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGCONT",
	"SIGWINCH", "SIGKILL"}

// verb does something to a job that is no parent job.
type verb func(*model.Job, *ControlJobs) error

func (m *Machine) verbs() map[model.Verb]verb {
	return map[model.Verb]verb{model.VerbCancel: m.cancel, model.VerbHold: m.hold, model.VerbRelease: m.release,
		model.VerbRequeue: m.askRequeue}
}

// control does it to one target. The id of a child that has not been made names that child of its
// parent job.
func (m *Machine) control(t Target, c *ControlJobs, do verb) error {
	j := m.v.Job(t.ID)
	if parent, n := m.v.ParentOf(t.ID); j == nil && parent != nil && !parent.State.Final() && len(t.Tasks) == 0 {
		j, t.Tasks = parent, ranges.Span(n, n)
	}
	switch {
	case j == nil:
		return fmt.Errorf("job %d: %w", t.ID, model.ErrNoJob)
	case len(t.Tasks) > 0 && (j.Children == nil || !t.Tasks.Within(j.Children.Size)):
		return fmt.Errorf("tasks %s of job %d: %w", t.Tasks, t.ID, model.ErrNoTask)
	}
	state, err := j.State, error(nil)
	if j.Children == nil {
		err = do(j, c)
	} else {
		err = m.controlParent(j, t.Tasks, c, do)
	}
	if err != nil {
		return fmt.Errorf("%s job %d in state %s: %w", c.Verb, t.ID, state, err)
	}
	return nil
}

// controlParent does it to children, to all if none are named. It is refused if it comes to nothing
// with all of them.
func (m *Machine) controlParent(j *model.Job, tasks ranges.Ranges, c *ControlJobs, do verb) error {
	if j.State.Final() {
		return model.ErrWrongState
	}
	whole := len(tasks) == 0
	if whole {
		tasks = ranges.Span(1, j.Children.Size)
	}
	made := tasks.Both(j.Children.MadeTasks())
	refusal := m.controlWaiting(j, tasks, whole, c)
	done := refusal == nil
	for n := range made.All() {
		task := m.v.Child(j.ID, n)
		if task == nil || task.State.Final() {
			continue
		}
		if err := do(task, c); err != nil {
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
func (m *Machine) controlWaiting(j *model.Job, tasks ranges.Ranges, whole bool, c *ControlJobs) error {
	waiting := tasks.Both(j.Children.Waiting)
	switch {
	case c.Verb == model.VerbCancel && whole:
		m.jobs.GiveUp(j, model.Cancelled, model.Reason{Text: c.Reason}, c.user())
		return nil
	case c.Verb == model.VerbRequeue, len(waiting) == 0:
		return model.ErrWrongState
	case c.Verb == model.VerbCancel:
		m.jobs.DropTasks(j, waiting, model.Reason{Text: c.Reason}, c.Pruned)
		return nil
	case whole:
		return m.verbs()[c.Verb](j, c)
	case c.Verb == model.VerbHold:
		return m.holdTasks(j, waiting, c)
	}
	return m.releaseTasks(j, waiting, c)
}

// holdTasks keeps some waiting children from being made.
func (m *Machine) holdTasks(j *model.Job, waiting ranges.Ranges, c *ControlJobs) error {
	if j.Hold != model.NotHeld {
		return nil // all of them are
	}
	next, f := jobs.CopyParent(j)
	if c.Admin && c.By != j.Owner.UID {
		f.HeldAdmin, f.HeldUser = f.HeldAdmin.With(waiting), f.HeldUser.Without(waiting)
	} else {
		f.HeldUser = f.HeldUser.With(waiting.Without(f.HeldAdmin))
	}
	if len(next.Ready()) == 0 {
		m.s.Unreserve(j.ID)
	}
	m.jobs.Put(next)
	m.s.EmitJob(model.EventHeld, next, "")
	return nil
}

// releaseTasks lets some waiting children be made again. When the whole parent job was held, the
// others stay so one by one.
func (m *Machine) releaseTasks(j *model.Job, waiting ranges.Ranges, c *ControlJobs) error {
	next, f := jobs.CopyParent(j)
	switch j.Hold {
	case model.NotHeld:
	case model.HeldByAdmin:
		f.HeldAdmin, f.HeldUser = f.Waiting, nil
	default:
		f.HeldUser = f.Waiting.Without(f.HeldAdmin)
	}
	next.Hold, next.Reason = model.NotHeld, model.Reason{}
	mine := waiting.Both(f.HeldUser)
	if c.Admin {
		mine = mine.With(waiting.Both(f.HeldAdmin))
	}
	switch {
	case len(mine) == 0 && len(waiting.Both(f.HeldAdmin)) > 0:
		return model.ErrHeldByAdmin
	case len(mine) == 0:
		return model.ErrWrongState
	}
	f.HeldUser, f.HeldAdmin = f.HeldUser.Without(mine), f.HeldAdmin.Without(mine)
	m.putReleased(next)
	return nil
}

// putReleased stores a job that is not held any more.
func (m *Machine) putReleased(next *model.Job) {
	if next.Eligible > m.v.At() {
		next.Reason = next.Delayed()
	} else {
		next.Eligible = m.v.At() // time spent on hold is no reason to be reserved for
	}
	m.jobs.Put(next)
	m.s.EmitJob(model.EventReleased, next, "")
}

// cancel ends a pending job at once and asks a live one to stop. Asking again changes nothing.
func (m *Machine) cancel(j *model.Job, c *ControlJobs) error {
	if j.State.Final() {
		return model.ErrWrongState
	}
	if j.State == model.Pending {
		next := *j
		next.CancelledBy, next.Pruned = c.user(), c.Pruned
		m.jobs.Finish(&next, model.Cancelled, model.Reason{Text: c.Reason})
		return nil
	}
	return m.askStop(j, model.CauseCancelled, c)
}

// askRequeue stops a live job and has it start again. One that is being stopped at its time limit does
// so in the time that it has left, unless it is stopped for its deadline. One that asks by itself
// while it makes room for another starts again for that, even if it then ends with exit code 0.
func (m *Machine) askRequeue(j *model.Job, c *ControlJobs) error {
	a := j.Live()
	if a == nil {
		return model.ErrWrongState
	}
	if c.Own && j.Spec.RunsOnce() {
		return model.ErrRunsOnce
	}
	if a.Stop != nil && a.Stop.Cause == model.CauseTimeout && !lifecycle.PastDeadline(j, a) {
		next, a := jobs.CopyToChange(j)
		m.attempts.Stop(next, a, model.Stop{Cause: model.CauseRequeue, Signal: a.Stop.Signal, By: fmt.Sprintf("uid %d", c.By),
			Reason: c.Reason, Own: c.Own})
		m.jobs.Put(next)
		return nil
	}
	if c.Own && a.Stop != nil && lifecycle.Yields(a.Stop.Cause) {
		next, a := jobs.CopyToChange(j)
		stop := *a.Stop
		stop.Own, a.Stop = true, &stop
		m.jobs.Put(next)
		return nil
	}
	return m.askStop(j, model.CauseRequeue, c)
}

// askStop stops a live job for someone. That it is being stopped for that cause or a stronger one
// already is no error.
func (m *Machine) askStop(j *model.Job, cause model.Cause, c *ControlJobs) error {
	if stop := j.Live().Stop; !lifecycle.Outranks(cause, stop) {
		if stop.Cause == cause || stop.Cause == model.CauseCancelled {
			return nil
		}
		return model.ErrStopping
	}
	next, a := jobs.CopyToChange(j)
	m.attempts.Stop(next, a, model.Stop{Cause: cause, Signal: c.Signal, By: fmt.Sprintf("uid %d", c.By), Reason: c.Reason,
		Own: c.Own && cause == model.CauseRequeue})
	if cause == model.CauseCancelled {
		next.CancelledBy, next.Pruned = c.user(), c.Pruned
	}
	m.jobs.Put(next)
	return nil
}

// hold keeps a pending job from starting. An operator's hold on someone else's job takes the place
// of a weaker one.
func (m *Machine) hold(j *model.Job, c *ControlJobs) error {
	byAdmin := c.Admin && c.By != j.Owner.UID
	switch {
	case !j.StillToStart():
		return model.ErrWrongState
	case j.Hold == model.HeldByAdmin, j.Hold != model.NotHeld && !byAdmin:
		return nil
	}
	next := *j
	next.Hold, next.Reason = model.HeldByUser, model.Reason{Code: model.ReasonHeldUser, Text: c.Reason}
	if byAdmin {
		next.Hold, next.Reason.Code = model.HeldByAdmin, model.ReasonHeldAdmin
	}
	m.s.Unreserve(j.ID)
	m.jobs.Put(&next)
	m.s.EmitJob(model.EventHeld, &next, "")
	return nil
}

// release lets a held job start again. The count that put it on hold starts anew.
func (m *Machine) release(j *model.Job, c *ControlJobs) error {
	switch {
	case j.Children != nil:
		return m.releaseTasks(j, j.Children.Waiting, c)
	case !j.StillToStart() || j.Hold == model.NotHeld:
		return model.ErrWrongState
	case j.Hold == model.HeldByAdmin && !c.Admin:
		return model.ErrHeldByAdmin
	}
	next := *j
	if j.Hold == model.HeldRequeue {
		next.Counters.Requeues = 0
	}
	next.Hold, next.Reason = model.NotHeld, model.Reason{}
	m.putReleased(&next)
	return nil
}
