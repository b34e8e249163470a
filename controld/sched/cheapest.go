package sched

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
)

// Where GPUs are shared, amounts do not say whether a worker fits: half of one GPU and half of another are no GPU. What goes by amounts
// elsewhere is looked at again here, GPU by GPU.

// cheapestSet finds the cheapest set of victims that makes room for a gang, nil if there is none. Where GPUs are shared, what the search by
// amounts finds for a gang of several workers is proven, and if it does not hold looked for again without those that share.
func (m *preemptor) cheapestSet(g *fit.Gang, limit int) *victimSet {
	if m.state.room.Sharing() && g.Size() == 1 {
		return m.evict(g, limit)
	}
	set := newSearch(m.state, m.roster, g, limit).best()
	if set == nil || !m.state.room.Sharing() || m.proven(set, g) {
		return set
	}
	defer withoutSharers(m.roster)()
	if set = newSearch(m.state, m.roster, g, limit).best(); set != nil && m.proven(set, g) {
		set.inexact = true
		return set
	}
	return nil
}

// withoutSharers leaves those out who share GPUs, until what it returns is called.
func withoutSharers(r *roster) (restore func()) {
	out := map[int]int{}
	for i := range r.victims {
		if v := &r.victims[i]; v.reluctance >= 0 && sharesGPU(v.job) {
			out[i], v.reluctance = v.reluctance, -1
		}
	}
	return func() {
		for i, reluctance := range out {
			r.victims[i].reluctance = reluctance
		}
	}
}

func sharesGPU(j *cluster.Job) bool {
	for i := range j.Workers {
		if r := j.RequestOf(i); r.Share() > 0 {
			return true
		}
	}
	return false
}

// proven reports whether a set makes room for a gang. What it claims of each node becomes what the gang finds there, GPU by GPU.
func (m *preemptor) proven(set *victimSet, g *fit.Gang) bool {
	spots, ok := m.freed(set, g)
	if !ok || g.Request.Exclusive {
		return ok
	}
	set.claims = nil
	for s, part := range g.Seated(spots) {
		set.claims = fit.AddRoom(set.claims, s.Node, part.Request)
	}
	slices.SortFunc(set.claims, func(a, b cluster.NodeRoom) int { return cmp.Compare(a.Node, b.Node) })
	return true
}

// freed finds a gang's spots on the nodes of a set when all have left that are asked to. Reservations that are not firm are lifted.
func (m *preemptor) freed(set *victimSet, g *fit.Gang) ([]fit.Spot, bool) {
	room := m.state.room.Firm()
	leave := func(j *cluster.Job) {
		a := j.Live()
		for i := range a.Workers {
			if w := &a.Workers[i]; !w.State.Final() && !stays(a, i) && !m.state.keepsWorker(j.ID, i) {
				if _, n := m.state.view.Node(w.Node); n >= 0 {
					room.Release(n, j.RequestOf(i), w.GPUs)
				}
			}
		}
	}
	for j := range m.state.view.Live() {
		if _, asked := m.state.stopping[j.ID]; asked || j.Live().Stop != nil {
			leave(j)
		}
	}
	for _, i := range set.victims {
		leave(m.roster.victims[i].job)
	}
	nodes := make([]uint64, (len(m.state.view.Nodes())+63)/64)
	for _, c := range set.claims {
		nodes[c.Node/64] |= 1 << (c.Node % 64)
	}
	return room.Place(g.Within(nodes))
}
