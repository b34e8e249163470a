package fsm

import (
	"fmt"
	"strings"

	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
)

// StartJob begins a new attempt of a pending job with a worker at each place, in order. An elastic
// job takes as many as it gets places for.
type StartJob struct {
	Job        model.JobID   `json:"job"`
	TaskNumber int           `json:"task,omitempty"` // the child to make, Job being its parent job
	Places     []model.Place `json:"places"`
	Port       int           `json:"port"` // MASTER_PORT on the first place's node, free there
	// Bypasses is the blocked head that this start goes past, 0 if none. Apply adds one to its
	// Bypassed if it is still pending. It does so once for all starts of a plan, so that a long
	// queue is copied once for each plan, not for each start.
	Bypasses model.JobID `json:"bypasses,omitempty"`

	cause model.Cause  // why the attempt before was stopped to begin this one
	trial *model.Trial // what this one tries; nil: nothing
}

// String implements Action.
func (c *StartJob) String() string {
	var nodes []string
	for _, p := range c.Places {
		nodes = append(nodes, p.Node)
	}
	job := fmt.Sprintf("start job %d", c.Job)
	if c.TaskNumber != 0 {
		job = fmt.Sprintf("start task %d of job %d", c.TaskNumber, c.Job)
	}
	return job + " on " + strings.Join(nodes, ", ")
}

// PartOf implements Action.
func (*StartJob) PartOf() steering.Switch { return "" }

func (*StartJob) ends() bool                     { return false }
func (c *StartJob) names() (string, model.JobID) { return "start", c.Job }
func (c *StartJob) store(to *storedAction)       { to.Start = c }

// act begins a new attempt, the gang whole or not at all.
func (c *StartJob) act(m *Machine) error {
	j := m.v.Job(c.Job)
	switch {
	case j == nil:
		return model.ErrNoJob
	case c.TaskNumber != 0 || j.Children != nil:
		return m.startTask(j, c)
	case j.State != model.Pending:
		return model.ErrWrongState
	case model.IsSetAside(j) || j.Eligible > m.v.At():
		return model.ErrNotEligible
	}
	return m.launch(j, c)
}

// launch begins an attempt of a job that may start, if it fits where it is put.
func (m *Machine) launch(j *model.Job, c *StartJob) error {
	if j.MayHave(len(c.Places)) {
		j = j.Resized(len(c.Places))
	}
	if why := m.v.LacksLicenses(j); why.Code != model.ReasonNone {
		return &model.FitError{Job: j.ID, Reason: why}
	}
	at, err := m.locate(j, c.Places)
	if err != nil {
		return err
	}
	if err := m.checkPorts(j, c.Port, c.Places, at); err != nil {
		return err
	}
	if err := m.s.Occupy(j, c.Job, c.Places, at); err != nil {
		return err
	}
	m.begin(j, c, at)
	return nil
}

// begin stores the new attempt, whose room has been taken.
func (m *Machine) begin(j *model.Job, c *StartJob, at []int) {
	m.s.Learn().QueueWait(j)
	next, a := copyWithAttempt(j, len(c.Places))
	next.Attempt = max(next.Attempt, m.v.Recovery().RanOf(next.ID).Attempt) + 1
	a.N, a.Assigned, a.MasterPort, a.Released = next.Attempt, m.s.Now(), c.Port, j.Workers == 1
	a.Waits = m.v.Config().WaitsIfLost(j, len(m.v.Nodes()))
	fresh := m.withoutWorkers(at)
	for i, p := range c.Places {
		a.Workers[i] = model.Worker{Index: i, Place: p, State: model.WorkerAssigned,
			Whole: m.v.WholeOf(j.RequestOf(i), at[i])}
		m.s.Hold(at[i], j.ID, i, a.Ports(i))
	}
	next.State, next.Reason, next.Bypassed, next.OwnRoomFirst = model.Configuring, model.Reason{}, 0, false
	if c.trial != nil {
		a.Trials = []model.Trial{*c.trial}
	}
	m.enterTurns(next, a)
	m.s.Unreserve(c.Job)
	m.s.Learn().ElasticStart(next)
	m.put(next)
	for _, i := range fresh {
		m.s.NoteWitnesses(i, m.v.Chosen().Last)
	}
	if next.Parent != 0 {
		m.childChangesOf(next.Parent).began = true
	}
	m.s.EmitJob(model.EventAssigned, next, c.cause)
}

// withoutWorkers returns those of some nodes that run nothing, and are not known to have the newest
// witnesses. These nodes hear of their first workers together with the newest witnesses.
func (m *Machine) withoutWorkers(at []int) []int {
	var fresh []int
	for _, i := range at {
		if m.v.Nodes()[i].Witnesses < m.v.Chosen().Last && !m.v.RunsWorkers(i) {
			fresh = append(fresh, i)
		}
	}
	return fresh
}
