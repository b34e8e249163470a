package sched

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
)

// Where GPUs are shared, the search for victims looks at each GPU by itself: only those who hold something of it can empty it, or make enough
// room on it. On every node it tries the cheapest such victims of each GPU, and takes more for cores and memory until the worker fits. What
// remains is weighed like a placement: of sets that cost about the same it takes the one after which less of the GPUs is of no use.

// weightOfUseless is what it costs, in thousandths of the greatest size, to make the whole of a GPU useless to what is usually asked for.
const weightOfUseless = 16000

// tenant is one worker that holds GPUs of a node, and who could be asked to leave for that. Room that is kept for an attempt to come has none.
type tenant struct {
	victim int32 // -1: nobody may be asked
	leaves bool  // it has been asked already
	gpus   []int
	each   int64 // thousandths of each of them
}

// tenants lists who holds GPUs of a node. It is made when somebody first looks at the node in a cycle.
func (m *preemptor) tenants(node int) []tenant {
	if m.lodging == nil {
		m.lodging = make([][]tenant, len(m.state.view.Nodes()))
	}
	if m.lodging[node] != nil {
		return m.lodging[node]
	}
	list := []tenant{}
	for _, d := range m.state.view.Desired(m.state.view.Nodes()[node].Name) {
		a := d.Job.Live()
		w := &a.Workers[d.Worker]
		if len(w.GPUs) == 0 {
			continue
		}
		t := tenant{victim: -1, leaves: a.Stop != nil && a.Stop.Resize == nil, gpus: w.GPUs, each: min(cluster.WholeGPU, d.Job.RequestOf(d.Worker).Active.GPUs)}
		for _, i := range m.roster.on[node] {
			if m.roster.victims[i].job.ID == d.Job.ID {
				t.victim = i
			}
		}
		list = append(list, t)
	}
	m.lodging[node] = list
	return list
}

// eviction is a set of victims on one node and what there is to say for it.
type eviction struct {
	node    int
	victims []int32
	cost    int64 // of the victims, or of waiting where nobody has to be asked
	useless int64 // by how much more of the GPUs is of no use afterwards
}

func (e *eviction) better(o *eviction, unit int64) bool {
	if o.node < 0 || (len(e.victims) == 0) != (len(o.victims) == 0) {
		return o.node < 0 || len(e.victims) == 0
	}
	a, b := e.cost, o.cost
	if unit > 0 {
		a += e.useless * (one * weightOfUseless / 1000 / 1024) / unit
		b += o.useless * (one * weightOfUseless / 1000 / 1024) / unit
	}
	return a < b
}

// evict finds the cheapest victims on one node for a single worker, nil if there are none.
func (m *preemptor) evict(g *fit.Gang, limit int) *victimSet {
	s := &siege{preemptor: m, gang: g, limit: limit, best: eviction{node: -1}}
	if len(m.state.view.Nodes()) <= packNodes {
		s.mix = m.packer.usual()
	}
	if s.mix != nil {
		for i := range s.mix.kinds {
			s.unit += s.mix.kinds[i].Count * cluster.WholeGPU
		}
		s.unit = max(1, s.unit/1024)
	}
	for node := range m.state.view.Nodes() {
		if m.state.room.Usable(node, &g.Part, g.Exclude) && !m.state.room.Whole(node) && s.promises(node) {
			s.node(node)
		}
	}
	if s.best.node < 0 {
		return nil
	}
	slices.Sort(s.best.victims)
	return &victimSet{claims: []cluster.NodeRoom{{Node: s.best.node, Room: g.Request}}, victims: s.best.victims, cost: s.best.cost}
}

// promises reports whether a node may be better than the best so far: room that is free or on its way is, and somebody who may be asked to leave
// and costs less or, where it counts what becomes useless, anybody.
func (s *siege) promises(node int) bool {
	if s.roster.draining[node] != (cluster.Request{}) || s.state.room.Holds(node, &s.gang.Part) {
		return true
	}
	for _, i := range s.roster.on[node] {
		if s.mayTake(i) && (s.mix != nil || s.best.node < 0 || s.roster.victims[i].score < s.best.cost) {
			return true
		}
	}
	return false
}

// siege is one search of evict.
type siege struct {
	*preemptor
	gang    *fit.Gang
	limit   int
	mix     *mixture
	unit    int64 // of eviction.useless
	best    eviction
	left    []int64 // of each GPU of the node at hand, when all have left that are asked to
	order   []int   // scratch
	scratch cluster.Rest
}

// node tries one node.
func (s *siege) node(node int) {
	s.left = s.state.room.LeftIn(node, s.left)
	for i := range s.tenants(node) {
		if t := &s.lodging[node][i]; t.leaves || t.victim >= 0 && s.roster.victims[t.victim].taken {
			s.vacate(node, t)
		}
	}
	s.setAside(node)
	have := fit.Plus(s.state.room.Available(node), s.roster.draining[node])
	for _, gpus := range s.targets(node) {
		if set, ok := s.clear(node, gpus, have); ok {
			s.weighSet(node, gpus, set, have)
		}
	}
}

// vacate counts what a tenant holds as free.
func (s *siege) vacate(node int, t *tenant) {
	for _, n := range t.gpus {
		if s.state.view.Nodes()[node].GPUs[n].Healthy {
			s.left[n] += t.each
		}
	}
}

// setAside takes from what will be free of GPUs what others have been promised: of the GPU on which it leaves least, or of the freest ones.
func (s *siege) setAside(node int) {
	for _, claimed := range s.state.room.FirmClaims(node, s.gang.For) {
		for ; claimed > 0; claimed -= cluster.WholeGPU {
			part, best := min(claimed, cluster.WholeGPU), -1
			for n, left := range s.left {
				if best < 0 || left >= part && (s.left[best] < part || left < s.left[best]) || s.left[best] < part && left > s.left[best] {
					best = n
				}
			}
			if best >= 0 {
				s.left[best] -= part
			}
		}
	}
}

// targets are the sets of GPUs on which the worker could be put: each GPU for a share, the cheapest ones for whole GPUs.
func (s *siege) targets(node int) [][]int {
	s.order = s.order[:0]
	for n := range s.left {
		if s.state.view.Nodes()[node].GPUs[n].Healthy {
			s.order = append(s.order, n)
		}
	}
	order, need := s.order, s.gang.Request.Devices()
	switch {
	case need > len(order):
		return nil
	case need == 0:
		return [][]int{nil}
	case need > 1:
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(s.price(node, a), s.price(node, b)) })
		return [][]int{order[:need]}
	}
	sets := make([][]int, len(order))
	for i := range order {
		sets[i] = order[i : i+1]
	}
	return sets
}

// price is what it costs to empty a GPU, each tenant by the part of it that he has there.
func (s *siege) price(node, gpu int) int64 {
	if s.left[gpu] >= cluster.WholeGPU {
		return 0
	}
	sum, left := int64(0), s.left[gpu]
	for i := range s.lodging[node] {
		if t := &s.lodging[node][i]; slices.Contains(t.gpus, gpu) && !t.leaves && t.victim >= 0 && s.mayTake(t.victim) {
			sum += s.roster.victims[t.victim].score / int64(len(t.gpus))
			left += t.each
		}
	}
	if left < cluster.WholeGPU {
		return dear
	}
	return sum
}

func (s *siege) mayTake(i int32) bool {
	v := &s.roster.victims[i]
	return !v.taken && !v.barred && v.reluctance >= 0 && v.reluctance <= s.limit
}

// clear finds victims who make room on some GPUs, and for the worker's cores and memory; false if they may not be asked.
func (s *siege) clear(node int, gpus []int, have cluster.Request) ([]int32, bool) {
	var set []int32
	each := min(cluster.WholeGPU, s.gang.Request.Active.GPUs)
	for _, gpu := range gpus {
		left := s.left[gpu]
		for _, i := range set {
			left += s.holdsOf(node, i, gpu)
		}
		for _, i := range s.cheapestOn(node, gpu) {
			if left >= each {
				break
			}
			if !slices.Contains(set, i) {
				set = append(set, i)
				left += s.holdsOf(node, i, gpu)
			}
		}
		if left < each {
			return nil, false
		}
	}
	return s.clearRest(node, set, have)
}

// clearRest adds victims until there are enough cores and enough memory too, the cheapest first, and lets those go without whom there are.
func (s *siege) clearRest(node int, set []int32, have cluster.Request) ([]int32, bool) {
	need := s.gang.Request
	need.Active.GPUs, need.Resident.GPUs = 0, 0
	for _, i := range set {
		have = fit.Plus(have, s.roster.victims[i].at(node))
	}
	wanted := len(set)
	if !fit.Within(need, have) {
		for _, i := range s.roster.on[node] {
			if s.mayTake(i) && !slices.Contains(set, i) {
				set = append(set, i)
			}
		}
		slices.SortFunc(set[wanted:], func(a, b int32) int { return compareVictims(&s.roster.victims[a], &s.roster.victims[b]) })
	}
	taken := wanted
	for ; taken < len(set) && !fit.Within(need, have); taken++ {
		have = fit.Plus(have, s.roster.victims[set[taken]].at(node))
	}
	if !fit.Within(need, have) {
		return nil, false
	}
	kept := set[:wanted]
	for _, i := range slices.Backward(slices.Clone(set[wanted:taken])) {
		if without := fit.Minus(have, s.roster.victims[i].at(node)); fit.Within(need, without) {
			have = without
		} else {
			kept = append(kept, i)
		}
	}
	return kept, true
}

// cheapestOn lists who may be asked to leave a GPU, the cheapest first.
func (s *siege) cheapestOn(node, gpu int) []int32 {
	var list []int32
	for i := range s.lodging[node] {
		if t := &s.lodging[node][i]; !t.leaves && t.victim >= 0 && s.mayTake(t.victim) && slices.Contains(t.gpus, gpu) {
			list = append(list, t.victim)
		}
	}
	slices.SortFunc(list, func(a, b int32) int { return compareVictims(&s.roster.victims[a], &s.roster.victims[b]) })
	return slices.Compact(list)
}

// holdsOf returns how much of a GPU a victim holds.
func (s *siege) holdsOf(node int, victim int32, gpu int) int64 {
	sum := int64(0)
	for i := range s.lodging[node] {
		if t := &s.lodging[node][i]; t.victim == victim && slices.Contains(t.gpus, gpu) {
			sum += t.each
		}
	}
	return sum
}

// weighSet compares a set with the best so far.
func (s *siege) weighSet(node int, gpus []int, set []int32, have cluster.Request) {
	e := eviction{node: node, victims: set}
	for _, i := range set {
		e.cost += s.roster.victims[i].score
	}
	if len(set) == 0 && !s.state.room.Holds(node, &s.gang.Part) {
		e.cost = (&search{trial: s.state, roster: s.roster}).delay(node)
	}
	if s.mix != nil {
		e.useless = s.makesUseless(node, gpus, set, have)
	}
	if e.better(&s.best, s.unit) {
		s.best = e
	}
}

// makesUseless returns by how much more of a node's GPUs is of no use when a set has left and the worker is there.
func (s *siege) makesUseless(node int, gpus []int, set []int32, have cluster.Request) int64 {
	before := s.mix.unusable(s.rest(s.left, have))
	after := slices.Clone(s.left)
	for i := range s.lodging[node] {
		if t := &s.lodging[node][i]; t.victim >= 0 && slices.Contains(set, t.victim) {
			for _, n := range t.gpus {
				if s.state.view.Nodes()[node].GPUs[n].Healthy {
					after[n] += t.each
				}
			}
		}
	}
	for _, i := range set {
		have = fit.Plus(have, s.roster.victims[i].at(node))
	}
	for _, n := range gpus {
		after[n] -= min(cluster.WholeGPU, s.gang.Request.Active.GPUs)
	}
	return s.mix.unusable(s.rest(after, fit.Minus(have, s.gang.Request))) - before
}

// rest is what is free as the mixture sees it.
func (s *siege) rest(left []int64, have cluster.Request) *cluster.Rest {
	r := &s.scratch
	*r = cluster.Rest{Cores: have.Active.Cores, Memory: have.Active.Memory, Shared: r.Shared[:0]}
	for _, l := range left {
		switch {
		case l >= cluster.WholeGPU:
			r.Empty++
		case l > 0:
			r.Shared = append(r.Shared, l)
		}
	}
	return r
}
