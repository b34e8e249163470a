package preempt

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/fit"
)

// Where GPUs are shared, the search for victims looks at each GPU by itself. Only the holders of a
// GPU can empty it, or make enough room on it. It is a greedy search with reverse deletion. On
// every node it takes the cheapest holders of each GPU. It takes more jobs for cores and memory
// until the worker fits, and gives back jobs that turn out needless. It is for one worker on one
// node and costs O(GPUs x holders x log holders) for each node. The set need not be the cheapest.
// The search may prefer a cheap holder to a job that would free both a GPU and the cores.

// holder is one worker that holds GPUs of a node, with its candidate. Room that is kept for a
// future attempt has no candidate.
type holder struct {
	candidate int32 // -1: it may not be asked
	leaves    bool  // it has been asked already
	gpus      []int
	each      int64 // thousandths of each of them
}

// holdersOn lists the holders of GPUs of a node. Each cycle makes the list at its first use.
func (m *Preemptor) holdersOn(node int) []holder {
	if m.holders == nil {
		m.holders = make([][]holder, len(m.state.View.Nodes()))
	}
	if m.holders[node] != nil {
		return m.holders[node]
	}
	list := []holder{}
	// Every worker that has GPUs there, whether it may be asked to leave or not.
	for _, d := range m.state.View.Desired(m.state.View.Nodes()[node].Name) {
		a := d.Job.Live()
		w := &a.Workers[d.Worker]
		if len(w.GPUs) == 0 {
			continue
		}
		list = append(list, holder{
			candidate: m.Candidates.candidateOn(node, d.Job.ID),
			leaves:    a.Stop != nil && a.Stop.Resize == nil || a.Suspending() || a.Workers[d.Worker].Leaving,
			gpus:      w.GPUs, each: min(model.WholeGPU, d.Job.Holds(a, d.Worker).Active.GPUs),
		})
	}
	m.holders[node] = list
	return list
}

// sharedSet is a set of victims on one node, with the values that compare it with others.
type sharedSet struct {
	node    int
	victims []int32
	cost    int64 // of the victims, or of waiting if no job has to leave
}

func (e *sharedSet) better(o *sharedSet) bool {
	if o.node < 0 || (len(e.victims) == 0) != (len(o.victims) == 0) {
		return o.node < 0 || len(e.victims) == 0
	}
	return e.cost < o.cost
}

// sharedCheapest finds the cheapest victims on one node for a single worker, nil if there are none.
func (m *Preemptor) sharedCheapest(q Question) *Set {
	g := q.Gang
	s := &sharedSearch{preemptor: m, question: q, best: sharedSet{node: -1}}
	for node := range m.state.View.Nodes() {
		if m.state.Room.Usable(node, &g.Component, g.Exclude) && !m.state.Room.Whole(node) && s.mayImprove(node) {
			s.node(node)
		}
	}
	if s.best.node < 0 {
		return nil
	}
	slices.Sort(s.best.victims)
	return &Set{Claims: []estimate.NodeResources{{Node: s.best.node, Room: g.Request}}, Candidates: s.best.victims,
		Cost: s.best.cost}
}

// mayImprove reports whether a node may be better than the best so far. It is if room is free or on
// its way, or if it has a job that may be asked to leave and costs less.
func (s *sharedSearch) mayImprove(node int) bool {
	if s.draining(node) != (model.Request{}) || s.preemptor.state.Room.Holds(node, &s.question.Gang.Component) {
		return true
	}
	for _, i := range s.preemptor.Candidates.On[node] {
		if s.mayTake(i) && (s.best.node < 0 || s.preemptor.Candidates.List[i].Score < s.best.cost) {
			return true
		}
	}
	return false
}

// sharedSearch is one run of sharedCheapest.
type sharedSearch struct {
	preemptor *Preemptor
	question  Question
	best      sharedSet
	left      []int64 // free part of each GPU of the current node, once all leaving jobs have left
	order     []int   // scratch
}

// node tries one node.
func (s *sharedSearch) node(node int) {
	// 1. The free part of each GPU once all leaving jobs have left, less the parts promised to
	//    others.
	s.left = s.preemptor.state.Room.LeftIn(node, s.left)
	for _, t := range s.preemptor.holdersOn(node) {
		if t.leaves || t.candidate >= 0 && s.preemptor.Candidates.List[t.candidate].Taken {
			s.preemptor.state.Room.AddWorking(s.left, node, t.gpus, t.each)
		}
	}
	s.setAside(node)
	// 2. Try each set of GPUs on which the worker could be put, and keep the cheapest set of victims.
	have := s.preemptor.state.Room.Available(node).Plus(s.draining(node))
	for _, gpus := range s.targets(node) {
		if set, ok := s.clear(node, gpus, have); ok {
			s.weighSet(node, gpus, set, have)
		}
	}
}

// setAside takes the parts that other jobs were promised off the GPUs of a node. Each part comes
// off the GPU on which it leaves least; if it fits none, off the freest one.
func (s *sharedSearch) setAside(node int) {
	for _, claimed := range s.preemptor.state.Room.PreemptorClaims(node, s.question.Gang.For) {
		for ; claimed > 0; claimed -= model.WholeGPU {
			part, best := min(claimed, model.WholeGPU), -1
			for n, left := range s.left {
				if best < 0 || left >= part && (s.left[best] < part || left < s.left[best]) || s.left[best] < part &&
					left > s.left[best] {
					best = n
				}
			}
			if best >= 0 {
				s.left[best] -= part
			}
		}
	}
}

// targets are the sets of GPUs on which the worker could be put: each GPU for a share, the cheapest
// ones for whole GPUs.
func (s *sharedSearch) targets(node int) [][]int {
	s.order = s.order[:0]
	for n := range s.left {
		if s.preemptor.state.View.Nodes()[node].GPUs[n].Healthy {
			s.order = append(s.order, n)
		}
	}
	// One GPU for a share. For whole GPUs only the cheapest ones are tried: all sets would be too
	// many.
	order, need := s.order, s.question.Gang.Request.Devices()
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

// price is the cost of emptying a GPU. Each holder counts in proportion to its GPUs there.
func (s *sharedSearch) price(node, gpu int) int64 {
	if s.left[gpu] >= model.WholeGPU {
		return 0
	}
	sum, left := int64(0), s.left[gpu]
	for _, t := range s.preemptor.holders[node] {
		if s.mayVacate(&t, gpu) {
			sum += s.preemptor.Candidates.List[t.candidate].Score / int64(len(t.gpus))
			left += t.each
		}
	}
	if left < model.WholeGPU {
		return dear
	}
	return sum
}

// mayVacate reports whether a holder of a GPU may be asked to leave, and has not been yet.
func (s *sharedSearch) mayVacate(t *holder, gpu int) bool {
	return !t.leaves && t.candidate >= 0 && s.mayTake(t.candidate) && slices.Contains(t.gpus, gpu)
}

// mayTake reports whether a candidate, by number, may be asked to leave.
func (s *sharedSearch) mayTake(i int32) bool {
	return s.question.mayTake(s.preemptor.Candidates, i)
}

// draining returns the room of a node that is being freed and counts for the search.
func (s *sharedSearch) draining(node int) model.Request {
	return s.question.draining(s.preemptor.Candidates, node)
}

// clear finds victims that make room on some GPUs, and for the worker's cores and memory; false if
// they may not be asked.
func (s *sharedSearch) clear(node int, gpus []int, have model.Request) ([]int32, bool) {
	// GPU by GPU. Victims chosen for an earlier GPU count as gone on this one too.
	var set []int32
	each := min(model.WholeGPU, s.question.Gang.Request.Active.GPUs)
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

// clearRest adds victims, the cheapest first, until there are enough cores and enough memory too.
// Then it gives back those that turn out to be needless.
func (s *sharedSearch) clearRest(node int, set []int32, have model.Request) ([]int32, bool) {
	need := s.question.Gang.Request
	need.Active.GPUs, need.Resident.GPUs = 0, 0
	for _, i := range set {
		have = have.Plus(s.preemptor.Candidates.List[i].At(node))
	}
	// The GPUs are free by now. Only other jobs that free cores and memory still help; a job that
	// pauses keeps its memory.
	wanted := len(set)
	if !fit.Within(need, have) {
		for _, i := range s.preemptor.Candidates.On[node] {
			if s.mayTake(i) && !slices.Contains(set, i) && !s.preemptor.Candidates.List[i].Pauses {
				set = append(set, i)
			}
		}
		s.preemptor.Candidates.sort(set[wanted:])
	}
	taken := wanted
	for ; taken < len(set) && !fit.Within(need, have); taken++ {
		have = have.Plus(s.preemptor.Candidates.List[set[taken]].At(node))
	}
	if !fit.Within(need, have) {
		return nil, false
	}
	// Reverse deletion, the dearest first: a job that was taken early may be needless by now.
	kept := set[:wanted]
	for _, i := range slices.Backward(slices.Clone(set[wanted:taken])) {
		if without := have.Minus(s.preemptor.Candidates.List[i].At(node)); fit.Within(need, without) {
			have = without
		} else {
			kept = append(kept, i)
		}
	}
	return kept, true
}

// cheapestOn lists the candidates that may be asked to leave a GPU, the cheapest first.
func (s *sharedSearch) cheapestOn(node, gpu int) []int32 {
	var list []int32
	for _, t := range s.preemptor.holders[node] {
		if s.mayVacate(&t, gpu) {
			list = append(list, t.candidate)
		}
	}
	s.preemptor.Candidates.sort(list)
	return slices.Compact(list)
}

// holdsOf returns how much of a GPU a candidate holds.
func (s *sharedSearch) holdsOf(node int, candidate int32, gpu int) int64 {
	sum := int64(0)
	for _, t := range s.preemptor.holders[node] {
		if t.candidate == candidate && slices.Contains(t.gpus, gpu) {
			sum += t.each
		}
	}
	return sum
}

// weighSet compares a set with the best so far.
func (s *sharedSearch) weighSet(node int, gpus []int, set []int32, have model.Request) {
	e := sharedSet{node: node, victims: set}
	for _, i := range set {
		e.cost += s.preemptor.Candidates.List[i].Score
	}
	if len(set) == 0 && !s.preemptor.state.Room.Holds(node, &s.question.Gang.Component) {
		e.cost = s.preemptor.Candidates.Delay(s.preemptor.state.Now, node)
	}
	if e.better(&s.best) {
		s.best = e
	}
}
