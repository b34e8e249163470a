package fsm

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
)

// ResumeJob has all workers of a suspended attempt go on, each where it is, with GPUs of its node.
// Of an attempt that has not paused within [model.PauseLimit] it takes the suspension back.
type ResumeJob struct {
	Job     model.JobID `json:"job"`
	Attempt int         `json:"attempt"`
	GPUs    [][]int     `json:"gpus"` // of each worker, by number; of one that has ended none
	// of its share of the turns on its node, in hundredths; 0: 100
	Weight int `json:"weight,omitempty"`
}

// String implements Action.
func (c *ResumeJob) String() string {
	if len(c.GPUs) == 0 {
		return fmt.Sprintf("take back the suspension of attempt %d of job %d", c.Attempt, c.Job)
	}
	return fmt.Sprintf("resume attempt %d of job %d", c.Attempt, c.Job)
}

// PartOf implements Action.
func (*ResumeJob) PartOf() steering.Switch { return "" }

func (*ResumeJob) ends() bool                     { return true }
func (c *ResumeJob) names() (string, model.JobID) { return "resume", c.Job }
func (c *ResumeJob) store(to *storedAction)       { to.Resume = c }

func (c *ResumeJob) act(m *Machine) error {
	return m.attempts.Resume(c.Job, c.Attempt, c.GPUs, c.Weight)
}
