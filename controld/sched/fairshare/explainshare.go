package fairshare

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/sched/drf"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/queue"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// ShareExplanation shows how the share of an account is computed. Parts are as in [Share].
type ShareExplanation struct {
	Steps     []ShareStep // from the top of the tree down to the account
	Promised  bool        // its entitlement is a configured quota, its own or one above it; else it is an equal part
	HalfLife  int64       // seconds after which past usage counts half; 0: it does not age
	Influence int64       // thousandths by which usage moves spare capacity
	// the part of its entitlement that it asks for and may take back, and the accounts above their
	// shares, with their excess
	Reclaims int64
	From     []ShareOf
	// its holdings above its share, and the accounts that may take them back, with their claims
	Over int64
	By   []ShareOf
}

// ShareStep is one level of the tree on the way to an account.
type ShareStep struct {
	Account    string
	Weight     int64
	Weights    int64 // of all its siblings that hold or ask for something, itself included
	Configured bool  // its quota is configured
	Deserved   int64
	Demand     int64 // its holdings and requests, within its limits
	Fair       int64
	Alloc      int64
}

// ShareOf is an account with a part of the cluster.
type ShareOf struct {
	Account string
	Part    int64
}

// ExplainShare shows how the share of an account is computed, nil for an unknown account.
func ExplainShare(v *state.View, now model.Instant, p cluster.Policy, account string) *ShareExplanation {
	f := NewAccounts(&queue.Order{State: scratch.New(v, now, p, new(fit.Room))})
	n := f.Tree.Account(account)
	if n == nil {
		return nil
	}
	e := &ShareExplanation{Promised: n.Guaranteed(), HalfLife: p.HalfLifeMS / 1000, Influence: int64(p.UsageInfluence),
		Reclaims: reclaims(n), Over: over(n)}
	for m := n; m.Parent() != nil; m = m.Parent() {
		e.Steps = append(e.Steps, stepOf(m))
	}
	slices.Reverse(e.Steps)
	for _, o := range leavesOf(f.Tree.Root()) {
		if mine, theirs := drf.Part(n, o); mine == nil || o == n || !sameOutcome(mine, theirs, n, o) {
			continue
		}
		if e.Reclaims > 0 && over(o) > 0 {
			e.From = append(e.From, ShareOf{o.Name, over(o)})
		}
		if e.Over > 0 && reclaims(o) > 0 {
			e.By = append(e.By, ShareOf{o.Name, reclaims(o)})
		}
	}
	for _, list := range [][]ShareOf{e.From, e.By} {
		slices.SortFunc(list, func(a, b ShareOf) int {
			return cmp.Or(cmp.Compare(b.Part, a.Part), cmp.Compare(a.Account, b.Account))
		})
	}
	return e
}

// sameOutcome compares two accounts at the level where they part. It reports whether one is within
// its entitlement and the other above its share.
func sameOutcome(mine, theirs, n, o *drf.TreeNode) bool {
	if reclaims(n) > 0 && over(o) > 0 {
		return reclaims(mine) > 0 && over(theirs) > 0
	}
	return over(mine) > 0 && reclaims(theirs) > 0
}

func stepOf(n *drf.TreeNode) ShareStep {
	s := ShareStep{Account: n.Name, Weight: n.Terms().Weight, Configured: n.Deserves(), Deserved: thousandths(n.Due()),
		Demand: thousandths(n.Demand()), Fair: thousandths(n.Share()), Alloc: thousandths(n.Holding(nil))}
	for _, c := range n.Parent().Children() {
		if c.Active() || c == n {
			s.Weights += c.Terms().Weight
		}
	}
	return s
}

// leavesOf lists the accounts without accounts below them.
func leavesOf(n *drf.TreeNode) (list []*drf.TreeNode) {
	for _, c := range n.Children() {
		if !c.User {
			list = append(list, leavesOf(c)...)
		}
	}
	if len(list) == 0 && n.Parent() != nil {
		list = append(list, n)
	}
	return list
}

// reclaims returns a node's claim: the part of its entitlement that it could use and does not hold.
func reclaims(n *drf.TreeNode) int64 {
	due := n.Due()
	if d := n.Demand(); d.Cmp(due) < 0 {
		due = d
	}
	return max(0, thousandths(due.Minus(n.Holding(nil))))
}

// over returns a node's excess: its holdings above both its share and its entitlement.
func over(n *drf.TreeNode) int64 {
	if !n.Above() {
		return 0
	}
	most := n.Share()
	if due := n.Due(); due.Cmp(most) > 0 {
		most = due
	}
	return max(0, thousandths(n.Holding(nil).Minus(most)))
}
