package rota

import (
	"math"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/sched/preempt"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// # The rule of worth
//
// A running job leaves for one of its class only if it goes on for long by its service index.
// Beyond several times its loss it must go on for several times as long as the other job needs. Its
// loss is its grace, weighted as everywhere, its restart, and its unsaved work. It must be able to
// save its state. For the equal part of another account or user it need only go on for as long as
// the other.

// beyondCost returns for how long a running job goes on beyond CostWorth times its loss by leaving,
// in ms. It is less than any threshold if the job must not leave. One that pauses loses the time
// that it takes.
func (t *rotaPolicy) beyondCost(j *model.Job, a *model.Attempt, pauses bool) int64 {
	if j.Spec.Checkpoint == nil && !pauses || a.Started.At == 0 {
		return math.MinInt64
	}
	grace, more := preempt.ExpectedGrace(t.state, j), int64(0)
	if pauses {
		grace = preempt.PauseCosts(grace)
	} else {
		more = int64(a.Started.At-a.Assigned.At) + preempt.UnsavedMS(j, a, t.state.Now)
	}
	lost := preempt.GraceWeight(t.state)*grace/1000 + more
	left, _ := t.remaining(j, j.RuntimeOf(scratch.AttainedService(j, a, t.state.Now)))
	return left - cluster.CostWorth.Of(&t.state.Policy)*lost
}

// worthInOrder returns for how long a job must go on beyond what it loses, in ms, to leave for one that
// comes first in order. A job of no known kind is taken to need ten minutes at least.
func (t *rotaPolicy) worthInOrder(waiting *model.Job) int64 {
	need, known := t.needs(waiting)
	if !known {
		need = max(need, unknownMS)
	}
	return cluster.OrderWorth.Of(&t.state.Policy) * need
}

// worthEqualPart reports whether it is worth it that a running job leaves for one whose account or user
// holds less than its equal part.
func (t *rotaPolicy) worthEqualPart(waiting, running *model.Job, a *model.Attempt, pauses bool) bool {
	need, _ := t.needs(waiting)
	beyond := t.beyondCost(running, a, pauses)
	if beyond < need && beyond != math.MinInt64 {
		t.state.WakeAt(t.state.Now + model.Instant(need-beyond))
	}
	return beyond >= need
}
