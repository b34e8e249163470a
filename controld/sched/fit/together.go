package fit

import (
	"github.com/rota-hpc/rota/controld/model"
)

// PlaceTogether is Place, but looks first for one node that holds all parts: the one on which least
// is left by a measure.
func (r *Room) PlaceTogether(g *Gang, left func(node int, free model.Request) float64) ([]Spot, bool) {
	if node := r.tightest(g, left); node >= 0 {
		if spots, ok := r.Place(g.Within(r.Nodes(node))); ok {
			return spots, true
		}
	}
	return r.Place(g)
}

// tightest returns the node that holds all of a gang with the least left, -1 if none does.
func (r *Room) tightest(g *Gang, left func(node int, free model.Request) float64) int {
	lifted := r.Lift(g.For)
	defer lifted.Restore()
	best, least := -1, 0.0
	for node := range r.grid.Len() {
		// The measure rates the rest of the node; the least rest wins, the first of equal nodes.
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

// wholeOn returns the room that a gang needs if all of it is on one node. It reports whether the
// node has that room and may hold the gang.
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
