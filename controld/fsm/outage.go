package fsm

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/witness"
)

// KindChooseWitnesses is the kind of [ChooseWitnesses].
var KindChooseWitnesses = newKind("choose-witnesses/1")

// ChooseWitnesses chooses the next set of witnesses. Earlier sets stay in use until no node with jobs can
// have them any more.
type ChooseWitnesses struct {
	Set witness.Set `json:"set"` // the nodes that are witnesses, and the number of the set
}

// Kind implements Command.
func (ChooseWitnesses) Kind() Kind { return KindChooseWitnesses }

// apply stores the set. Its members are nodes, and its spans those of the present configuration.
func (c ChooseWitnesses) apply(m *Machine) (any, error) {
	for _, name := range c.Set.Members {
		if n, _ := m.v.Node(name); n == nil {
			return nil, fmt.Errorf("node %s: %w", name, model.ErrNoNode)
		}
	}
	next, err := m.v.Chosen().With(c.Set)
	if err != nil {
		return nil, err
	}
	m.s.SetChosen(next)
	return nil, nil
}

// KindNoteWitnesses is the kind of [NoteWitnesses].
var KindNoteWitnesses = newKind("note-witnesses/1")

// NoteWitnesses notes which sets of witnesses nodes have stored, so that older ones go out of use.
type NoteWitnesses struct {
	Nodes []StoredWitnesses `json:"nodes"` // which set each node has on disk
}

// StoredWitnesses is the newest set that a boot of a node has on its disk. It never goes back to an older
// one.
type StoredWitnesses struct {
	Node   string `json:"node"`    // name of the node
	BootID string `json:"boot_id"` // boot of the node
	Number uint64 `json:"number"`
}

// Kind implements Command.
func (NoteWitnesses) Kind() Kind { return KindNoteWitnesses }

// apply skips what is not so any more: a node that has registered as another boot, a set that was never
// chosen.
func (c NoteWitnesses) apply(m *Machine) (any, error) {
	for _, s := range c.Nodes {
		if n, i := m.v.Node(s.Node); n != nil && n.BootID == s.BootID && s.Number <= m.v.Chosen().Last {
			m.s.NoteWitnesses(i, s.Number)
		}
	}
	m.s.SetChosen(m.v.Chosen())
	return nil, nil
}

// KindDeclareLost is the kind of [DeclareLost].
var KindDeclareLost = newKind("declare-lost/1")

// DeclareLost says that nothing can run any more on a node that is down. Its lease is over, and the
// leader was in touch with a majority of each possible set of witnesses for longer than any
// extension lasts.
type DeclareLost struct {
	Node   string `json:"node"`    // name of the node
	BootID string `json:"boot_id"` // boot of the node
	Newest uint64 `json:"newest"`  // number of the newest set that the leader knew of
}

// Kind implements Command.
func (DeclareLost) Kind() Kind { return KindDeclareLost }

// apply is refused if anything is not so any more. The cycle ends what ran there.
func (c DeclareLost) apply(m *Machine) (any, error) {
	n, i := m.v.Node(c.Node)
	switch {
	case n == nil:
		return nil, fmt.Errorf("node %s: %w", c.Node, model.ErrNoNode)
	case n.BootID != c.BootID:
		return nil, fmt.Errorf("node %s: %w", c.Node, model.ErrOtherBoot)
	case n.State != model.NodeDown:
		return nil, fmt.Errorf("node %s is %s: %w", c.Node, n.State, model.ErrNodeNotDown)
	case c.Newest != m.v.Chosen().Last:
		return nil, fmt.Errorf("node %s, by set %d of %d: %w", c.Node, c.Newest, m.v.Chosen().Last, witness.ErrChoice)
	case m.v.At() < m.v.LostAt(n):
		return nil, fmt.Errorf("node %s: %w", c.Node, model.ErrLeaseRunning)
	}
	m.s.IsGone(i)
	return nil, nil
}
