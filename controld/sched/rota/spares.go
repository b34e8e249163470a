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
			return "a gang that waited for its room and started a short while ago (reserve_after, min_runtime)"
		}
		if o.Account != j.Account && t.hopeless[j.ID] {
			return fmt.Sprintf("lent enough: account %s lends no more of what it deserves (te_borrow)", o.Account)
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
		return "no job leaves in order (min_turn)"
	case o.Width() >= model.WideGPUs:
		return "wide gangs keep their room"
	case ran < least:
		return fmt.Sprintf("started less than %v ago (min_runtime)", jobspec.Seconds(least/1000))
	case t.beyondCost(o, run.Attempt, preempt.MayPause(t.state, run)) < t.worthInOrder(j):
		return "does not go on for long enough by the history to be worth it (order_worth, cost_worth)"
	case keepsRoom(j, o, mine, theirs):
		if mine.User {
			return fmt.Sprintf("user %s has no more than an equal part, and the priority of %s's jobs does not count for it",
				theirs.Name, mine.Name)
		}
		return fmt.Sprintf("account %s is within its part", o.Account)
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
