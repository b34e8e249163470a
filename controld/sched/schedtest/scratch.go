package schedtest

import (
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/fairshare"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/policy"
	"github.com/rota-hpc/rota/controld/sched/preempt"
	"github.com/rota-hpc/rota/controld/sched/queue"
	"github.com/rota-hpc/rota/controld/sched/rota"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// TrialOf returns the scratch state of a cycle that begins.
func TrialOf(v *state.View, now model.Instant) *scratch.State {
	return scratch.New(v, now, v.Config().Policy, new(fit.Room))
}

// Expired returns the scratch state of a cycle after its first phase.
func Expired(v *state.View, now model.Instant) *scratch.State {
	t := TrialOf(v, now)
	policy.Expire(t, &scratch.Pages[model.Instant]{})
	return t
}

// OrderOn returns how the configuration's policy orders jobs.
func OrderOn(t *scratch.State) *queue.Order {
	if t.Policy.Name == "rota" {
		return rota.New(t, &preempt.Cache{}, &rota.Cache{}).Answers().Order
	}
	return &queue.Order{State: t}
}

// AccountsOn returns the holdings of accounts, by the rules of the configuration's policy.
func AccountsOn(t *scratch.State) *fairshare.Accounts {
	if t.Policy.Name != "rota" {
		return fairshare.NewAccounts(OrderOn(t))
	}
	o := OrderOn(t)
	f := fairshare.NewAccounts(o)
	f.QuotaOnly = true
	o.MayStart = func(j *model.Job) bool { // limits are judged by the same holdings as shares
		r := t.Holders[j.ID]
		return r != nil && r.ForPreemptor || !f.Limited(f.Leaf(j.Association()), j)
	}
	return f
}
