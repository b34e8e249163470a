package state

import (
	"github.com/rota-hpc/rota/controld/fsm/grid"
)

// heldOn returns what the workers on a node hold.
func (s *State) heldOn(i int) []grid.Held {
	h, _ := s.v.holdings.Get(int64(i))
	needs := make([]grid.Held, 0, len(h.workers))
	for _, w := range h.workers {
		needs = append(needs, needOf(s.v.Job(w.Job), w.Worker))
	}
	return needs
}

// regrid returns the grid made anew from nodes, what runs on them, and reservations.
func (s *State) regrid() *grid.Grid {
	g := grid.NewGrid(s.v.nodes)
	for i := range s.v.nodes {
		g.Rebuild(i, s.heldOn(i))
	}
	for _, r := range s.v.reservations {
		s.v.eachClaim(r, g.Claim)
	}
	return g
}
