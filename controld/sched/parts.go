package sched

import (
	"iter"

	"github.com/rota-hpc/rota/controld/fsm"
)

// PartMost is the number of actions and places in one entry of the log. A place takes at most some
// 300 bytes, so that a part stays well below the log's limit. A plan that fills a large idle
// cluster exceeds it.
const PartMost = 30_000

// Parts divides a plan, in order, into numbered plans with a bounded number of actions and places
// each, or one action. A replay divides in the same way, so that each entry of the log has its
// part.
func Parts(plan fsm.CommitPlan, most int) iter.Seq[fsm.CommitPlan] {
	return func(yield func(fsm.CommitPlan) bool) {
		rest, first, size := plan.Actions, 0, 0
		part := plan
		part.Rotated, part.Would = false, nil
		for i, a := range rest {
			n := placesOf(a) + 1
			if size += n; size <= most || i == first {
				continue
			}
			part.Actions = rest[first:i]
			if !yield(part) {
				return
			}
			part.Part++
			first, size = i, n
		}
		part.Actions, part.Rotated, part.Would = rest[first:], plan.Rotated, plan.Would
		yield(part)
	}
}

func placesOf(a fsm.Action) int {
	switch a := a.(type) {
	case *fsm.StartJob:
		return len(a.Places)
	case *fsm.ResizeJob:
		return len(a.Join) + len(a.Leave)
	case *fsm.MoveJob:
		return len(a.Join) + len(a.Leave)
	}
	return 0
}
