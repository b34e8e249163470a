package grid

import (
	"cmp"
	"math/bits"

	"github.com/rota-hpc/rota/controld/model"
)

// LiftedClaims is the claims that were taken off a grid for one question: they do not bind the job
// that asks. The function that lifts them restores them before it returns, so that no later question
// meets a grid without them. The zero value has lifted nothing.
type LiftedClaims struct {
	grid   *Grid
	claims []liftedClaim
}

// liftedClaim is a claim that was lifted.
type liftedClaim struct {
	node int
	room model.Vector
}

// LiftNone returns lifted claims of a grid to which [LiftedClaims.Lift] adds.
func LiftNone(g *Grid) LiftedClaims { return LiftedClaims{grid: g} }

// Lift takes one claim off the grid. A node that is not in the grid has the position -1.
func (l *LiftedClaims) Lift(node int, room model.Vector) {
	if node >= 0 && room != (model.Vector{}) {
		l.claims = append(l.claims, liftedClaim{node, room})
		l.grid.Unclaim(node, room)
	}
}

// Restore puts the claims back.
func (l *LiftedClaims) Restore() {
	for _, c := range l.claims {
		l.grid.Claim(c.node, c.room)
	}
	l.claims = nil
}

// LiftClaims lifts the claims from g that do not bind the holder of a reservation: its own claims,
// and those of later reservations ([model.Reservation.Precedes]). On the nodes of its own reservation
// it also lifts as much of the claims of preemptors as is in its way: room that is freed there goes
// to the holder first. own is nil for a job without a reservation, which is bound by all claims.
// position returns where a node is in g, -1 for an unknown one.
func LiftClaims(g *Grid, own *model.Reservation, all []*model.Reservation,
	position func(node string) int) LiftedClaims {
	lifted := LiftNone(g)
	if own == nil {
		return lifted
	}
	for _, r := range all {
		if r == own || own.Precedes(r) {
			for _, c := range r.Claims {
				lifted.Lift(position(c.Node), c.Resources)
			}
		}
	}
	if own.ForPreemptor {
		for _, c := range own.Claims {
			if n := position(c.Node); n >= 0 {
				lifted.Lift(n, blockingClaims(g, n, c.Resources, claimsOfLater(own, all, c.Node)))
			}
		}
	}
	return lifted
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
