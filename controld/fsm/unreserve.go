package fsm

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
)

// Unreserve ends the reservation of a job.
type Unreserve struct{ Job model.JobID }

// String implements Action.
func (c *Unreserve) String() string { return fmt.Sprintf("end the reservation of job %d", c.Job) }

// PartOf implements Action.
func (*Unreserve) PartOf() steering.Switch { return "" }

func (*Unreserve) ends() bool                     { return true }
func (c *Unreserve) names() (string, model.JobID) { return "unreserve", c.Job }
func (c *Unreserve) store(to *storedAction)       { to.Unreserve = &c.Job }

// act ends the reservation.
func (c *Unreserve) act(m *Machine) error {
	if m.v.Reservation(c.Job) == nil {
		return model.ErrNoReservation
	}
	m.s.Unreserve(c.Job)
	return nil
}
