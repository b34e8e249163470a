package fit

import (
	"iter"

	"github.com/rota-hpc/rota/controld/model"
)

// Holds reports whether a node has room for one worker of a part beside what others claim.
func (r *Room) Holds(node int, p *Component) bool {
	return r.grid.Obstacle(node, p.Request, nil) == model.ReasonNone
}

// Holding yields the nodes that have room for one worker of a gang of one part, in order.
func (r *Room) Holding(g *Gang) iter.Seq[int] {
	return func(yield func(int) bool) {
		for node := range r.grid.Len() {
			if r.Usable(node, &g.Component, g.Exclude) && r.Holds(node, &g.Component) && !yield(node) {
				return
			}
		}
	}
}

// PlaceOn is Place on one node only.
func (r *Room) PlaceOn(g *Gang, node int) ([]Spot, bool) {
	only := *g
	only.Nodes = r.Nodes(node)
	return r.Place(&only)
}

// Covers reports whether a is at least as much as b in every respect.
func Covers(a, b model.Request) bool {
	return b.Active.Within(a.Active) && b.Resident.Within(a.Resident)
}
