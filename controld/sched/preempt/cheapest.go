package preempt

import (
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/fit"
)

// Where GPUs are shared, amounts do not say whether a worker fits: half of one GPU and half of
// another are no GPU. The functions of this file check a set that was found by amounts again, GPU
// by GPU.

// Cheapest finds the cheapest set of victims that makes room for a gang, nil if there is none.
// Where GPUs are shared, the search by amounts proves nothing for a gang of several workers. Its
// set is checked, and if it does not hold, another one is sought without jobs that share GPUs.
func (m *Preemptor) Cheapest(q Question) *Set {
	if m.state.Room.Sharing() && q.Gang.Size() == 1 {
		return m.sharedCheapest(q)
	}
	// Amounts first: on most clusters no GPU is shared, and then the set is proven by itself.
	set := NewSearch(m.state, m.Candidates, q).Best()
	if set == nil || !m.state.Room.Sharing() || m.proven(set, q.Gang) {
		return set
	}
	// Amounts were wrong about some GPU. Without the jobs that share GPUs, amounts are right again.
	whole := q.without(m.Candidates, func(v *Candidate) bool { return sharesGPU(v.Job) })
	if set = NewSearch(m.state, m.Candidates, whole).Best(); set != nil && m.proven(set, q.Gang) {
		set.Inexact = true
		return set
	}
	return nil
}

// sharesGPU reports whether a worker of a job has a part of a GPU, or asks for one.
func sharesGPU(j *model.Job) bool {
	for i := range j.Workers {
		if a := j.Live(); a != nil && a.Packed() {
			return true
		}
		if r := j.RequestOf(i); r.Share() > 0 {
			return true
		}
	}
	return false
}

// proven reports whether a set makes room for a gang, GPU by GPU. If it does, the claims of the set
// become the places that the gang finds.
func (m *Preemptor) proven(set *Set, g *fit.Gang) bool {
	spots, ok := m.freed(set, g)
	if !ok || g.Request.Exclusive {
		return ok
	}
	set.Claims = nil
	for s, part := range g.Seated(spots) {
		set.Claims = fit.AddRoom(set.Claims, s.Node, part.Request)
	}
	set.sortClaims()
	return true
}

// freed finds a gang's spots on the nodes of a set when all have left that are asked to.
// Reservations that are not for preemptors are lifted.
func (m *Preemptor) freed(set *Set, g *fit.Gang) ([]fit.Spot, bool) {
	// On a copy of the room all leave that are asked to, and then the victims. The rest must hold the
	// gang, GPU by GPU, on the nodes of the set.
	room := m.state.Room.ForPreemptors()
	leave := func(j *model.Job, pauses bool) {
		a := j.Live()
		for i, node := range m.state.Leaving(a) {
			switch {
			case m.state.KeepsWorker(j.ID, i):
			case pauses:
				room.Release(node, j.FreedBySuspension(a, i), a.Workers[i].GPUs)
			default:
				room.Release(node, j.Holds(a, i), a.Workers[i].GPUs)
			}
		}
	}
	for j := range m.state.View.Live() {
		if a := j.Live(); a.Stop != nil || m.state.Leaves(j.ID) || a.Suspending() {
			leave(j, a.Stop == nil && (a.Suspending() || m.state.Suspends(j.ID)))
		}
	}
	for _, i := range set.Candidates {
		leave(m.Candidates.List[i].Job, m.Candidates.List[i].Pauses)
	}
	var nodes []int
	for _, c := range set.Claims {
		nodes = append(nodes, c.Node)
	}
	return room.Place(g.Within(room.Nodes(nodes...)))
}
