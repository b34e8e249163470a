package attempts

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/fsm/jobs"
	"github.com/rota-hpc/rota/controld/model"
)

// Start says where an attempt begins.
type Start struct {
	Job    model.JobID // the job, or the parent job of a child that is to be made
	Places []model.Place
	Port   int // MASTER_PORT on the first place's node

	cause model.Cause  // why the attempt before was stopped to begin this one
	trial *model.Trial // what this one tries; nil: nothing
}

// Launch begins an attempt of a job that may start, if it fits where it is put.
func (m *Manager) Launch(j *model.Job, c *Start) error {
	if j.MayHave(len(c.Places)) {
		j = j.Resized(len(c.Places))
	}
	if why := m.view.LacksLicenses(j); why.Code != model.ReasonNone {
		return &model.FitError{Job: j.ID, Reason: why}
	}
	if c.cause == "" { // else the job ran until now, and goes on
		if why := m.state.OverLimit(j, c.Places); why.Code != model.ReasonNone {
			return &model.FitError{Job: j.ID, Reason: why}
		}
	}
	at, err := m.locate(j, c.Places)
	if err != nil {
		return err
	}
	if err := m.checkPorts(j, c.Port, c.Places, at); err != nil {
		return err
	}
	if err := m.state.Occupy(j, c.Job, c.Places, at); err != nil {
		return err
	}
	m.begin(j, c, at)
	return nil
}

// begin stores the new attempt, whose room has been taken.
func (m *Manager) begin(j *model.Job, c *Start, at []int) {
	m.state.Learn().QueueWait(j)
	next, a := jobs.CopyWithAttempt(j, len(c.Places))
	next.Attempt = max(next.Attempt, m.view.Recovery().RanOf(next.ID).Attempt) + 1
	a.N, a.Assigned, a.MasterPort, a.Released = next.Attempt, m.state.Now(), c.Port, j.Workers == 1
	a.Waits = m.view.Config().WaitsIfLost(j, len(m.view.Nodes()))
	fresh := m.withoutWorkers(at)
	for i, p := range c.Places {
		a.Workers[i] = model.Worker{Index: i, Place: p, State: model.WorkerAssigned,
			Whole: m.view.WholeOf(j.RequestOf(i), at[i])}
		m.state.Hold(at[i], j.ID, i, a.Ports(i))
	}
	next.State, next.Reason, next.Bypassed, next.OwnRoomFirst = model.Configuring, model.Reason{}, 0, false
	if c.trial != nil {
		a.Trials = []model.Trial{*c.trial}
	}
	m.enterTurns(next, a)
	m.state.Unreserve(c.Job)
	m.state.Learn().ElasticStart(next)
	m.jobs.Put(next)
	for _, i := range fresh {
		m.state.NoteWitnesses(i, m.view.Chosen().Last)
	}
	if next.Parent != 0 {
		m.jobs.TaskBegan(next.Parent)
	}
	m.state.EmitJob(model.EventAssigned, next, c.cause)
}

// withoutWorkers returns those of some nodes that run nothing, and are not known to have the newest
// witnesses. These nodes hear of their first workers together with the newest witnesses.
func (m *Manager) withoutWorkers(at []int) []int {
	var fresh []int
	for _, i := range at {
		if m.view.Nodes()[i].Witnesses < m.view.Chosen().Last && !m.view.RunsWorkers(i) {
			fresh = append(fresh, i)
		}
	}
	return fresh
}

// LaunchTask makes a child of a parent job and begins its first attempt.
func (m *Manager) LaunchTask(j *model.Job, n int, c *Start) error {
	made, live := m.jobs.MadeNow(j.ID)
	switch f := j.Children; {
	case f == nil || n < 1 || n > f.Size:
		return fmt.Errorf("task %d: %w", n, model.ErrNoTask)
	case !f.Waiting.Has(n) || made.Has(n):
		return fmt.Errorf("task %d: %w", n, model.ErrWrongState)
	case model.IsSetAside(j) || j.Eligible > m.view.At() || !j.Ready().Has(n):
		return fmt.Errorf("task %d: %w", n, model.ErrNotEligible)
	case live >= j.Slots():
		return fmt.Errorf("task %d: %w", n, model.ErrMaxParallel)
	}
	if err := m.Launch(j.MakeTask(n), c); err != nil {
		return fmt.Errorf("task %d: %w", n, err)
	}
	m.jobs.TaskMade(j.ID, n)
	return nil
}
