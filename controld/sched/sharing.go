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
func (m *maker) cheapestSet(g *fit.Gang, limit int) *victimSet {
	if m.room.Sharing() && g.Size() == 1 {
		return m.evict(g, limit)
	}
	set := newSearch(m.trial, m.roster, g, limit).best()
	if set == nil || !m.room.Sharing() || m.proven(set, g) {
		return set
	}
	defer m.roster.withoutSharers()()
	if set = newSearch(m.trial, m.roster, g, limit).best(); set != nil && m.proven(set, g) {
		set.inexact = true
		return set
	}
	return nil
}

// withoutSharers leaves those out who share GPUs, until what it returns is called.
func (r *roster) withoutSharers() (restore func()) {
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
func (m *maker) proven(set *victimSet, g *fit.Gang) bool {
	spots, ok := m.freed(set, g)
	if !ok || g.Request.Exclusive {
		return ok
	}
	set.claims = nil
	for s, part := range g.Seated(spots) {
		set.claims = addRoom(set.claims, s.Node, part.Request)
	}
	slices.SortFunc(set.claims, func(a, b cluster.NodeRoom) int { return cmp.Compare(a.Node, b.Node) })
	return true
}

// freed finds a gang's spots on the nodes of a set when all have left that are asked to. Reservations that are not firm are lifted.
func (m *maker) freed(set *victimSet, g *fit.Gang) ([]fit.Spot, bool) {
	room := m.room.Firm()
	leave := func(j *cluster.Job) {
		a := j.Live()
		for i := range a.Workers {
			if w := &a.Workers[i]; !w.State.Final() && !stays(a, i) && !m.keepsWorker(j.ID, i) {
				if _, n := m.view.Node(w.Node); n >= 0 {
					room.Release(n, j.RequestOf(i), w.GPUs)
				}
			}
		}
	}
	for j := range m.view.Live() {
		if _, asked := m.stopping[j.ID]; asked || j.Live().Stop != nil {
			leave(j)
		}
	}
	for _, i := range set.victims {
		leave(m.roster.victims[i].job)
	}
	nodes := make([]uint64, (len(m.view.Nodes())+63)/64)
	for _, c := range set.claims {
		nodes[c.Node/64] |= 1 << (c.Node % 64)
	}
	return room.Place(g.Within(nodes))
}

// keepsWorker reports whether a job that was asked in this cycle to give up workers keeps one of them.
func (t *trial) keepsWorker(id cluster.JobID, worker int) bool {
	for i := range t.actions {
		if r := t.actions[i].Resize; r != nil && r.Job == id {
			return !slices.Contains(r.Leave, worker)
		}
	}
	return false
}

// parted reports whether a part of a gang has to be told apart, GPU by GPU, on a node.
func (t *trial) parted(node int, p *fit.Part, releases []release) bool {
	return p.Request.Active.GPUs > 0 && (p.Request.Share() > 0 || t.room.Shares(node) ||
		slices.ContainsFunc(releases, func(r release) bool { return r.room.Share() > 0 }))
}

// slotsOnParted is slotsOn where GPUs are shared. What others have been promised is taken from the GPUs that are free soonest.
func (t *trial) slotsOnParted(slots []slot, node int, p *fit.Part, promised cluster.Request, whole bool, releases []release) []slot {
	free, at := fit.Minus(t.room.Available(node), promised), t.now
	taken := t.room.Claimed(node).GPUs + promised.Active.GPUs
	left := t.room.Left(node)
	next := func() {
		r := &releases[0]
		for _, n := range r.gpus {
			if t.view.Nodes()[node].GPUs[n].Healthy {
				left[n] += min(wholeGPU, r.room.Active.GPUs)
			}
		}
		free, at, releases = fit.Plus(free, r.room), r.at, releases[1:]
	}
	for len(releases) > 0 && (p.Request.Exclusive || whole || t.room.Whole(node)) {
		next()
	}
	for workers := 1; workers <= min(p.PerNode, p.Workers); workers++ {
		need := fit.Times(p.Request, workers)
		for need.Active.GPUs, need.Resident.GPUs = 0, 0; !fit.Within(need, free) || seats(left, taken, &p.Request) < int64(workers); {
			if len(releases) == 0 {
				return slots
			}
			next()
		}
		slots = append(slots, slot{at: at, node: node})
	}
	return slots
}

// comingGPUs returns how many thousandths of each GPU of a node will be free when all have left who have been asked to, and somebody else, 0 for
// nobody.
func (t *trial) comingGPUs(node int, also cluster.JobID) []int64 {
	left, n := t.room.Left(node), t.view.Nodes()[node]
	for _, d := range t.view.Desired(n.Name) {
		a := d.Job.Live()
		_, asked := t.stopping[d.Job.ID]
		if leaves := a.Stop != nil && (a.Stop.Resize == nil || slices.Contains(a.Stop.Resize.Leave, d.Worker)); !leaves && (!asked || t.keepsWorker(d.Job.ID, d.Worker)) && d.Job.ID != also {
			continue
		}
		r := d.Job.RequestOf(d.Worker)
		for _, i := range a.Workers[d.Worker].GPUs {
			if n.GPUs[i].Healthy {
				left[i] += min(wholeGPU, r.Active.GPUs)
			}
		}
	}
	return left
}

// seatsOne reports whether one worker will find its GPUs on a node when all have left who have been asked to, and somebody else.
func (t *trial) seatsOne(node int, r *cluster.Request, also cluster.JobID) bool {
	return r.Active.GPUs == 0 || !t.room.Sharing() || seats(t.comingGPUs(node, also), 0, r) > 0
}

// seats counts the workers that find their GPUs in what is left of each when so much is taken, from empty GPUs first.
func seats(left []int64, taken int64, r *cluster.Request) int64 {
	empty, n, share := int64(0), int64(0), r.Share()
	for _, l := range left {
		switch {
		case l >= wholeGPU:
			empty++
		case share > 0:
			n += l / share
		}
	}
	for ; taken > 0 && empty > 0; empty-- {
		taken -= wholeGPU
	}
	if share > 0 {
		return max(0, n+empty*(wholeGPU/share)-max(0, taken)/share)
	}
	return empty * wholeGPU / r.Active.GPUs
}
