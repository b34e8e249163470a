package fit

import (
	"github.com/rota-hpc/rota/controld/model"
)

// PlaceTogether is Place, but looks first for one node that holds all parts: the one on which least
// is left by a measure.
func (r *Room) PlaceTogether(g *Gang, left func(node int, free model.Request) float64) ([]Spot, bool) {
	if node := r.tightest(g, left); node >= 0 {
		only := *g
		only.Part.Nodes = r.bit(node)
		only.More = make([]Part, len(g.More))
		for i := range g.More {
			only.More[i] = g.More[i]
			only.More[i].Nodes = only.Part.Nodes
		}
		if spots, ok := r.Place(&only); ok {
			return spots, true
		}
	}
	return r.Place(g)
}

// tightest returns the node that holds all of a gang with the least left, -1 if none does.
func (r *Room) tightest(g *Gang, left func(node int, free model.Request) float64) int {
	defer r.Waive(g.For)()
	best, least := -1, 0.0
	for node := range r.grid.Len() {
		need, ok := r.wholeOn(g, node)
		if !ok {
			continue
		}
		if v := left(node, r.Available(node).Minus(need)); best < 0 || v < least {
			best, least = node, v
		}
	}
	return best
}

// wholeOn returns what a gang needs if all of it is on one node, and whether the node has that and
// may have all of it.
func (r *Room) wholeOn(g *Gang, node int) (model.Request, bool) {
	var need model.Request
	for i := range g.Parts() {
		p := g.At(i)
		if p.Workers > p.PerNode || p.Request.Exclusive && g.Parts() > 1 || !r.Usable(node, p, g.Exclude) {
			return need, false
		}
		need = need.Plus(p.Request.Times(p.Workers))
	}
	return need, !r.Whole(node) && Within(need, r.Available(node))
}

// bit is a set of nodes of which there is one.
func (r *Room) bit(node int) []uint64 {
	set := make([]uint64, (r.grid.Len()+63)/64)
	set[node/64] |= 1 << (node % 64)
	return set
}
