package introspect

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec/convergence"
)

// Seat is a job on a node that it shares with others. A job on its way to a node counts there.
type Seat struct {
	Job     model.JobID
	Account string
	Node    int
	Load    int64 // its request, in thousandths of a GPU
	Class   convergence.Class
	Since   model.Instant // when it came to the class; the time for which it was suspended since is left out
	Cost    int64         // for how long it stands still when it moves, in ms
	Stays   bool          // it cannot move, or not now
}

// EvenOut returns the next job to move so that nodes have equal loads for their sizes, and its new
// node. It returns nil if no job moves. Sizes are the GPUs of the nodes in thousandths; a node that
// takes no job has size 0. The algorithm is the rebalancing of SpeCon (Mao et al., 2020),
// corrected: greedy, one move at a time from the fullest node to the emptiest. Where nodes and jobs
// are alike, jobs move while a node has two more than the one with the fewest. It costs O(nodes^2 x
// seats).
//
// The class of a job decides only which job of an account moves. It is the job that has converged
// last, since it has the longest work before it. Node, target and account follow from loads and
// costs, so that a job which claims to have converged changes nothing for other accounts (A11).
func EvenOut(sizes []int64, seats []Seat, takes func(s *Seat, node int) bool) (move *Seat, to int) {
	loads := make([]int64, len(sizes))
	for i := range seats {
		loads[seats[i].Node] += seats[i].Load
	}
	fuller := func(a, b int) int { return cmp.Compare(loads[a]*sizes[b], loads[b]*sizes[a]) }
	var nodes []int // the emptiest first
	for i, size := range sizes {
		if size > 0 {
			nodes = append(nodes, i)
		}
	}
	slices.SortStableFunc(nodes, fuller)
	donors := slices.Clone(nodes)
	slices.SortStableFunc(donors, func(a, b int) int { return fuller(b, a) })
	// From the fullest node to the emptiest that takes a job. A move must leave the target no fuller
	// than the donor was, so that the moves come to an end.
	for _, from := range donors {
		if loads[from] <= sizes[from] {
			break // its jobs do not get in each other's way
		}
		for _, to := range nodes {
			if fuller(to, from) >= 0 {
				break
			}
			evens := func(s *Seat) bool {
				return s.Node == from && !s.Stays && (loads[to]+s.Load)*sizes[from] < loads[from]*sizes[to] && takes(s, to)
			}
			if move = pick(seats, evens); move != nil {
				return move, to
			}
		}
	}
	return nil, -1
}

// pick returns which of the jobs that may move does. The cheapest job decides on the account; of
// that account the job that has converged last moves, if any has converged.
func pick(seats []Seat, may func(*Seat) bool) (best *Seat) {
	var able []*Seat
	for i := range seats {
		if may(&seats[i]) {
			able = append(able, &seats[i])
		}
	}
	if len(able) == 0 {
		return nil
	}
	// The account is decided by cost alone, before classes are looked at.
	cheapest := slices.MinFunc(able, func(a, b *Seat) int {
		return cmp.Or(cmp.Compare(a.Cost, b.Cost), cmp.Compare(b.Job, a.Job))
	})
	best = cheapest
	for _, s := range able {
		if s.Account == cheapest.Account && s.Class == convergence.Converged &&
			(best.Class != convergence.Converged || cmp.Or(cmp.Compare(s.Since, best.Since), cmp.Compare(s.Job, best.Job)) > 0) {
			best = s
		}
	}
	return best
}
