package rota

import (
	"cmp"
	"fmt"

	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/queue"
	"github.com/rota-hpc/rota/controld/sched/scratch"
	"github.com/rota-hpc/rota/jobspec"
)

// termsOf returns what decides the place of a waiting job, with what it counts for by the history.
func (t *rotaPolicy) termsOf(j *model.Job) queue.Terms {
	terms := t.order.Terms(j)
	if j.Class == jobspec.BE {
		_, terms.Service = t.serviceLevel(j, &served{})
	}
	return terms
}

// spares says which rule of this policy's own spares a running job from leaving for one that waits:
// see [policy.Rules]. Nothing is decided by it.
func (t *rotaPolicy) spares(j *model.Job, run *estimate.LiveAttempt, by model.Cause) string {
	o := run.Job
	switch by {
	case model.CauseTE:
		if o.Account != j.Account && t.hopeless[j.ID] {
			return fmt.Sprintf("lent enough: account %s lends no more of what it deserves (te_borrow)", o.Account)
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
		return "no turns are taken (min_turn)"
	case o.Width() >= model.WideGPUs:
		return "wide gangs keep their room"
	case ran < tunables.TurnPerCost*(run.Started-run.Since):
		return "ran not for long beside what a restart costs (worth)"
	case ran < least && t.Policy.MinTurnMS != 0:
		return fmt.Sprintf("started less than min_turn ago, %v", jobspec.Seconds(least/1000))
	case o.ServiceLevelAt(had) < max(0, level)+tunables.LevelsWorse:
		return "had not much more service than this job (order)"
	}
	return ""
}
