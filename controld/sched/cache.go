package sched

import (
	"cmp"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/introspect"
	"github.com/rota-hpc/rota/controld/sched/policy"
	"github.com/rota-hpc/rota/controld/sched/preempt"
	"github.com/rota-hpc/rota/controld/sched/rota"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// Cache is the cycle cache: what one scheduling cycle remembers for the next, so that it need not
// begin with fresh memory, nor look again at what has not changed. On a large cluster that, and the
// garbage collection, is most of what a decision costs. The plan does not depend on it: it is that
// of [Cycle], whatever views the cache was used with before. The zero value is ready for use. It is
// not for concurrent use.
type Cache struct {
	room       fit.Room
	due        scratch.Pages[model.Instant] // when the first time limit or deadline of the attempts of a page is over
	candidates preempt.Cache
	headroom   rota.Cache
	maxStarts  int    // of one cycle; 0: as the tunables say. Only tests set it
	dry        *Cache // of the cycles of which a dry run only records what they do; nil until there is one
}

// Cycle is the function [Cycle] with this cache.
func (d *Cache) Cycle(v *state.View, now model.Instant, p model.Policy) (fsm.CommitPlan, model.Instant) {
	t, _ := d.decide(v, now, p)
	rotation := t.RotationChecked
	d.candidates.EndCycle()
	plan, wake := fsm.CommitPlan{BasedOn: v.Index(), At: now, Rules: RulesVersion(p.Name), Actions: t.Actions,
		Rotated: rotation}, t.NextWake()
	if v.Steering().Setting(steering.DryRun) == nil {
		d.dry = nil
		return plan, wake
	}
	return d.withDryRun(plan, wake, v, now, p)
}

// decide runs the phases of a cycle. Its results say more than the plan, which is what explanations
// need.
func (d *Cache) decide(v *state.View, now model.Instant, p model.Policy) (*scratch.State, *policy.Rules) {
	return d.decideUnder(v.Steering(), v, now, p)
}

// decideUnder is decide as if operators had told the scheduler something else.
func (d *Cache) decideUnder(s *steering.Steering, v *state.View, now model.Instant,
	p model.Policy) (*scratch.State, *policy.Rules) {
	t := scratch.New(v, now, p, &d.room)
	t.Steering = s
	t.MaxStarts = cmp.Or(d.maxStarts, t.MaxStarts)
	policy.Expire(t, &d.due)
	rules := policyNamed(p.Name).begin(t, d)
	introspect.Add(t, &rules)
	rules.Run(t)
	return t, &rules
}
