package fsm

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
)

// ResizeJob gives an elastic job another number of workers. All its workers are stopped once, with
// the job's own grace. When the last one has exited, the same entry of the log begins the next
// attempt with the workers that stay and those that join. Until then their room is taken, whether
// they run, have exited or have not begun. No retries are used up, and policies are not asked
// again.
type ResizeJob struct {
	Job     model.JobID `json:"job"`
	Attempt int         `json:"attempt"`
	// elastic workers whose room is given up, by number in the attempt, ascending
	Leave []int         `json:"leave,omitempty"`
	Join  []model.Place `json:"join,omitempty"` // of further workers: free now, without ports
	// the waiting job that gets the room of those that leave; 0: none. When it does not wait any more
	// the resize is refused
	For model.JobID `json:"for,omitempty"`

	// Inexact says that it is not proven that no other job could have left at less cost. It changes
	// nothing.
	Inexact bool `json:"inexact,omitempty"`
}

// String implements Action.
func (c *ResizeJob) String() string {
	return fmt.Sprintf("resize job %d: %d workers leave and %d join", c.Job, len(c.Leave), len(c.Join))
}

// PartOf implements Action.
func (c *ResizeJob) PartOf() steering.Switch {
	if c.For != 0 {
		return steering.Preemption
	}
	return steering.Growth
}

func (*ResizeJob) ends() bool                     { return false }
func (c *ResizeJob) names() (string, model.JobID) { return "resize", c.Job }
func (c *ResizeJob) store(to *storedAction)       { to.Resize = c }

func (c *ResizeJob) act(m *Machine) error {
	return m.attempts.Resize(c.Job, c.Attempt, &model.Resize{Leave: c.Leave, Join: c.Join}, c.For)
}
