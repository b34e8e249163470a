package fsm

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/fsm/admission"
	"github.com/rota-hpc/rota/controld/model"
)

// KindRegisterNode is the kind of [RegisterNode].
var KindRegisterNode = newKind("register-node/1")

// RegisterNode adds a node or renews its inventory. Another boot of the same machine ends, as
// node-lost, every attempt that the earlier boot ran. Another machine of that name is refused as
// long as the first one may run workers. They must have ended, or the lease of the down node must
// be over.
type RegisterNode struct {
	Node model.Node `json:"node"` // State, Reason and Since are ignored
}

// Kind implements Command.
func (RegisterNode) Kind() Kind { return KindRegisterNode }

// apply adds the node or renews its inventory. After another boot of the machine nothing runs there any
// more, so that its workers are lost at once.
func (c RegisterNode) apply(m *Machine) (any, error) {
	n := c.Node
	if err := admission.CheckInventory(&n); err != nil {
		return nil, err
	}
	old, i := m.v.Node(n.Name)
	if old == nil {
		return nil, m.s.AddNode(&n)
	}
	if old.BootID != n.BootID {
		if !n.RebootOf(old) && m.v.RunsWorkers(i) {
			return nil, fmt.Errorf("node %s: %w", n.Name, model.ErrOtherMachine)
		}
		m.attempts.LoseWorkers(i, "the node was booted anew")
	} else if err := m.s.CheckHeld(i, &n); err != nil {
		return nil, err
	}
	n.PortsTaken = nil
	if old.BootID == n.BootID && old.PortMin == n.PortMin && old.PortMax == n.PortMax {
		n.PortsTaken = old.PortsTaken
	}
	n.State, n.Reason, n.Since, n.Drained = old.State, old.Reason, old.Since, old.Drained
	n.Witnesses, n.Gone = old.Witnesses, false
	if n.State == model.NodeDown {
		m.bringUp(&n)
	}
	m.s.ReplaceNode(i, &n)
	m.s.TouchNode(i)
	return nil, nil
}

// bringUp brings a node back from being down.
func (m *Machine) bringUp(n *model.Node) {
	n.State, n.Reason, n.Since = model.NodeUp, "", m.s.Now()
	event := model.EventNodeUp
	if n.Drained {
		n.State, event = model.NodeDrained, model.EventNodeDrain
	}
	m.s.Emit(model.Event{Type: event, Node: n.Name})
}
