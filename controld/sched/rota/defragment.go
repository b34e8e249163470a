package rota

import (
	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/preempt"
)

// # Defragmentation
//
// A job that needs much of a node can wait although the cluster has enough free. Small long jobs
// hold a little of each node. Such small jobs are asked to move if they can save their state. Their
// room goes to the job that waits, and they go on in free room elsewhere.
//
// That costs them a restart and nothing else. So it is no preemption, and does not depend on
// service or accounts. It takes free room only, and leaves as much of it as is kept for
// trial-and-error jobs at most.

// defragment makes room for a job by moving others into free room elsewhere, if all that is free
// would do. It reports whether it did.
func (m *preemptor) defragment(j *model.Job, g *fit.Gang) bool {
	if !m.state.May(steering.Migration) {
		return false // the job may still take its turn
	}
	if g.Size() == 1 && g.Request.Active.GPUs <= model.WholeGPU || !m.enoughInPieces(j) {
		return false
	}
	q := m.askMovable(j, g)
	if q.Degrees() == 0 {
		return false
	}
	for range maxRepairs {
		set := m.affordable(j, q, model.CauseMigrate)
		if set == nil || len(set.Candidates) == 0 || len(set.Candidates) > maxMoves {
			return false
		}
		stuck, ok := m.elsewhere(j, set)
		if ok {
			m.carryOut(j, &q, set, model.CauseMigrate)
			return true
		}
		if stuck < 0 {
			return false
		}
		q.Reluctance[stuck] = preempt.Never
	}
	return false
}

// enoughInPieces reports whether as much is free, wherever it is, as a job needs.
func (m *preemptor) enoughInPieces(j *model.Job) bool {
	lifted := m.lift(j, model.CauseMigrate)
	defer lifted.Restore()
	return fit.Within(model.Request{Active: j.Total()}, model.Request{Active: m.state.Room.AvailableUp()})
}

// askMovable returns the question which of the jobs that may be asked to move make room for a gang.
func (m *preemptor) askMovable(j *model.Job, g *fit.Gang) preempt.Question {
	return m.search.Ask(g, func(v *preempt.Candidate) int {
		if m.movable(v, j) {
			return 0
		}
		return preempt.Never
	})
}

// movable reports whether a running job may be asked to move for a larger one. It must be able to
// save its state. It must have run, and the other must have waited, for many times as long as its
// move takes. An elastic job moves when it is resized.
func (m *preemptor) movable(v *preempt.Candidate, j *model.Job) bool {
	a := v.Attempt
	if v.Taken || v.Pauses || v.Surplus != nil || v.Job.Spec.Checkpoint == nil || v.Job.Spec.RunsOnce() ||
		a.Started.At == 0 || v.Job.Width() >= j.Width() {
		return false
	}
	lost := model.Instant(preempt.UnsavedMS(v.Job, a, m.state.Now))
	takes := a.Started.At - a.Assigned.At + model.Instant(v.Grace) + lost
	cost := model.Instant(cluster.MigrationWorth.Of(&m.state.Policy)) * takes
	least := max(cost, m.minTurn())
	if m.state.Now-j.Eligible < cost || m.state.Now-a.Started.At < least {
		return false
	}
	_, elastic := v.Job.Elastic()
	return !elastic && !preempt.Wasteful(m.state, v.Job)
}

// elsewhere reports whether all of a set would find room elsewhere with the job's room taken, and
// enough stays free for trial-and-error jobs. Else it returns the candidate that would not, -1 if
// too little stays free.
func (m *preemptor) elsewhere(j *model.Job, set *preempt.Set) (stuck int32, ok bool) {
	r, room := m.search.All(), m.state.Room.Copy()
	room.Claim(m.reservationFor(j, set, m.state.Now))
	for _, i := range set.Candidates {
		g := m.state.Gang(r.List[i].Job)
		spots, ok := room.Place(&g)
		if !ok {
			return i, false
		}
		room.Take(&g, spots)
	}
	return -1, m.rota.spare == nil || m.rota.spare.keptIn(room)
}

// reservationFor returns the reservation that keeps the room of a set for a job, which is there
// from an instant on.
func (m *preemptor) reservationFor(j *model.Job, set *preempt.Set, ready model.Instant) *model.Reservation {
	r := m.state.NewReservation(j.ID, m.state.Claims(set.Claims), ready)
	r.ForPreemptor = true
	return r
}
