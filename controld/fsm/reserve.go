package fsm

import (
	"fmt"
	"strings"

	"github.com/rota-hpc/rota/controld/fsm/grid"
	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
)

// Reserve keeps room for a job that waits or is moving, in place of the room that was kept for it
// before. It keeps its rank among reservations.
type Reserve model.Reservation

// String implements Action.
func (c *Reserve) String() string {
	var nodes []string
	for _, claim := range c.Claims {
		nodes = append(nodes, claim.Node)
	}
	return fmt.Sprintf("reserve room for job %d on %s until %d ms", c.Job, strings.Join(nodes, ", "), c.Until)
}

// PartOf implements Action.
func (*Reserve) PartOf() steering.Switch { return "" }

func (*Reserve) ends() bool                     { return false }
func (c *Reserve) names() (string, model.JobID) { return "reserve for", c.Job }
func (c *Reserve) store(to *storedAction)       { to.Reserve = c }

// act makes the reservation, as of now.
func (c *Reserve) act(m *Machine) error {
	j := m.v.Job(c.Job)
	switch {
	case j == nil:
		return model.ErrNoJob
	case !j.Moving() && (!j.StillToStart() || j.Hold != model.NotHeld):
		return model.ErrWrongState
	}
	r := model.Reservation{Job: c.Job, Claims: c.Claims, At: m.v.At(), Until: c.Until, ForPreemptor: c.ForPreemptor,
		Leftover: c.Leftover, Guaranteed: c.Guaranteed}
	old := m.v.Reservation(c.Job)
	if old != nil {
		r.At = old.At
	} else if err := model.Limit("the number of reservations", int64(len(m.v.Reservations())+1), model.MaxReservations,
		""); err != nil {
		return err
	}
	if err := m.checkClaims(r.Claims); err != nil {
		return err
	}
	m.s.Reserve(&r)
	return nil
}

func (m *Machine) checkClaims(claims []model.Claim) error {
	seen := map[string]bool{}
	for _, c := range claims {
		n, _ := m.v.Node(c.Node)
		if n == nil || seen[c.Node] || c.Resources.Negative() || !c.Resources.Within(grid.Capacity(n)) {
			return fmt.Errorf("node %s: %w", c.Node, model.ErrBadClaim)
		}
		seen[c.Node] = true
	}
	if len(claims) == 0 {
		return model.ErrBadClaim
	}
	return nil
}
