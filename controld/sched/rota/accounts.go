package rota

import (
	"github.com/rota-hpc/rota/controld/fsm/groups"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/sched/drf"
	"github.com/rota-hpc/rota/controld/sched/fairshare"
	"github.com/rota-hpc/rota/controld/sched/fit"
)

// # Accounts under policy rota
//
// Accounts and users count in four ways. None holds more than its limit. Of best-effort jobs those
// go first whose accounts hold less than they are entitled to. An account with less than its quota
// gets it back from accounts over their shares: see package fairshare. So does one with less than an
// equal part, where it is worth it. And a job of another account leaves in order only if that account
// holds more than it is entitled to.
//
// Holdings are computed when they are first needed: a cycle that starts all that waits need not
// know them.

// accounts returns the present holdings and entitlements of accounts and users.
func (t *rotaPolicy) accounts() *fairshare.Accounts {
	if t.fair == nil {
		t.fair = fairshare.NewAccounts(&t.order)
		t.fair.QuotaOnly, t.fair.Worth = true, t.worthEqualPart
	}
	t.fair.CatchUp()
	return t.fair
}

// overLimit reports whether a limit of its account or user keeps a job from starting wherever it is
// put.
func (t *rotaPolicy) overLimit(j *model.Job) bool {
	if !t.limited() {
		return false
	}
	if t.state.AwaitsVictims(j.ID) {
		return false // it counted when the room was promised
	}
	f := t.accounts()
	return f.Limited(f.Leaf(j.Association()), j)
}

// overLimitAt reports whether a limit keeps a job from starting at the places that were found for
// it, because of the GPUs there.
func (t *rotaPolicy) overLimitAt(j *model.Job, spots []fit.Spot) bool {
	if !t.limited() || len(t.accounts().Models) == 0 {
		return false
	}
	at, _ := t.fair.Leaf(j.Association()).Limited(t.fair.At(j, spots))
	return at != nil
}

// limits reports whether a limit applies to the user or an account of a group.
func (t *rotaPolicy) limits(g *groups.Group) bool {
	return t.limited() && t.accounts().Leaf(g.Key.Association()).Bounded()
}

// limitOf returns the limit that keeps a job from starting, the zero reason if none does.
func (t *rotaPolicy) limitOf(j *model.Job) model.Reason {
	if !t.limited() {
		return model.Reason{}
	}
	return t.accounts().LimitOf(j)
}

// configuredTerms is which terms the configuration sets for any account or user.
type configuredTerms struct{ limit, quota bool }

// limited reports whether the configuration has a limit.
func (t *rotaPolicy) limited() bool { return t.configured().limit }

// hasQuota reports whether the configuration gives an account or a user a quota.
func (t *rotaPolicy) hasQuota() bool { return t.configured().quota }

// configured returns which terms are set, which is looked at once a cycle.
func (t *rotaPolicy) configured() *configuredTerms {
	if t.terms != nil {
		return t.terms
	}
	t.terms = &configuredTerms{}
	add := func(c *cluster.Terms) {
		t.terms.limit = t.terms.limit || c.Limit.Amounts() != nil
		t.terms.quota = t.terms.quota || c.Deserved != nil
	}
	for _, a := range t.state.View.Config().Accounts {
		add(&a.Terms)
		for _, u := range a.Users {
			add(&u)
		}
	}
	return t.terms
}

// withinQuota reports whether a waiting job stays within the configured quota of its account or
// user. Room is kept for such a job before others.
func (t *rotaPolicy) withinQuota(j *model.Job) bool {
	if !t.hasQuota() {
		return false
	}
	f := t.accounts()
	return f.Entitled(f.Leaf(j.Association()), f.Asks(j))
}

// excess returns those of a job's accounts that hold their whole entitlement or more, as bits. A
// user with a quota counts like an account: see [queue.Order].
func (t *rotaPolicy) excess(j *model.Job) (levels int) {
	if j.OwnRoomFirst {
		return -1
	}
	const deepest = 16 // levels of accounts and users; there are fewer
	for n := t.accounts().Leaf(j.Association()); n.Parent() != nil; n = n.Parent() {
		if (!n.User || n.Guaranteed()) && n.Holding(nil).Cmp(n.Due()) >= 0 {
			levels |= 1 << (deepest - n.Depth())
		}
	}
	return levels
}

// keepsRoom reports whether a running job keeps its room in order because its account or user holds
// no more than its part. Between users of an account that counts only against priority: otherwise
// both stand alike in the order, and each gets its part in turns.
func keepsRoom(j, running *model.Job, mine, theirs *drf.TreeNode) bool {
	if mine == nil || theirs.Holding(nil).Cmp(theirs.Due()) > 0 {
		return false
	}
	return !mine.User || j.Priority > running.Priority && mine.Holding(nil).Cmp(mine.Due()) >= 0
}
