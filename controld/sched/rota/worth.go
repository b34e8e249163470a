package rota

import (
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/preempt"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// worth is the rule of worth: whether a running job leaves for one that waits. By its service index it
// must go on for as long as the least that is given, and beyond that for CostWorth times as long as it
// loses: its grace, weighted as everywhere, its restart, and the work that it has not saved. It must be
// able to save its state.
func (t *rotaPolicy) worth(running *model.Job, a *model.Attempt, least int64) bool {
	if running.Spec.Checkpoint == nil || a.Started.At == 0 {
		return false
	}
	lost := preempt.GraceWeight(t.State)*scratch.GraceOf(running)/1000 + int64(a.Started.At-a.Assigned.At) +
		preempt.UnsavedMS(running, a, t.Now)
	left, _ := t.remaining(running, running.RuntimeOf(scratch.AttainedService(running, a, t.Now)))
	short := least + model.CostWorth.Of(&t.Policy)*lost - left
	if short > 0 {
		t.WakeAt(t.Now + model.Instant(short))
	}
	return short <= 0
}

// worthInOrder is the rule of worth for a job that comes first in order: the other goes on for several
// times as long. A job of no known kind is taken to need as much as many do.
func (t *rotaPolicy) worthInOrder(waiting, running *model.Job, a *model.Attempt) bool {
	need, known := t.needs(waiting)
	if !known {
		need = max(need, model.Prior.Of(&t.Policy)*60_000)
	}
	return t.worth(running, a, model.OrderWorth.Of(&t.Policy)*need)
}

// worthEqualPart is the rule of worth for a job of an account or user that holds less than its equal
// part: the other goes on for as long.
func (t *rotaPolicy) worthEqualPart(waiting, running *model.Job, a *model.Attempt) bool {
	need, _ := t.needs(waiting)
	return t.worth(running, a, need)
}
