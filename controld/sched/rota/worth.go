package rota

import (
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/preempt"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// worthDisplacing reports whether it is worth it that a running job leaves for the equal part of
// another account or user. It must be able to save its state. By the history it must go on for
// several times as long as what is lost by that: its grace, weighted as everywhere, its restart, and
// the work that it has not saved. Without a history it is taken to go on for as long as it has run.
func (t *rotaPolicy) worthDisplacing(j *model.Job, a *model.Attempt) bool {
	if j.Spec.Checkpoint == nil {
		return false
	}
	ran := j.RuntimeOf(scratch.AttainedService(j, a, t.Now))
	left, known := t.View.Statistics().PredictRemaining(j, ran)
	if !known {
		left = ran
	}
	lost := preempt.GraceWeight(t.State)*scratch.GraceOf(j)/1000 + int64(a.Started.At-a.Assigned.At) +
		preempt.UnsavedMS(j, a, t.Now)
	t.WakeAt(t.Now + model.Instant(max(0, tunables.WorthTimes*lost-left)))
	return left >= tunables.WorthTimes*lost
}
