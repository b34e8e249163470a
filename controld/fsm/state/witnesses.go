package state

import (
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/witness"
)

// SetChosen replaces the sets of witnesses, without those that no node can have any more.
func (s *State) SetChosen(c *witness.Chosen) {
	oldest := c.Last
	for i, n := range s.v.nodes {
		if n.Witnesses < oldest && s.v.RunsWorkers(i) {
			oldest = n.Witnesses
		}
	}
	if next := c.Without(oldest); next != s.v.chosen {
		s.v.chosen = next
		s.touched.everything()
	}
}

// NoteWitnesses notes that a node has a set of witnesses at least.
func (s *State) NoteWitnesses(i int, number uint64) {
	if old := s.v.nodes[i]; old.Witnesses < number {
		n := *old
		n.Witnesses = number
		s.ReplaceNode(i, &n)
	}
}

// IsGone notes that nothing runs any more on a node that is down.
func (s *State) IsGone(i int) {
	n := *s.v.nodes[i]
	n.Gone = true
	s.ReplaceNode(i, &n)
}

// fresh is a node as it has registered, without what the state alone says of it.
func (s *State) fresh(n *model.Node) {
	n.State, n.Reason, n.Since, n.Drained = model.NodeUp, "", s.Now(), false
	n.Gone, n.Witnesses = false, s.v.chosen.Last
}
