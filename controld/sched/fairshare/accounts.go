// Package fairshare knows the holdings and entitlements of accounts and users in a cycle. Policy
// fairshare serves them in that order, and reclaims room from accounts over quota. The arithmetic
// is in package drf.
package fairshare

import (
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/fsm/groups"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/sched/drf"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/preempt"
	"github.com/rota-hpc/rota/controld/sched/queue"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// Accounts is a cycle's view of accounts and users.
type Accounts struct {
	state *scratch.State
	order *queue.Order
	// Entitlements come before reservations of blocked heads. A node without a quota of its own gets
	// an equal part only where displacing a job for it is worth it.
	QuotaOnly bool
	// Worth reports whether a running job is worth displacing for a job whose account or user has an
	// equal part but no quota. nil: none is.
	Worth  func(waiting, running *model.Job, a *model.Attempt, pauses bool) bool
	Tree   *drf.Tree
	Models []string // distinct, in the order of their amounts
	pasts  []past   // by the mark of the node, less one
	decay  *estimate.Decay
	leaves map[model.Association]*drf.TreeNode
	queues []*leafQueue // to be told when holdings change

	counted     int                  // actions of this cycle that the holdings include
	anticipated map[model.JobID]bool // waiting jobs that count as there, because room is kept for them
	foreseen    bool                 // jobs that are leaving count as gone
	Candidates  *preempt.Candidates  // gets the jobs that are asked to leave; nil when preemptions are not tracked
}

// NewAccounts makes the tree from the configuration and the state, and settles it.
func NewAccounts(o *queue.Order) *Accounts {
	f := &Accounts{state: o.State, order: o, leaves: map[model.Association]*drf.TreeNode{},
		anticipated: map[model.JobID]bool{}}
	f.Models = f.state.View.Models()
	f.Tree = drf.New(f.capacities())
	f.addAccounts()
	for u := range f.state.View.Usages() {
		if u.User == "" && u.Empty() {
			f.pastOf(f.Account(u.Account)).usage = u
		} else {
			f.pastOf(f.Leaf(u.Association)).usage = u
		}
	}
	for st := range f.state.View.UsageCounters() {
		leaf := f.Leaf(st.Association)
		leaf.Hold(f.amounts(&st.Held))
		leaf.Want(f.amounts(&st.Requested))
		f.pastOf(leaf).counter = st
	}
	f.Tree.Remember(f.remember)
	f.Tree.Settle(int64(f.state.Policy.UsageInfluence))
	f.Tree.Watch(f.held)
	return f
}

// past is the source of a user's past usage, or of the time that an account was active.
type past struct {
	usage   *estimate.PastUse
	counter *estimate.UsageCounter // for what has not ended
}

// pastOf returns the past of an account or a user, to be filled in.
func (f *Accounts) pastOf(n *drf.TreeNode) *past {
	if n.Mark == 0 {
		f.pasts = append(f.pasts, past{})
		n.Mark = len(f.pasts)
	}
	return &f.pasts[n.Mark-1]
}

// held makes the queues find the next job again after a change of holdings.
func (f *Accounts) held(leaf *drf.TreeNode) {
	for _, q := range f.queues {
		q.held(leaf)
	}
}

// remember notes where to find the past usage of an account or a user. Few cycles need it, and for
// few nodes.
func (f *Accounts) remember(n *drf.TreeNode) {
	if n.Mark == 0 {
		return
	}
	if f.decay == nil {
		f.decay = estimate.NewDecay(f.state.Now, f.state.Policy.HalfLifeMS)
	}
	p := &f.pasts[n.Mark-1]
	if p.usage != nil {
		n.Attend(f.decay.ActiveTime(p.usage))
		if n.User {
			n.Use(f.Amount(f.decay.PastUsage(p.usage)))
		}
	}
	if p.counter != nil {
		n.Use(f.Amount(f.decay.RunningUsage(p.counter)))
	}
}

// capacities returns the configured capacity of the cluster and the capacity that is up.
func (f *Accounts) capacities() (configured, live drf.Amount) {
	inv := f.state.View.Inventory()
	configured, live = f.amounts(&inv.All), f.amounts(&inv.Up)
	if q := f.state.View.Config().Capacity; q != nil {
		stated := f.quota(q)
		for r := range stated {
			if stated[r] != drf.Unset {
				configured[r] = stated[r]
			}
		}
	}
	return configured, live
}

// mib is the unit of memory in amounts.
const mib = model.Mib

// Amount returns an amount without a model.
func (f *Accounts) Amount(cores, memoryMiB, gpus int64) drf.Amount {
	a := make(drf.Amount, drf.Models+len(f.Models))
	a[drf.Cores], a[drf.Memory], a[drf.GPUs] = cores, memoryMiB, gpus
	return a
}

// addGPU adds some thousandths of a GPU of a node.
func (f *Accounts) addGPU(a drf.Amount, n *model.Node, gpu int, of int64) {
	a[drf.GPUs] += of
	if i, ok := slices.BinarySearch(f.Models, n.GPUs[gpu].Model); ok {
		a[drf.Models+i] += of
	}
}

// quota returns a configured quota as an amount, nil for none.
func (f *Accounts) quota(q *cluster.Quota) drf.Amount {
	if q == nil {
		return nil
	}
	a := f.Amount(0, 0, 0)
	for r := range a {
		a[r] = drf.Unset
	}
	if q.Cores != nil {
		a[drf.Cores] = *q.Cores
	}
	if q.Memory != nil {
		a[drf.Memory] = int64(*q.Memory) / mib
	}
	if q.GPUs != nil {
		a[drf.GPUs] = *q.GPUs
	}
	for i, m := range f.Models {
		if n, ok := q.Models[m]; ok {
			a[drf.Models+i] = n
		}
	}
	return a
}

func (f *Accounts) terms(t cluster.Terms) drf.Terms {
	return drf.Terms{Weight: int64(t.Weight), Deserved: f.quota(t.Deserved), Limit: f.quota(t.Limit.Amounts())}
}

// addAccounts adds the configured accounts, parents first.
func (f *Accounts) addAccounts() {
	accounts := f.state.View.Config().Accounts
	var add func(name string) *drf.TreeNode
	add = func(name string) *drf.TreeNode {
		if n := f.Tree.Account(name); n != nil {
			return n
		}
		a, known := accounts[name]
		if !known {
			return nil
		}
		var parent *drf.TreeNode
		if a.Parent != "" {
			parent = add(a.Parent)
		}
		n := f.Tree.AddAccount(name, parent, f.terms(a.Terms))
		for user, terms := range a.Users {
			if user == cluster.EachUser {
				continue // no user has this name
			}
			f.leaves[model.Association{Account: name, User: user}] = f.Tree.AddUser(n, user, f.terms(terms))
		}
		return n
	}
	for name := range accounts {
		add(name)
	}
}

// Leaf returns the leaf of a user in an account. Accounts that are not configured are at the top.
func (f *Accounts) Leaf(of model.Association) *drf.TreeNode {
	if n := f.leaves[of]; n != nil {
		return n
	}
	n := f.Tree.AddUser(f.Account(of.Account), of.User, drf.Terms{})
	f.leaves[of] = n
	return n
}

// Account returns an account of the tree. Accounts that are not configured are at the top.
func (f *Accounts) Account(name string) *drf.TreeNode {
	if n := f.Tree.Account(name); n != nil {
		return n
	}
	return f.Tree.AddAccount(name, nil, drf.Terms{})
}

// HeldBy returns the holdings of an attempt: the room of its workers that have not ended.
func (f *Accounts) HeldBy(j *model.Job, a *model.Attempt) drf.Amount {
	held := f.state.View.HeldBy(j, a)
	return f.amounts(&held)
}

// amounts converts the state's amounts to those of package drf.
func (f *Accounts) amounts(all *model.Amounts) drf.Amount {
	a := f.Amount(all.Cores, all.Memory, all.GPUs)
	copy(a[drf.Models:], all.Models)
	return a
}

// AmountOf converts room to an amount whose GPUs are of no particular model.
func (f *Accounts) AmountOf(v model.Vector) drf.Amount {
	return f.Amount(v.Cores, model.InMiB(int64(v.Memory)), v.GPUs)
}

// Asks returns the amount that one attempt of a waiting job would hold. The model of its GPUs is
// not known yet, so they count for every model.
func (f *Accounts) Asks(j *model.Job) drf.Amount {
	a := f.AmountOf(j.Total())
	for i := range f.Models {
		a[drf.Models+i] = a[drf.GPUs]
	}
	return a
}

// frontScan finds the first job of each leaf. If seen is not nil, it finds the first blocked job. A
// job that a limit keeps from starting is not blocked.
func (f *Accounts) frontScan(seen *queue.Frontier, first queue.Firsts[*drf.TreeNode]) *queue.FrontScan {
	return queue.NewFrontScan(f.order, seen, func(g *groups.Group) *queue.Key {
		leaf := f.Leaf(g.Key.Association())
		if (seen != nil || f.QuotaOnly) && leaf.Bounded() {
			return nil
		}
		return first.Of(leaf)
	})
}

// told writes an amount of one resource.
func (f *Accounts) told(r int, n int64) string {
	switch r {
	case drf.Cores:
		return fmt.Sprintf("%d cores", n)
	case drf.Memory:
		return fmt.Sprintf("%d MiB", n)
	case drf.GPUs:
		return fmt.Sprintf("%g GPUs", float64(n)/1000)
	}
	return fmt.Sprintf("%g GPUs of model %s", float64(n)/1000, f.Models[r-drf.Models])
}

// At returns the amount that a job holds at the places that were found for it.
func (f *Accounts) At(j *model.Job, spots []fit.Spot) drf.Amount {
	v := j.Total()
	v.GPUs = 0
	a := f.AmountOf(v)
	for i, s := range spots {
		for _, g := range s.GPUs {
			f.addGPU(a, f.state.View.Nodes()[s.Node], g, min(1000, j.RequestOf(i).Active.GPUs))
		}
	}
	return a
}
