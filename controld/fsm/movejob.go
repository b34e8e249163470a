package fsm

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
)

// MoveJob has a job with a fixed number of workers go on with some or all of them at other places,
// for its own sake. It is stopped once, with its own grace. When its last worker has exited, the
// same entry of the log begins the next attempt. Until then the room at both ends is taken. No
// retries are used up, and policies are not asked again.
type MoveJob struct {
	Job     model.JobID `json:"job"`
	Attempt int         `json:"attempt"`
	// workers that move, by number in the attempt, ascending, and their new places, free now,
	// without ports. The next attempt numbers the workers that stay first
	Leave []int         `json:"leave"`
	Join  []model.Place `json:"join"`
	// what its rate is expected to be, in thousandths of what it is, as others like it were measured;
	// 0: it moves for another reason
	Expected int64 `json:"expected,omitempty"`
}

// String implements Action.
func (c *MoveJob) String() string {
	return fmt.Sprintf("move %d workers of job %d", len(c.Leave), c.Job)
}

// PartOf implements Action.
func (*MoveJob) PartOf() steering.Switch { return steering.Migration }

func (*MoveJob) ends() bool                     { return false }
func (c *MoveJob) names() (string, model.JobID) { return "move", c.Job }
func (c *MoveJob) store(to *storedAction)       { to.Move = c }

func (c *MoveJob) act(m *Machine) error {
	return m.attempts.Move(c.Job, c.Attempt, &model.Resize{Leave: c.Leave, Join: c.Join, Expected: c.Expected})
}
