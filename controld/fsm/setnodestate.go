package fsm

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/model"
)

// KindSetNodeState is the kind of [SetNodeState].
var KindSetNodeState = newKind("set-node-state/1")

// SetNodeState marks a node up, down or drained. If BootID is set it is refused when the node has
// registered anew since.
type SetNodeState struct {
	Node   string          `json:"node"`              // name of the node
	BootID string          `json:"boot_id,omitempty"` // if set, the change is for this boot only
	State  model.NodeState `json:"state"`             // the state to be
	Reason string          `json:"reason,omitempty"`  // shown to users
}

// Kind implements Command.
func (SetNodeState) Kind() Kind { return KindSetNodeState }

// apply marks the node up, down or drained. "up" for a drained node resumes it. For a node that was
// down it says that the node was heard of again, which leaves a drain in force.
func (c SetNodeState) apply(m *Machine) (any, error) {
	old, i := m.v.Node(c.Node)
	switch {
	case old == nil:
		return nil, fmt.Errorf("node %s: %w", c.Node, model.ErrNoNode)
	case c.BootID != "" && c.BootID != old.BootID:
		return nil, fmt.Errorf("node %s: %w", c.Node, model.ErrOtherBoot)
	}
	n := *old
	switch c.State {
	case model.NodeUp:
		n.Drained = old.Drained && old.State == model.NodeDown
		n.State = model.NodeUp
		if n.Drained {
			n.State = model.NodeDrained
		}
	case model.NodeDrained:
		n.Drained = true
		if old.State == model.NodeUp {
			n.State = model.NodeDrained
		}
	case model.NodeDown:
		n.State = model.NodeDown
	default:
		return nil, fmt.Errorf("node %s, state %q: %w", c.Node, c.State, model.ErrBadNodeState)
	}
	m.moveNode(i, &n, c.Reason)
	return nil, nil
}

// moveNode stores a node whose state may have changed.
func (m *Machine) moveNode(i int, n *model.Node, reason string) {
	old := m.v.Nodes()[i]
	n.Reason = reason
	n.Gone = n.Gone && n.State == model.NodeDown
	if n.State == old.State {
		m.s.ReplaceNode(i, n)
		return
	}
	n.Since = m.s.Now()
	m.s.ReplaceNode(i, n)
	event := map[model.NodeState]model.EventType{model.NodeUp: model.EventNodeUp, model.NodeDown: model.EventNodeDown,
		model.NodeDrained: model.EventNodeDrain}[n.State]
	m.s.Emit(model.Event{Type: event, Node: n.Name})
}
