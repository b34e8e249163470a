package fsm

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
)

// GiveUp ends a waiting job that can no longer end by its deadline.
type GiveUp struct{ Job model.JobID }

// String implements Action.
func (c *GiveUp) String() string { return fmt.Sprintf("give up job %d", c.Job) }

// PartOf implements Action.
func (*GiveUp) PartOf() steering.Switch { return "" }

func (*GiveUp) ends() bool                     { return true }
func (c *GiveUp) names() (string, model.JobID) { return "give up", c.Job }
func (c *GiveUp) store(to *storedAction)       { to.GiveUp = &c.Job }

// act ends the job.
func (c *GiveUp) act(m *Machine) error {
	j := m.v.Job(c.Job)
	switch {
	case j == nil:
		return model.ErrNoJob
	case !j.Waits():
		return model.ErrWrongState
	case !j.PastDue(m.v.At()):
		return model.ErrNotPastDue
	}
	m.jobs.GiveUp(j, model.PastDue, model.Reason{Code: model.ReasonDeadline, Until: j.Deadline}, 0)
	return nil
}
