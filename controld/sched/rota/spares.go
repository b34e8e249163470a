package rota

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/drf"
	"github.com/rota-hpc/rota/controld/sched/fairshare"
	"github.com/rota-hpc/rota/controld/sched/preempt"
	"github.com/rota-hpc/rota/controld/sched/queue"
	"github.com/rota-hpc/rota/jobspec"
)

// termsOf returns the sort terms of a waiting job, with its service index from the runtime history.
func (t *rotaPolicy) termsOf(j *model.Job) queue.Terms {
	terms := t.order.Terms(j)
	if j.Class == jobspec.BE {
		need, _ := t.needs(j)
		terms.Service = j.ServiceOf(need)
		terms.Level, terms.UserOver = max(0, t.levelOf(j))/2, max(0, t.levelOf(j))%2 == 1
	}
	return terms
}

// spares names the rule of this policy that protects a running job from a waiting one: see
// [policy.Answers]. It only explains, it decides nothing.
func (t *rotaPolicy) spares(j *model.Job, run *estimate.LiveAttempt, by model.Cause) string {
	o := run.Job
	switch by {
	case model.CauseTE:
		if t.gathered(o, run.Since, len(run.Holds)) {
			return "gangs that waited for their room and started a short while ago (reserve_after, min_runtime)"
		}
		if o.Account != j.Account && t.hopeless[j.ID] {
			return fmt.Sprintf("account %s lends no more of its quota to trial-and-error jobs (te_borrow)", o.Account)
		}
		return ""
	case model.CauseOrder:
	default:
		return ""
	}
	ran, least := t.state.Now-run.Started, max(fairshare.MinRuntime(t.state), model.Instant(t.state.Policy.MinTurnMS))
	f := t.accounts()
	mine, theirs := drf.Part(f.Leaf(j.Association()), f.Leaf(o.Association()))
	switch {
	case t.state.Policy.MinTurnMS < 0:
		return "preemption in service order is off (min_turn)"
	case o.Width() >= model.WideGPUs:
		return "wide gangs are not preempted in service order"
	case ran < least:
		return fmt.Sprintf("started less than %v ago (min_runtime)", jobspec.Seconds(least/1000))
	case t.beyondCost(o, run.Attempt, preempt.MayPause(t.state, run)) < t.worthInOrder(j):
		return "the remaining run time, as predicted, is too short to be worth a preemption (order_worth, cost_worth)"
	case keepsRoom(j, o, mine, theirs):
		if mine.User {
			return fmt.Sprintf("user %s has no more than an equal share, which the priority of %s's jobs cannot take away",
				theirs.Name, mine.Name)
		}
		return fmt.Sprintf("account %s is within its share", o.Account)
	}
	return ""
}

// gathered reports whether a gang of several nodes started a short while ago in room that was
// collected for it, or could have been. A stream of trial-and-error jobs must not undo its start: they
// do not take room that is being collected either.
func (t *rotaPolicy) gathered(j *model.Job, since model.Instant, nodes int) bool {
	return nodes > 1 && t.state.Now-since < fairshare.MinRuntime(t.state) &&
		int64(since-j.Eligible) >= t.state.Policy.ReserveAfterMS
}
