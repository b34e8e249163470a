package sched

import (
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/sched/preempt"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// planOf runs a cycle and returns its plan with the additions of a dry run, and the instant at
// which another cycle is due.
func planOf(v *state.View, now model.Instant, p cluster.Policy, m *memory) (fsm.CommitPlan, model.Instant) {
	t, _ := decide(v, now, p, v.Steering(), m)
	plan, wake := fsm.CommitPlan{BasedOn: v.Index(), At: now, Rules: RulesVersion(p.Name), Actions: t.Actions,
		Rotated: t.RotationChecked}, t.NextWake()
	if v.Steering().Setting(steering.DryRun) == nil {
		m.dry = nil
		return plan, wake
	}
	return withDryRun(plan, wake, v, p, m)
}

// withDryRun adds to a plan the actions on running jobs that the cycle would have taken without the
// dry run. A second cycle on the same view finds those, and nothing else of it is used. So the plan
// is the same as if displacements were paused, whatever the policy does with room that it expects.
// Only new ones are added, so that a cycle with the same result writes nothing into the log.
func withDryRun(plan fsm.CommitPlan, wake model.Instant, v *state.View, p cluster.Policy,
	m *memory) (fsm.CommitPlan, model.Instant) {
	if m.dry == nil {
		m.dry = &memory{maxStarts: m.maxStarts}
	}
	t, _ := decide(v, plan.At, p, v.Steering().WithoutDryRun(), m.dry)
	would := displacements(t)
	plan.Rotated = plan.Rotated || t.RotationChecked // the order is checked as often as without a dry run
	if next := t.NextWake(); next != 0 && (wake == 0 || next < wake) {
		wake = next
	}
	_, fresh := steering.Record(v.Steering().Displacements, would, model.Stamp{At: plan.At}, v.MayDisplace)
	if len(fresh) > 0 {
		plan.Would = would
	}
	return plan, wake
}

// displacements lists the stops, moves and resizes that a cycle asks of running jobs.
func displacements(t *scratch.State) (list []steering.Displacement) {
	for _, a := range t.Actions {
		if part := a.PartOf(); part != steering.Preemption && part != steering.Migration {
			continue
		}
		d, pauses := steering.Displacement{}, false
		switch a := a.(type) {
		case *fsm.StopJob:
			d.Job, d.Attempt, d.For, d.Cause = a.Job, a.Attempt, a.For, a.Cause
		case *fsm.SuspendJob:
			d.Job, d.Attempt, d.For, d.Cause, pauses = a.Job, a.Attempt, a.For, a.Cause, true
		case *fsm.MoveJob:
			d.Job, d.Attempt, d.Cause = a.Job, a.Attempt, model.CauseMigrate
		case *fsm.ResizeJob:
			d.Job, d.Attempt, d.For, d.Cause = a.Job, a.Attempt, a.For, model.CauseShrink
			d.Workers = len(a.Leave)
		}
		if run := t.View.LiveAttempt(d.Job); run != nil {
			d.GraceMS, d.LostMS = scratch.GraceOf(run.Job), preempt.UnsavedWork(t, run)
			if pauses {
				d.GraceMS, d.LostMS = model.PauseWithin, 0
			}
		}
		list = append(list, d)
	}
	return list
}
