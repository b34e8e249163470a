package fsm

import (
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
)

// EndAttempt ends an attempt without word from its nodes: they are lost and the lease has run out.
type EndAttempt struct {
	Job     model.JobID `json:"job"`
	Attempt int         `json:"attempt"`
	Cause   model.Cause `json:"cause"`
}

// String implements Action.
func (c *EndAttempt) String() string {
	return fmt.Sprintf("end attempt %d of job %d because of %s", c.Attempt, c.Job, c.Cause)
}

// PartOf implements Action.
func (*EndAttempt) PartOf() steering.Switch { return "" }

func (*EndAttempt) ends() bool                     { return true }
func (c *EndAttempt) names() (string, model.JobID) { return "end", c.Job }
func (c *EndAttempt) store(to *storedAction)       { to.End = c }

// act gives up the workers of an attempt whose nodes have been down until the lease, and the
// margin after it, were over.
func (c *EndAttempt) act(m *Machine) error {
	a, err := m.attempts.Attempt(c.Job, c.Attempt)
	if err != nil {
		return err
	}
	if c.Cause != model.CauseNodeLost {
		return fmt.Errorf("%q: %w", c.Cause, model.ErrBadCause)
	}
	if a.Waits {
		return model.ErrAwaitsNode
	}
	gone := func(w *model.Worker) bool { return m.leaseOver(w.Node) }
	if !slices.ContainsFunc(a.Workers, func(w model.Worker) bool { return !w.State.Final() && gone(&w) }) {
		return model.ErrLeaseRunning
	}
	m.attempts.Lose(m.v.Job(c.Job), gone, "the node was lost")
	return nil
}

func (m *Machine) leaseOver(node string) bool {
	n, _ := m.v.Node(node)
	return n.State == model.NodeDown && m.v.At() >= m.v.LostAt(n) && !m.v.HeldByWitnesses(n)
}
