package rota

import (
	"cmp"
	"fmt"

	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/scratch"
	"github.com/rota-hpc/rota/jobspec"
)

// spares says which rule of this policy's own spares a running job from leaving for one that waits:
// see [policy.Rules]. Nothing is decided by it.
func (t *rotaPolicy) spares(j *model.Job, run *estimate.LiveAttempt, by model.Cause) string {
	o := run.Job
	switch by {
	case model.CauseTE:
		if o.Account != j.Account && t.hopeless[j.ID] {
			return fmt.Sprintf("account %s lends no more of what it deserves (te_borrow)", o.Account)
		}
		return ""
	case model.CauseOrder:
	default:
		return ""
	}
	level, _ := t.serviceLevel(j, &served{})
	had := t.serviceOf(o, scratch.AttainedService(o, run.Attempt, t.Now))
	least := model.Instant(cmp.Or(t.Policy.MinTurnMS, tunables.MinTurnMS))
	ran := t.Now - run.Started
	switch {
	case least < 0:
		return "the policy takes no turns (min_turn)"
	case o.Width() >= model.WideGPUs:
		return "is a wide gang, which keeps its room"
	case ran < tunables.TurnPerCost*(run.Started-run.Since):
		return "has not run for long beside what its restart costs (worth)"
	case ran < least && t.Policy.MinTurnMS != 0:
		return fmt.Sprintf("has run for less than min_turn, %v", jobspec.Seconds(least/1000))
	case o.ServiceLevelAt(had) < max(0, level)+tunables.LevelsWorse:
		return "has not had much more service than this job (order)"
	}
	return ""
}
