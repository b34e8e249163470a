package state

import (
	"slices"

	"github.com/rota-hpc/rota/controld/model"
)

// Reserve keeps room for a job, in place of what was kept for it before.
func (s *State) Reserve(r *model.Reservation) {
	s.dropReservation(r.Job)
	i, _ := s.v.findReservation(r.Job)
	s.v.reservations = slices.Insert(slices.Clone(s.v.reservations), i, r)
	s.v.eachClaim(r, s.ownGrid().Claim)
	s.Emit(model.Event{Type: model.EventReserved, Job: r.Job, For: r.Job})
}

// Unreserve drops a job's reservation, if it has one.
func (s *State) Unreserve(id model.JobID) {
	if s.dropReservation(id) {
		s.Emit(model.Event{Type: model.EventUnreserved, Job: id, For: id})
	}
}

func (s *State) dropReservation(id model.JobID) bool {
	i, ok := s.v.findReservation(id)
	if !ok {
		return false
	}
	g := s.ownGrid()
	s.v.eachClaim(s.v.reservations[i], g.Unclaim)
	s.v.reservations = slices.Delete(slices.Clone(s.v.reservations), i, i+1)
	if len(s.v.reservations) == 0 {
		g.ForgetClaims()
	}
	return true
}
