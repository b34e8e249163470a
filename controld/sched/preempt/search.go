package preempt

import (
	"cmp"
	"math"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// dear is the cost of an impossible choice.
const dear = math.MaxInt64 / 4

// Set is a solution: the room for a gang, and the victims that leave for it.
type Set struct {
	Claims     []estimate.NodeResources // by node
	Candidates []int32                  // ascending
	Cost       int64
	Inexact    bool // a cheaper set may exist
}

// sortClaims puts the claims in the order of the nodes.
func (s *Set) sortClaims() {
	slices.SortFunc(s.Claims, func(a, b estimate.NodeResources) int { return cmp.Compare(a.Node, b.Node) })
}

// search looks for the cheapest set of victims that makes room for a gang. It has two stages:
//
//  1. On each node, for each number of workers k, the cheapest candidates whose room holds k
//     workers. That is a covering knapsack over cores, memory and GPUs: cover the missing room at
//     the least cost. cheapest solves it with the list algorithm of Nemhauser and Ullmann (Discrete
//     Dynamic Programming and Capital Allocation, 1969). It grows a list of sets and drops each set
//     that another one dominates. Cost: O(items x states x states) for each k; both are bounded
//     (MaxItems, MaxStates).
//  2. Across nodes, how many workers go to which node. That is a knapsack with choices: each node
//     offers one of several (workers, cost) pairs. divide solves it exactly by dynamic programming in
//     O(nodes x workers x workers per node).
//
// Stage 2 adds up the nodes, so that a candidate on several nodes counts with its whole cost on
// each of them. To correct for that, the search runs again with each of the cheapest such
// candidates given. It also runs once with a set of them that across.go finds. All their room
// counts, and their cost counts once. The result is the true minimum unless cut is set.
type search struct {
	state      *scratch.State
	candidates *Candidates
	question   Question
	assumed    assumption
	bound      int64 // the cost of the best set known
	cut        bool  // the search skipped sets that might be cheaper
}

// NewSearch returns a search among candidates that answers a question.
func NewSearch(t *scratch.State, r *Candidates, q Question) *search {
	return &search{state: t, candidates: r, question: q, bound: dear}
}

// Best returns the cheapest set, nil if there is none.
func (s *search) Best() *Set {
	set := s.find()
	if set != nil && len(set.Candidates) > 0 {
		set.Inexact = s.cut
	}
	return set
}

func (s *search) find() *Set {
	g := s.question.Gang
	if len(g.More) > 0 {
		s.cut = true // one part after another: the first may take room that the next needs more
		return s.parts()
	}
	set := s.part(&g.Component, nil)
	if g.Workers == 1 {
		return set
	}
	// The bound is the cost of the best set so far. Each try that is given a candidate on several nodes
	// starts from that candidate's cost. One beyond the bound cannot win, nor can any after it.
	wide := s.wide()
	for i, v := range wide {
		if s.candidates.List[v].Score >= s.bound {
			break
		}
		set = s.cheaper(set, wide[i:i+1])
	}
	if len(wide) > 1 {
		s.cut = true // not all sets of them are tried
		set = s.cheaper(set, s.across(&g.Component))
	}
	return set
}

// cheaper searches again with some candidates given: they leave in any case. It returns the cheaper
// of that set and the best so far.
func (s *search) cheaper(best *Set, given []int32) *Set {
	if len(given) == 0 {
		return best
	}
	if other := s.part(&s.question.Gang.Component, given); other != nil {
		return other
	}
	return best
}

// wide lists the candidates that span several nodes, the cheapest first, up to a bound.
func (s *search) wide() []int32 {
	var list []int32
	for i, v := range s.candidates.Each() {
		if len(v.Rooms) > 1 && s.may(int32(i)) {
			list = append(list, int32(i))
		}
	}
	s.candidates.sort(list)
	return list[:min(len(list), tunables.MaxForced)]
}

// may reports whether a candidate may be taken in addition to the assumed ones.
func (s *search) may(i int32) bool {
	return s.question.mayTake(s.candidates, i) && !s.assumed.excludes(s.candidates, i)
}

// parts looks for room for the parts of a gang one after another, the hardest first. Each part
// takes room from the next ones.
func (s *search) parts() *Set {
	all := &Set{}
	next := s.assuming(nil) // each part assumes what the parts before it take
	for _, i := range s.question.Gang.Hardest() {
		next.bound = dear
		set := next.part(s.question.Gang.At(i), nil)
		if set == nil {
			return nil
		}
		next = next.assuming(set.Candidates)
		all.Candidates = append(all.Candidates, set.Candidates...)
		all.Cost += set.Cost
		for _, c := range set.Claims {
			all.Claims = fit.AddRoom(all.Claims, c.Node, c.Room)
			next.assumed.room[c.Node] = next.assumed.room[c.Node].Minus(c.Room)
		}
	}
	slices.Sort(all.Candidates)
	return all
}

// choice is the cheapest way to have some workers on one node.
type choice struct {
	cost int64
	set  uint64 // bit set of the node's items
}

// onNode is one node's offer: the cheapest victims for each number of workers.
type onNode struct {
	node    int
	items   []int32  // indices of candidates
	choices []choice // by number of workers; dear if impossible
}

// part looks for room for one part of a gang. Some candidates are given: they leave in any case.
func (s *search) part(p *fit.Component, given []int32) *Set {
	// The room of given candidates counts as free on all their nodes, and their cost is paid once.
	try, base := s, int64(0)
	if len(given) > 0 {
		try = s.assuming(given)
	}
	for _, i := range given {
		base += s.candidates.List[i].Score
	}
	set := try.divide(p, try.offers(p, base))
	s.cut = s.cut || try.cut
	if set == nil {
		return nil
	}
	// A candidate that was taken on two nodes stands twice in the list, and paid twice: once is right.
	set.Cost += base
	set.Candidates = append(set.Candidates, given...)
	slices.Sort(set.Candidates)
	for k := 1; k < len(set.Candidates); k++ {
		if i := set.Candidates[k]; i == set.Candidates[k-1] {
			set.Cost -= s.candidates.List[i].Score // it counted on each of its nodes
		}
	}
	set.Candidates = slices.Compact(set.Candidates)
	if set.Cost >= s.bound {
		return nil
	}
	s.bound = set.Cost
	return set
}

// offers asks every node for its price by number of workers: stage 1.
func (s *search) offers(p *fit.Component, base int64) []onNode {
	// A gang of one worker needs only the best node, so that each offer lowers the bound for the nodes
	// after it. A gang of several workers needs the offers of all nodes: divide chooses among them.
	var list []onNode
	whole := p.Workers == 1
	bound := s.bound - base
	for node := range s.state.View.Nodes() {
		if !s.state.Room.Usable(node, p, s.question.Gang.Exclude) || s.state.Room.Whole(node) && !p.Request.Exclusive {
			continue
		}
		if s.shut(node, p) && s.leastOn(node, bound) == bound {
			continue
		}
		o, ok := s.offer(p, node, bound)
		if !ok {
			continue
		}
		if !whole {
			list = append(list, o)
			continue
		}
		// From here on only a cheaper offer counts, or an equal one whose room is free sooner.
		if c := o.choices[1].cost; c < bound || len(list) > 0 && c == bound &&
			s.candidates.Over[node] < s.candidates.Over[list[0].node] {
			bound = c
			list = append(list[:0], o)
		}
	}
	return list
}

// shut reports whether a node has too few GPUs for a worker unless a job is asked to leave. It is a
// quick check before the node is looked at closely.
func (s *search) shut(node int, p *fit.Component) bool {
	return !p.Request.Exclusive &&
		s.state.Room.Free(node).Active.GPUs+s.draining(node).Active.GPUs < p.Request.Active.GPUs
}

// usualOnNode is the usual maximum of a gang's workers on one node. It sizes a slice, which may
// grow.
const usualOnNode = 16

// offer finds the cheapest victims on a node for each number of workers. False: none are cheaper
// than the bound.
func (s *search) offer(p *fit.Component, node int, bound int64) (onNode, bool) {
	have := s.coming(node, p)
	if p.Request.Exclusive {
		return s.offerWhole(p, node, bound)
	}
	// First the numbers of workers for which no job has to leave. They cost nothing if the room is
	// free now, and a wait if jobs are leaving already.
	workers := min(p.Workers, p.PerNode)
	o := onNode{node: node, choices: make([]choice, 1, min(workers, usualOnNode)+1)}
	free, now := workersIn(p, have), workersIn(p, s.state.Room.AvailableTo(node, p))
	for k := 1; k <= min(workers, free); k++ {
		c := choice{}
		if k > now {
			c.cost = s.candidates.Delay(s.state.Now, node)
		}
		o.choices = append(o.choices, c)
	}
	if free >= workers {
		return o, true
	}
	// Then one worker more at a time, each with the cheapest victims for what is missing. The cost
	// grows with the number of workers, so that the first number beyond the bound ends the row.
	if o.items = s.items(node, bound); len(o.items) == 0 {
		return o, len(o.choices) > 1
	}
	for k := free + 1; k <= workers; k++ {
		missing := p.Request.Times(k).Minus(have)
		missing.Resident.Cores = 0 // a suspended worker needs no cores
		c := s.cheapest(missing, node, o.items, bound)
		if c.cost >= bound {
			break
		}
		o.choices = append(o.choices, c)
	}
	return o, len(o.choices) > 1
}

// workersIn returns how many workers of a part some room holds. Overdrawn room holds none, even if
// the worker does not need the overdrawn resource: grid.Fits decides in the same way.
func workersIn(p *fit.Component, have model.Request) int {
	if overdrawn(have) {
		return 0
	}
	return fit.Capacity(p, have)
}

// overdrawn reports whether some room is less than nothing. A suspended worker needs no cores.
func overdrawn(r model.Request) bool {
	return r.Active.Negative() || r.Resident.Memory < 0 || r.Resident.GPUs < 0
}

// offerWhole is offer for a part whose workers need nodes for themselves. All jobs of the node must
// leave, so that the node offers nothing if one of them may not be asked to.
func (s *search) offerWhole(p *fit.Component, node int, bound int64) (onNode, bool) {
	o := onNode{node: node, items: s.items(node, bound)}
	// a paused job keeps memory, and the node must be empty
	o.items = slices.DeleteFunc(o.items, func(i int32) bool { return s.candidates.List[i].Pauses })
	all, held := choice{}, s.draining(node)
	for k, i := range o.items {
		v := &s.candidates.List[i]
		all.cost += v.Score
		all.set |= 1 << k
		held = held.Plus(v.At(node))
	}
	empty := held.Plus(s.state.Room.Free(node))
	if all.cost >= bound || s.state.Room.Claimed(node) != (model.Vector{}) ||
		!fit.Within(fit.Both(s.state.Room.Working(node)), fit.Both(empty.Active)) {
		return o, false
	}
	o.choices = make([]choice, 1, p.Workers+1)
	for k := 1; k <= min(p.Workers, fit.Capacity(p, empty)); k++ {
		o.choices = append(o.choices, all)
	}
	return o, len(o.choices) > 1
}

// items lists the permitted candidates of a node, the cheapest first. It is empty if even the
// cheapest exceeds the bound.
func (s *search) items(node int, bound int64) []int32 {
	if s.leastOn(node, bound) == bound {
		return nil
	}
	var list []int32
	for _, i := range s.candidates.On[node] {
		if s.may(i) {
			list = append(list, i)
		}
	}
	s.candidates.sort(list)
	s.cut = s.cut || len(list) > tunables.MaxItems
	return list[:min(len(list), tunables.MaxItems)]
}

// leastOn returns the cost of the cheapest permitted candidate on a node, at most a bound.
func (s *search) leastOn(node int, bound int64) int64 {
	for _, i := range s.candidates.On[node] {
		if v := &s.candidates.List[i]; v.Score < bound && s.may(i) {
			bound = v.Score
		}
	}
	return bound
}

// partialChoice is a state of the knapsack: some victims of a node, the room still missing without
// them, and their cost.
type partialChoice struct {
	missing model.Request
	choice
}

// cheapest finds the cheapest set of items on a node that frees what is missing: stage 1 of the
// search. Items are added in one order. A set that costs more than another and frees no more is
// dropped: any items that complete it complete the other at less cost.
func (s *search) cheapest(missing model.Request, node int, items []int32, bound int64) choice {
	// states are the sets of the items so far that no other set dominates; the empty set is the first.
	best := choice{cost: bound}
	states := []partialChoice{{missing: missing.Positive()}}
	for k, i := range items {
		v := &s.candidates.List[i]
		if v.Score >= best.cost {
			break // so are all behind it
		}
		other := -1 // the same job's other entry comes with it, so that no set has both
		if v.alternative != 0 {
			other = slices.Index(items, v.alternative-1)
		}
		if other >= 0 && other < k {
			continue
		}
		// Each state stays as it is or takes the item; of a job with two entries it takes one of them.
		from := states[:len(states):len(states)]
		states = s.with(states, from, v, k, node, &best)
		if other >= 0 {
			states = s.with(states, from, &s.candidates.List[items[other]], other, node, &best)
		}
		states = prune(states, best.cost)
		s.cut = s.cut || len(states) == tunables.MaxStates
	}
	return best
}

// with adds one item to some of the states. A result that frees enough becomes the best set; any
// other that frees more than before becomes a new state. Results that cost too much are dropped.
func (s *search) with(states, from []partialChoice, v *Candidate, k, node int, best *choice) []partialChoice {
	room := v.At(node)
	for i := range from {
		next := partialChoice{choice: choice{from[i].cost + v.Score, from[i].set | 1<<k}}
		if next.cost >= best.cost {
			continue
		}
		next.missing = from[i].missing.Minus(room).Positive()
		switch {
		case next.missing == model.Request{}:
			*best = next.choice
		case next.missing != from[i].missing:
			states = append(states, next)
		}
	}
	return states
}

// prune drops every state that another one dominates: at most its cost, and at most its missing
// room. The rest is sorted, cheapest first.
func prune(states []partialChoice, bound int64) []partialChoice {
	// Cheapest first, a state can only be dominated by one that is kept already.
	slices.SortFunc(states, func(a, b partialChoice) int {
		return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(a.set, b.set))
	})
	kept := states[:0]
	for i := range states {
		if states[i].cost >= bound || len(kept) == tunables.MaxStates {
			break
		}
		worse := false
		for k := range kept {
			if fit.Covers(states[i].missing, kept[k].missing) {
				worse = true
				break
			}
		}
		if !worse {
			kept = append(kept, states[i])
		}
	}
	return kept
}

// divide divides the workers of a part among nodes at the least cost, with a price for each node
// beyond the first. It is stage 2 of the search, a knapsack with choices. It takes O(nodes x
// workers x workers per node) time and O(nodes x workers) memory. At equal cost the room that is
// there sooner is taken, then the node that comes first.
func (s *search) divide(p *fit.Component, offers []onNode) *Set {
	// cost[n] is the least cost of n workers on the nodes so far.
	perNode := one * tunables.NodeWeight / 1000
	w := p.Workers
	cost := make([]int64, w+1)
	for i := range cost {
		cost[i] = dear
	}
	cost[0] = 0
	// from[node][n] is the node's part of those n workers, 0 if none: the way back.
	from := make([]int16, len(offers)*(w+1))
	// A later node wins only if it is cheaper, so that of equal ones the room that is there first wins.
	slices.SortStableFunc(offers, func(a, b onNode) int {
		return cmp.Compare(s.candidates.Over[a.node],
			s.candidates.Over[b.node])
	})
	for n := range offers {
		row := from[n*(w+1) : (n+1)*(w+1)]
		choices := offers[n].choices
		// Downwards, so that cost[have-k] is still that without this node.
		for have := w; have > 0; have-- {
			for k := 1; k < len(choices) && k <= have; k++ {
				if c := cost[have-k] + choices[k].cost + perNode; cost[have-k] < dear && choices[k].cost < dear && c < cost[have] {
					cost[have], row[have] = c, int16(k)
				}
			}
		}
	}
	if cost[w] >= dear {
		return nil
	}
	// Back from all workers: the last node that improved the cost has its share, and so on.
	set := &Set{Cost: cost[w] - perNode}
	left := w
	for n := len(offers) - 1; n >= 0; n-- {
		k := int(from[n*(w+1)+left])
		if k == 0 {
			continue
		}
		left -= k
		o := &offers[n]
		room := p.Request.Times(k)
		if p.Request.Exclusive {
			room = fit.Both(s.state.Room.Total(o.node))
		}
		set.Claims = append(set.Claims, estimate.NodeResources{Node: o.node, Room: room})
		for b, i := range o.items {
			if o.choices[k].set&(1<<b) != 0 {
				set.Candidates = append(set.Candidates, i)
			}
		}
	}
	set.sortClaims()
	return set
}
