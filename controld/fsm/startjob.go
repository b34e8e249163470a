package fsm

import (
	"fmt"
	"strings"

	"github.com/rota-hpc/rota/controld/fsm/attempts"
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
	j, start := m.v.Job(c.Job), &attempts.Start{Job: c.Job, Places: c.Places, Port: c.Port}
	switch {
	case j == nil:
		return model.ErrNoJob
	case c.TaskNumber != 0 || j.Children != nil:
		return m.attempts.LaunchTask(j, c.TaskNumber, start)
	case j.State != model.Pending:
		return model.ErrWrongState
	case model.IsSetAside(j) || j.Eligible > m.v.At():
		return model.ErrNotEligible
	}
	return m.attempts.Launch(j, start)
}
