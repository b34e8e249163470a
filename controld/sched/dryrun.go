package sched

import (
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/preempt"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// withDryRun adds to a plan what the cycle would have done to running jobs if there were no dry
// run. That is found by a second cycle on the same view, of which nothing else is used: so the plan
// is the same as if displacements were paused, whatever the policy does with room that it expects.
// Only what is new is added, so that a cycle that finds the same again writes nothing into the log.
func (d *Cache) withDryRun(plan fsm.CommitPlan, wake model.Instant, v *state.View, now model.Instant,
	p model.Policy) (fsm.CommitPlan, model.Instant) {
	if d.dry == nil {
		d.dry = &Cache{maxStarts: d.maxStarts}
	}
	t, _ := d.dry.decideUnder(v.Steering().WithoutDryRun(), v, now, p)
	would := displacements(t)
	d.dry.candidates.EndCycle()
	plan.Rotated = plan.Rotated || t.RotationChecked // the order is checked as often as without a dry run
	if next := t.NextWake(); next != 0 && (wake == 0 || next < wake) {
		wake = next
	}
	_, fresh := steering.Record(v.Steering().Displacements, would, model.Stamp{At: now}, v.MayDisplace)
	if len(fresh) > 0 {
		plan.Would = would
	}
	return plan, wake
}

// displacements lists what a cycle asks of running jobs, for the sake of others or their own.
func displacements(t *scratch.State) (list []steering.Displacement) {
	for i := range t.Actions {
		a := &t.Actions[i]
		d := steering.Displacement{}
		switch part := a.PartOf(); {
		case part != steering.Preemption && part != steering.Migration:
			continue
		case a.Stop != nil:
			d.Job, d.Attempt, d.For, d.Cause = a.Stop.Job, a.Stop.Attempt, a.Stop.For, a.Stop.Cause
		case a.Suspend != nil:
			d.Job, d.Attempt, d.For, d.Cause = a.Suspend.Job, a.Suspend.Attempt, a.Suspend.For, a.Suspend.Cause
		case a.Move != nil:
			d.Job, d.Attempt, d.Cause = a.Move.Job, a.Move.Attempt, model.CauseMigrate
		default:
			d.Job, d.Attempt, d.For, d.Cause = a.Resize.Job, a.Resize.Attempt, a.Resize.For, model.CauseShrink
			d.Workers = len(a.Resize.Leave)
		}
		if run := t.View.LiveAttempt(d.Job); run != nil {
			d.GraceMS, d.LostMS = scratch.GraceOf(run.Job), preempt.UnsavedWork(t, run)
			if a.Suspend != nil {
				d.GraceMS, d.LostMS = model.PauseWithin, 0
			}
		}
		list = append(list, d)
	}
	return list
}
