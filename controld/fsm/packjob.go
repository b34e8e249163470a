package fsm

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/fsm/attempts"
	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
)

// PackJob resumes a suspended attempt beside other attempts, on a GPU of its node that they share:
// see [model.Packing]. Once the node has reported the rates of all, judge decides if they stay
// together.
type PackJob struct {
	Job         model.JobID `json:"job"`
	Attempt     int         `json:"attempt"`
	Host        model.JobID `json:"host"` // a job that runs on the GPU
	HostAttempt int         `json:"host_attempt"`
	// the expected gain, as [model.Trial.Expected]; 0: these jobs were packed before
	Expected int64 `json:"expected,omitempty"`
}

// String implements Action.
func (c *PackJob) String() string { return fmt.Sprintf("pack job %d with job %d", c.Job, c.Host) }

// PartOf implements Action. Jobs that were together before come back to each other without it.
func (c *PackJob) PartOf() steering.Switch {
	if c.Expected > 0 {
		return steering.Packing
	}
	return ""
}

func (c *PackJob) ends() bool                   { return c.Expected == 0 }
func (c *PackJob) names() (string, model.JobID) { return "pack", c.Job }
func (c *PackJob) store(to *storedAction)       { to.Pack = c }

func (c *PackJob) act(m *Machine) error {
	return m.attempts.Pack(&attempts.Together{Job: c.Job, Attempt: c.Attempt, Host: c.Host, HostAttempt: c.HostAttempt,
		Expected: c.Expected})
}
