package sched

import (
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
	shares "github.com/rota-hpc/rota/controld/sched/share"
)

// # Accounts under policy rota
//
// Accounts and users are honoured in four ways. Nobody holds more than his limit. Of best-effort jobs those go first with which their account, and
// then their user, is within what he is entitled to; only then it counts how little a job has had. Whoever has less than what was configured for
// him gets it back from those above their shares: see reclaim.go. And a job takes its turn from another account's only if that account is fuller.
//
// What everybody holds is worked out when somebody asks for it first: a cycle that starts what it finds room for need not know.

// accounts returns what accounts and users hold by now and what they are entitled to.
func (t *trial) accounts() *fair {
	if t.fair == nil {
		t.fair = newFair(t)
	}
	t.fair.catchUp()
	return t.fair
}

// overLimit reports whether a limit of its account or user keeps a job from starting wherever it is put.
func (t *trial) overLimit(j *cluster.Job) bool {
	if !t.byService || !t.limited() {
		return false
	}
	if own := t.holders[j.ID]; own != nil && own.Firm {
		return false // it counted when the room was promised
	}
	f := t.accounts()
	return f.limited(f.leaf(j.Leaf()), j)
}

// overLimitAt reports whether a limit keeps a job from starting at the places that were found for it, because of the GPUs there.
func (t *trial) overLimitAt(j *cluster.Job, spots []fit.Spot) bool {
	if !t.byService || !t.limited() || len(t.accounts().models) == 0 {
		return false
	}
	at, _ := t.fair.leaf(j.Leaf()).Limited(t.fair.at(j, spots))
	return at != nil
}

// limited reports whether the configuration limits anybody.
func (t *trial) limited() bool {
	if t.anyLimit == nil {
		any := anyTerms(t.view.Config(), func(c *cluster.Terms) bool { return c.Limit != nil })
		t.anyLimit = &any
	}
	return *t.anyLimit
}

// promised reports whether the configuration promises anybody a part of the cluster.
func (t *trial) promised() bool {
	if t.anyPromise == nil {
		any := anyTerms(t.view.Config(), func(c *cluster.Terms) bool { return c.Deserved != nil })
		t.anyPromise = &any
	}
	return *t.anyPromise
}

// owes reports whether a job that waits is within what was configured that its account or user deserves: room is kept for it before others.
func (t *trial) owes(j *cluster.Job) bool {
	if !t.byService || !t.promised() {
		return false
	}
	f := t.accounts()
	return f.entitled(f.leaf(j.Leaf()), f.asks(j))
}

// anyTerms reports whether something holds of the terms of any account or user.
func anyTerms(cfg *cluster.Config, holds func(*cluster.Terms) bool) bool {
	for _, a := range cfg.Accounts {
		if holds(&a.Terms) {
			return true
		}
		for _, u := range a.Users {
			if holds(&u) {
				return true
			}
		}
	}
	return false
}

// excess is what stands in the way of a job's going first among best-effort ones, because its accounts or its user hold what they are entitled to.
type excess struct {
	accounts int // bit by bit from the top of the tree down, with a user who was promised something; -1 of who has left his room in vain
	user     int // 1: the user does, who was promised nothing
}

// excess returns what stands in the way of a job's going first.
func (t *trial) excess(j *cluster.Job) excess {
	if j.First {
		return excess{accounts: -1}
	}
	const deepest = 16 // levels of accounts; there are fewer
	var e excess
	for n := t.accounts().leaf(j.Leaf()); n.Parent() != nil; n = n.Parent() {
		switch {
		case !over(n):
		case n.User && !n.Guaranteed():
			e.user = 1
		default:
			e.accounts |= 1 << (deepest - n.Depth())
		}
	}
	return e
}

// over reports whether an account or a user holds what it is entitled to or more. Where nothing was configured that is an equal part, which nobody
// has promised: then it takes twice as much, or a large job would always have to wait for many small ones.
func over(n *shares.Node) bool {
	due := n.Due()
	if !n.Guaranteed() {
		due = due.Plus(due)
	}
	return n.Holding(nil).Cmp(due) >= 0
}
