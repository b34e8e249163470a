package grid

import (
	"cmp"
	"math/bits"

	"github.com/rota-hpc/rota/controld/model"
)

// LiftClaims lifts the claims from g that do not bind the holder of a reservation, and returns what
// puts them back. These are its own claims and those of later reservations
// ([model.Reservation.Before]); on the nodes of its own reservation as many of these as are in its
// way. Room that is freed there is his first: that of the later ones is still to come, or stays
// behind. own is nil for a job without a reservation, which is bound by all. position tells where a
// node is in g, -1 for one that is not.
func LiftClaims(g *Grid, own *model.Reservation, all []*model.Reservation,
	position func(node string) int) (restore func()) {
	if own == nil {
		return func() {}
	}
	var lifted []liftedClaim
	away := func(node int, room model.Vector) {
		if node >= 0 && room != (model.Vector{}) {
			lifted = append(lifted, liftedClaim{node, room})
			g.Unclaim(node, room)
		}
	}
	for _, r := range all {
		if r == own || own.Precedes(r) {
			for _, c := range r.Claims {
				away(position(c.Node), c.Resources)
			}
		}
	}
	if own.ForPreemptor {
		for _, c := range own.Claims {
			if n := position(c.Node); n >= 0 {
				away(n, blockingClaims(g, n, c.Resources, claimsOfLater(own, all, c.Node)))
			}
		}
	}
	return func() {
		for _, l := range lifted {
			g.Claim(l.node, l.room)
		}
	}
}

// liftedClaim is a claim that was lifted.
type liftedClaim struct {
	node int
	room model.Vector
}

// claimsOfLater adds up what reservations for preemptors claim of a node whose room is there later
// than own's.
func claimsOfLater(own *model.Reservation, all []*model.Reservation, node string) (sum model.Vector) {
	for _, r := range all {
		if !r.ForPreemptor || cmp.Or(cmp.Compare(r.Until, own.Until), cmp.Compare(r.Job, own.Job)) <= 0 {
			continue
		}
		for _, c := range r.Claims {
			if c.Node == node {
				sum = sum.Plus(c.Resources)
			}
		}
	}
	return sum
}

// blockingClaims is how much of what was promised later keeps a job from capacity that it was
// promised on a node.
func blockingClaims(g *Grid, node int, promised, later model.Vector) model.Vector {
	have := g.Free(node).Minus(g.Claimed(node))
	// what is left of GPUs that some share is of no use to a worker that needs more of one
	if g.SharedGPUs(node) != 0 && g.most(node) < promised.GPUs {
		have.GPUs = int64(bits.OnesCount64(g.FreeGPUs(node)))*model.WholeGPU - g.Claimed(node).GPUs
	}
	part := func(want, have, of int64) int64 { return max(0, min(want-have, of)) }
	return model.VectorOf(part(promised.Cores, have.Cores, later.Cores), part(int64(promised.Memory), int64(have.Memory),
		int64(later.Memory)),
		part(promised.GPUs, have.GPUs, later.GPUs))
}

// ForgetClaims says that no claim is left, so that none is looked for.
func (g *Grid) ForgetClaims() { g.claims = false }
