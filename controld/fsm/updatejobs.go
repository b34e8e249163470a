package fsm

import (
	"errors"
	"fmt"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// KindUpdateJobs is the kind of [UpdateJobs].
var KindUpdateJobs = newKind("update-jobs/1")

// ErrNoLimit says that a job runs without a limit of time, so that nothing can be added to it.
var ErrNoLimit = errors.New("the job has no time limit that could be raised or lowered")

// ErrRaisesLimit says that a job's owner asks for more time than a running job was started with.
// The jobs behind it, and their places, were decided by the old limit.
var ErrRaisesLimit = errors.New("only an operator may raise the time limit of a running job; you may shorten it: ask " +
	"an operator, or submit the job anew with a longer limit")

// UpdateJobs changes what may be changed of jobs that have not ended. A nil field stays as it is.
// With a parent job it counts for the children that are yet to start. The server has decided that
// its caller may. Its result is []ControlResult, one for each id; one refusal does not stop the
// rest.
type UpdateJobs struct {
	IDs []model.JobID `json:"ids"` // jobs to change
	By  uint32        `json:"by"`  // uid of the caller
	// an operator: beyond the queue's limits, and more time for a job that runs
	Admin     bool             `json:"admin"`
	TimeLimit *jobspec.Seconds `json:"time_limit,omitempty"` // per attempt, the present one included
	AddTime   *jobspec.Seconds `json:"add_time,omitempty"`   // to the limit; negative takes away
	Priority  *int             `json:"priority,omitempty"`   // 0 to 100
	Name      *string          `json:"name,omitempty"`       // new name
	Comment   *string          `json:"comment,omitempty"`    // "" takes it away
}

// Kind implements Command.
func (UpdateJobs) Kind() Kind { return KindUpdateJobs }

// apply changes jobs one by one.
func (c UpdateJobs) apply(m *Machine) (any, error) {
	if err := checkUpdate(&c); err != nil {
		return nil, err
	}
	results := make([]model.ControlResult, len(c.IDs))
	for i, id := range c.IDs {
		results[i] = model.ControlResult{ID: id, Err: m.update(id, &c)}
	}
	return results, nil
}

// checkUpdate refuses what could be right for no job.
func checkUpdate(c *UpdateJobs) error {
	switch {
	case c.TimeLimit == nil && c.AddTime == nil && c.Priority == nil && c.Name == nil &&
		c.Comment == nil:
		return &model.SpecError{Text: "the update changes nothing"}
	case c.TimeLimit != nil && c.AddTime != nil:
		return &model.SpecError{Text: "an update cannot both set the time limit and add to it"}
	case c.TimeLimit != nil && (*c.TimeLimit <= 0 || *c.TimeLimit > jobspec.MaxDuration), c.AddTime != nil &&
		(*c.AddTime < -jobspec.MaxDuration || *c.AddTime > jobspec.MaxDuration):
		return &model.SpecError{Text: "a time limit is at least one second and at most ten years"}
	case c.Priority != nil && (*c.Priority < 0 || *c.Priority > jobspec.MaxPriority):
		return &model.SpecError{Text: fmt.Sprintf("priority is 0 to %d, not %d", jobspec.MaxPriority, *c.Priority)}
	case c.Name != nil && !jobspec.ValidName(*c.Name):
		return &model.SpecError{Text: fmt.Sprintf("%q is not a name", *c.Name)}
	}
	if c.Comment != nil {
		if err := jobspec.CheckText(*c.Comment, jobspec.MaxComment); err != nil {
			return &model.SpecError{Text: "comment: " + err.Error()}
		}
	}
	return model.Limit("the number of jobs in one request", int64(len(c.IDs)), model.MaxJobsPerCall, "")
}

func (m *Machine) update(id model.JobID, c *UpdateJobs) error {
	j := m.v.Job(id)
	switch {
	case j == nil:
		return fmt.Errorf("job %d: %w", id, model.ErrNoJob)
	case j.State.Final():
		return fmt.Errorf("update job %d in state %s: %w", id, j.State, model.ErrWrongState)
	}
	next := *j
	if err := m.newLimit(&next, c); err != nil {
		return fmt.Errorf("update job %d: %w", id, err)
	}
	if c.Priority != nil {
		next.Priority = int32(*c.Priority)
	}
	if c.Comment != nil {
		next.Comment = c.Comment
		if err := m.checkBytes(&j.Owner, next.Bytes()-j.Bytes(), c.Admin); err != nil {
			return fmt.Errorf("update job %d: %w", id, err)
		}
	}
	if err := m.rename(&next, c.Name); err != nil {
		return fmt.Errorf("update job %d: %w", id, err)
	}
	m.jobs.Put(&next)
	if a := next.Live(); a != nil {
		m.s.TouchNodesOf(a) // its nodes are told the new limit
	}
	m.s.EmitJob(model.EventUpdated, &next, "")
	if next.Children != nil {
		return m.updateTasks(&next, *c)
	}
	return nil
}

// updateTasks changes the children that have been made and wait; it returns the first refusal.
// Children that are yet to be made follow the parent job.
func (m *Machine) updateTasks(record *model.Job, c UpdateJobs) error {
	var refused error
	c.Name = nil // has been seen to
	for task := range m.v.MadeTasks(record) {
		if task.State != model.Pending {
			continue
		}
		if err := m.update(task.ID, &c); err != nil && refused == nil {
			refused = err
		}
	}
	return refused
}

// newLimit changes a job's time limit as far as its queue allows; that of a job that runs can only be
// shortened. An operator is not bound by that.
func (m *Machine) newLimit(j *model.Job, c *UpdateJobs) error {
	before := j.Limit
	switch {
	case c.TimeLimit != nil:
		j.Limit = *c.TimeLimit
	case c.AddTime == nil:
		return nil
	case j.Limit == 0:
		return ErrNoLimit
	default:
		j.Limit += *c.AddTime
	}
	if j.Limit <= 0 || j.Limit > jobspec.MaxDuration {
		return &model.SpecError{Text: fmt.Sprintf("a time limit is at least one second and at most ten years, not %d s",
			j.Limit)}
	}
	if before > 0 && j.Limit > before && j.Live() != nil && !c.Admin {
		return ErrRaisesLimit
	}
	if q, ok := m.v.Config().Queues[j.Queue]; ok && !c.Admin {
		return m.checkLimits(j, &q)
	}
	return nil
}

// rename gives a job another name. A family has one name for all, so it can be changed only while
// none of it has begun.
func (m *Machine) rename(j *model.Job, name *string) error {
	switch {
	case name == nil || *name == j.Spec.Name:
		return nil
	case j.Parent != 0:
		return fmt.Errorf("the name is that of job %d: %w", j.Parent, model.ErrWrongState)
	}
	spec := *j.Spec
	spec.Name = *name
	j.Spec = &spec
	if j.Children == nil {
		return nil
	}
	if j.State != model.Pending || j.Children.Made() > j.Children.Live {
		return fmt.Errorf("some of it has begun: %w", model.ErrWrongState)
	}
	for task := range m.v.MadeTasks(j) {
		next := *task
		next.Spec = &spec
		m.jobs.Put(&next)
	}
	return nil
}
