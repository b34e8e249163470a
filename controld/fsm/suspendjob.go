package fsm

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
)

// SuspendJob has all workers of an attempt pause where they are. When the last of them has
// acknowledged it, their cores and GPUs come free and their memory stays: see [model.Switching].
type SuspendJob struct {
	Job     model.JobID `json:"job"`
	Attempt int         `json:"attempt"`
	Cause   model.Cause `json:"cause"`
	// the waiting job, or the suspended one, that gets the room; 0: none. When it does not want it any
	// more the suspension is refused
	For model.JobID `json:"for,omitempty"`
}

// String implements Action.
func (c *SuspendJob) String() string {
	s := fmt.Sprintf("suspend attempt %d of job %d because of %s", c.Attempt, c.Job, c.Cause)
	if c.For != 0 {
		s += fmt.Sprintf(", for job %d", c.For)
	}
	return s
}

// PartOf implements Action.
func (c *SuspendJob) PartOf() steering.Switch { return partOfCause[c.Cause] }

func (c *SuspendJob) ends() bool                   { return c.Cause == model.CausePack }
func (c *SuspendJob) names() (string, model.JobID) { return "suspend", c.Job }
func (c *SuspendJob) store(to *storedAction)       { to.Suspend = c }

func (c *SuspendJob) act(m *Machine) error {
	return m.attempts.Suspend(c.Job, c.Attempt, c.Cause, c.For)
}
