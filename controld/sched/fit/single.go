package fit

import (
	"iter"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
)

// Holds reports whether a node has room for one worker of a part beside what others claim.
func (r *Room) Holds(node int, p *Part) bool {
	return r.grid.Obstacle(node, p.Request, nil) == model.ReasonNone
}

// Holding yields the nodes that have room for one worker of a gang of one part, in order.
func (r *Room) Holding(g *Gang) iter.Seq[int] {
	return func(yield func(int) bool) {
		for node := range r.grid.Len() {
			if r.Usable(node, &g.Part, g.Exclude) && r.Holds(node, &g.Part) && !yield(node) {
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

// WaiveHeads lifts the claims of all reservations that are not for preemptors, until the function
// that it returns is called: a job that may take room from others may take that too.
func (r *Room) WaiveHeads() (restore func()) {
	return r.WaiveIf(func(v *model.Reservation) bool { return !v.ForPreemptor })
}

// unguaranteed reports whether a reservation is neither for a preemptor nor within a quota.
func unguaranteed(v *model.Reservation) bool { return !v.ForPreemptor && !v.Guaranteed }

// WaiveUnguaranteed lifts the claims of reservations that are neither for preemptors nor
// guaranteed in the same way.
func (r *Room) WaiveUnguaranteed() (restore func()) { return r.WaiveIf(unguaranteed) }

// LiftUnguaranteed lifts the claims of the same reservations for good, as if there were none.
func (r *Room) LiftUnguaranteed() {
	r.WaiveUnguaranteed()
	r.reservations = slices.DeleteFunc(r.reservations, unguaranteed)
}

// WaiveIf lifts the claims of the reservations that a function selects, until the function that it
// returns is called.
func (r *Room) WaiveIf(will func(*model.Reservation) bool) (restore func()) {
	var waived []*model.Reservation
	for _, v := range r.reservations {
		if will(v) {
			waived = append(waived, v)
			r.each(v, r.grid.Unclaim)
		}
	}
	return func() {
		for _, v := range waived {
			r.each(v, r.grid.Claim)
		}
	}
}
