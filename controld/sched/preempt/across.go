package preempt

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/sched/fit"
)

// cover is a set of candidates that leave together for a part of a gang, and how many workers of
// the part find room then.
type cover struct {
	search  *search
	part    *fit.Component
	holds   []int // workers, by node
	workers int   // on all nodes
}

// across returns candidates on any nodes that together free enough room for a part. Nil: there are
// none, or there are more than MaxAcross candidates.
//
// The algorithm is greedy set cover (Chvatal, A Greedy Heuristic for the Set-Covering Problem, 1979)
// with reverse deletion. It takes the candidate with the least cost for each worker that finds room,
// until all workers do. Then it gives back candidates that later ones have made needless. The set need not be the
// cheapest. It costs O(candidates x nodes of each).
func (s *search) across(p *fit.Component) []int32 {
	if p.Request.Exclusive || len(s.candidates.List) > tunables.MaxAcross {
		return nil
	}
	c := &cover{search: s.assuming(nil), part: p, holds: make([]int, len(s.state.View.Nodes()))}
	for node := range c.holds {
		c.look(node)
	}
	// Greedy: the prices are those at the start. They are not computed anew after each candidate, which
	// would be quadratic.
	var leave []int32
	for _, i := range c.candidates() {
		if c.workers >= p.Workers {
			break
		}
		if !c.search.may(i) {
			continue // its alternative leaves
		}
		c.take(i)
		leave = append(leave, i)
	}
	// Reverse deletion: each candidate is given back in turn, and taken again only if the workers do
	// not all find room without it.
	enough := c.workers >= p.Workers
	needed := leave[:0]
	for _, i := range leave {
		c.untake(i)
		if enough && c.workers < p.Workers {
			c.take(i)
			needed = append(needed, i)
		}
	}
	return needed
}

// candidates returns the candidates that make room for at least one worker when they leave, in
// order of their cost for each such worker.
func (c *cover) candidates() []int32 {
	var list []int32
	price := make([]int64, len(c.search.candidates.List))
	before := c.workers
	for i, v := range c.search.candidates.Each() {
		if v.Surplus != nil || !c.search.may(int32(i)) {
			continue
		}
		c.take(int32(i))
		gain := c.workers - before
		c.untake(int32(i))
		if gain > 0 {
			price[i] = v.Score / int64(gain)
			list = append(list, int32(i))
		}
	}
	slices.SortFunc(list, func(a, b int32) int {
		return cmp.Or(cmp.Compare(price[a], price[b]), Compare(&c.search.candidates.List[a], &c.search.candidates.List[b]))
	})
	return list
}

// take assumes that a candidate leaves.
func (c *cover) take(i int32) {
	c.search.assumed.add(i, &c.search.candidates.List[i])
	c.lookAt(i)
}

// untake undoes take.
func (c *cover) untake(i int32) {
	c.search.assumed.drop(i, &c.search.candidates.List[i])
	c.lookAt(i)
}

func (c *cover) lookAt(i int32) {
	for _, r := range c.search.candidates.List[i].Rooms {
		c.look(r.Node)
	}
}

// look counts again how many workers find room on a node, and corrects the sum.
func (c *cover) look(node int) {
	n := 0
	if c.search.state.Room.Usable(node, c.part, c.search.question.Gang.Exclude) && !c.search.state.Room.Whole(node) {
		n = min(c.part.PerNode, workersIn(c.part, c.search.coming(node, c.part)))
	}
	c.workers += n - c.holds[node]
	c.holds[node] = n
}
