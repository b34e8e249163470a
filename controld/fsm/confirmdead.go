package fsm

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/model"
)

// KindConfirmDead is the kind of [ConfirmDead].
var KindConfirmDead = newKind("confirm-dead/1")

// ConfirmDead notes that nothing runs any more on nodes that are down: an operator has seen that they
// are off. Their workers are lost at once, whatever leases they have and whatever their jobs wait for.
// All nodes are confirmed, or none.
type ConfirmDead struct {
	Nodes  []string `json:"nodes"`            // all of them must be down
	By     string   `json:"by"`               // user
	Reason string   `json:"reason,omitempty"` // given by the operator
}

// Kind implements Command.
func (ConfirmDead) Kind() Kind { return KindConfirmDead }

// apply ends the workers on the nodes. A node that is not down may still run them.
func (c ConfirmDead) apply(m *Machine) (any, error) {
	for _, name := range c.Nodes {
		switch n, _ := m.v.Node(name); {
		case n == nil:
			return nil, fmt.Errorf("node %s: %w", name, model.ErrNoNode)
		case n.State != model.NodeDown:
			return nil, fmt.Errorf("node %s is %s: %w", name, n.State, model.ErrNodeNotDown)
		}
	}
	why := "confirmed dead by " + c.By
	if c.Reason != "" {
		why += ": " + c.Reason
	}
	for _, name := range c.Nodes {
		old, i := m.v.Node(name)
		m.attempts.LoseWorkers(i, "the node was "+why)
		n := *old
		n.Reason = why
		m.s.ReplaceNode(i, &n)
		m.s.Emit(model.Event{Type: model.EventNodeDead, Node: name, Text: why})
	}
	return nil, nil
}
