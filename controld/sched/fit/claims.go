package fit

import (
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/grid"
	"github.com/rota-hpc/rota/controld/model"
)

// LiftedClaims is claims that were taken off a room for one question. The caller restores them before
// it returns.
type LiftedClaims = grid.LiftedClaims

// Claim puts a reservation on the copy.
func (r *Room) Claim(v *model.Reservation) {
	r.reservations = append(r.reservations, v)
	r.each(v, r.grid.Claim)
}

// Unclaim lifts a job's reservation, if it has one.
func (r *Room) Unclaim(id model.JobID) {
	i := slices.IndexFunc(r.reservations, func(v *model.Reservation) bool { return v.Job == id })
	if i < 0 {
		return
	}
	r.each(r.reservations[i], r.grid.Unclaim)
	r.reservations = slices.Delete(r.reservations, i, i+1)
}

// Lift lifts the claims that do not bind a job, which are those that the state lifts when it applies
// a start: see [grid.LiftClaims].
func (r *Room) Lift(id model.JobID) LiftedClaims {
	i := slices.IndexFunc(r.reservations, func(v *model.Reservation) bool { return v.Job == id })
	if i < 0 {
		return LiftedClaims{}
	}
	return grid.LiftClaims(&r.grid, r.reservations[i], r.reservations, r.position)
}

// LiftIf lifts the claims of the reservations that a function selects.
func (r *Room) LiftIf(selects func(*model.Reservation) bool) LiftedClaims {
	lifted := grid.LiftNone(&r.grid)
	for _, v := range r.reservations {
		if selects(v) {
			for _, c := range v.Claims {
				lifted.Lift(r.position(c.Node), c.Resources)
			}
		}
	}
	return lifted
}

// LiftHeads lifts the claims of all reservations that are not for preemptors: a job that may take
// room from others may take that too.
func (r *Room) LiftHeads() LiftedClaims {
	return r.LiftIf(func(v *model.Reservation) bool { return !v.ForPreemptor })
}

// unguaranteed reports whether a reservation is neither for a preemptor nor within a quota.
func unguaranteed(v *model.Reservation) bool { return !v.ForPreemptor && !v.Guaranteed }

// LiftUnguaranteed lifts the claims of reservations that are neither for preemptors nor within a
// quota.
func (r *Room) LiftUnguaranteed() LiftedClaims { return r.LiftIf(unguaranteed) }

// DropUnguaranteed drops the same reservations for good, with their claims.
func (r *Room) DropUnguaranteed() {
	r.LiftUnguaranteed()
	r.reservations = slices.DeleteFunc(r.reservations, unguaranteed)
}

// position returns where a node is in the grid, -1 for an unknown one.
func (r *Room) position(node string) int {
	_, i := r.view.Node(node)
	return i
}

func (r *Room) each(v *model.Reservation, do func(node int, room model.Vector)) {
	for _, c := range v.Claims {
		if i := r.position(c.Node); i >= 0 {
			do(i, c.Resources)
		}
	}
}

// Claimant returns the first job other than id that claims room on a node, 0 if none.
func (r *Room) Claimant(node int, id model.JobID) model.JobID {
	name := r.grid.Node(node).Name
	for _, v := range r.reservations {
		if v.Job != id && slices.ContainsFunc(v.Claims, func(c model.Claim) bool { return c.Node == name }) {
			return v.Job
		}
	}
	return 0
}

// Usable reports whether a part of a gang may use a node at all: it is up, not avoided, and meets
// the constraints.
func (r *Room) Usable(node int, p *Component, exclude []int) bool {
	return r.grid.Up(node) && !slices.Contains(exclude, node) && p.Wants(node)
}

// Whole reports whether the workers on a node have it for themselves.
func (r *Room) Whole(node int) bool { return r.grid.Exclusive(node) }

// Empty reports whether a node has no workers.
func (r *Room) Empty(node int) bool { return r.grid.Workers(node) == 0 }

// Claimed returns the room on a node that reservations claim, without the lifted ones.
func (r *Room) Claimed(node int) model.Vector { return r.grid.Claimed(node) }

// Open returns the free room on a node that counts for a part. It is none if others have the node
// for themselves, or if the part needs the node for itself and it is not empty.
func (r *Room) Open(node int, p *Component) model.Request {
	if r.grid.Exclusive(node) || p.Request.Exclusive && r.grid.Workers(node) > 0 {
		return model.Request{}
	}
	free := r.Free(node)
	free.Active.GPUs = r.gpusFor(node, p)
	return free
}

// Unclaimed is Open less the claims of others. It can be negative: claims may be for more than is
// free.
func (r *Room) Unclaimed(node int, p *Component) model.Request {
	free, claimed := r.Open(node, p), r.grid.Claimed(node)
	if p.Request.Exclusive && claimed != (model.Vector{}) {
		return model.Request{}
	}
	return free.Minus(Both(claimed))
}

// Total returns all that a node has.
func (r *Room) Total(node int) model.Vector { return r.grid.Capacity(node) }

// Working returns the capacity of a node without broken GPUs.
func (r *Room) Working(node int) model.Vector {
	v := r.grid.Capacity(node)
	v.GPUs -= int64(r.grid.BrokenGPUs(node)) * gpu
	return v
}

// Broken returns how many GPUs in a node's capacity are broken, so that no job can get them.
func (r *Room) Broken(node int) int { return r.grid.BrokenGPUs(node) }

// Free returns the free room of a node, claims disregarded. Free parts of shared GPUs are included.
func (r *Room) Free(node int) model.Request {
	return model.Request{Active: r.grid.Free(node), Resident: r.grid.FreeResident(node)}
}

// FreeGPUs returns the free GPUs of a node, by bit.
func (r *Room) FreeGPUs(node int) uint64 { return r.grid.FreeGPUs(node) }

// Available returns the free room of a node less the claims of reservations that were not lifted.
// It can be negative: claims may be for more than is free.
func (r *Room) Available(node int) model.Request {
	free, claimed := r.Free(node), r.grid.Claimed(node) // by parts: this is the hottest place of a cycle
	return model.Request{Active: free.Active.Minus(claimed), Resident: free.Resident.Minus(claimed)}
}

// AvailableTo is Available with the GPUs that count for a part: see [Capacity].
func (r *Room) AvailableTo(node int, p *Component) model.Request {
	free := r.Available(node)
	free.Active.GPUs += r.gpusFor(node, p) - r.grid.Free(node).GPUs
	return free
}

// TotalUp returns the capacity of all nodes that are up.
func (r *Room) TotalUp() (all model.Vector) {
	for node := range r.grid.Len() {
		if r.grid.Up(node) {
			all = all.Plus(r.Total(node))
		}
	}
	return all
}

// AvailableUp returns the free room of all nodes that are up, less the claims of others.
func (r *Room) AvailableUp() (free model.Vector) {
	for node := range r.grid.Len() {
		if r.grid.Up(node) {
			free = free.Plus(r.Available(node).Active.Positive())
		}
	}
	return free
}
