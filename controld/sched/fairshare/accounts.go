// Package fairshare is what accounts and users hold and are entitled to in a cycle, and policy
// fairshare, which serves them in that order and reclaims room from accounts over quota. The
// arithmetic is in package drf.
package fairshare

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/fsm/groups"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/drf"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/policy"
	"github.com/rota-hpc/rota/controld/sched/preempt"
	"github.com/rota-hpc/rota/controld/sched/queue"
	"github.com/rota-hpc/rota/controld/sched/reserve"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// Rules serves trial-and-error jobs before best-effort jobs, within a class the account that would
// be least saturated with its next job, within it the user for which that is so, and the jobs of a
// user by priority and age. Accounts and users below their entitlement get room back from those
// that hold more than their share: see reclaim.go.
func Rules(t *scratch.State) policy.Rules {
	f := NewAccounts(&queue.Order{State: t})
	return policy.Rules{Serve: f.place, Preempt: f.Reclaim, Limit: f.LimitOf}
}

// Accounts is a cycle's view of accounts and users.
type Accounts struct {
	*queue.Order
	// only accounts with a quota of their own reclaim, and room kept for any blocked head comes
	// after what they are entitled to
	QuotaOnly bool
	Tree      *drf.Tree
	Models    []string // told apart, in the order of their amounts
	pasts     []past   // by the mark of the node, less one
	decay     *estimate.Decay
	leaves    map[model.Association]*drf.Node
	open      *leafQueue              // jobs that fit as far as is known
	heads     *leafQueue              // the first blocked job of each leaf
	first     queue.Firsts[*drf.Node] // the first blocked job of each leaf
	seen      queue.Frontier
	queues    []*leafQueue // to be told when holdings change

	counted    int                  // actions of this cycle of which the holdings know
	promised   map[model.JobID]bool // waiting jobs that count as there, because room is kept for them
	foreseen   bool                 // jobs that are leaving count as gone
	Candidates *preempt.Candidates  // told which jobs are asked to leave; nil when preemptions are not tracked
}

// NewAccounts makes the tree from the configuration and the state, and settles it.
func NewAccounts(o *queue.Order) *Accounts {
	f := &Accounts{Order: o, leaves: map[model.Association]*drf.Node{}, first: queue.Firsts[*drf.Node]{},
		promised: map[model.JobID]bool{}}
	f.Models = f.View.Models()
	f.Tree = drf.New(f.capacities())
	f.open, f.heads = newLeafQueue(f), newLeafQueue(f)
	f.addAccounts()
	for u := range f.View.Usages() {
		if u.User == "" && u.Empty() {
			f.pastOf(f.Account(u.Account)).usage = u
		} else {
			f.pastOf(f.Leaf(u.Association)).usage = u
		}
	}
	for st := range f.View.UsageCounters() {
		leaf := f.Leaf(st.Association)
		leaf.Hold(f.amounts(&st.Held))
		leaf.Want(f.amounts(&st.Requested))
		f.pastOf(leaf).standing = st
	}
	f.Tree.Remember(f.remember)
	f.Tree.Settle(int64(f.Policy.UsageInfluence))
	f.Tree.Watch(f.held)
	return f
}

// past is where it says what a user has used, or for how long an account was active.
type past struct {
	usage    *estimate.Usage
	standing *estimate.UsageCounter // for what has not ended
}

// pastOf returns the past of an account or a user, to be filled in.
func (f *Accounts) pastOf(n *drf.Node) *past {
	if n.Mark == 0 {
		f.pasts = append(f.pasts, past{})
		n.Mark = len(f.pasts)
	}
	return &f.pasts[n.Mark-1]
}

// held makes the queues find the next job again where holdings have changed.
func (f *Accounts) held(leaf *drf.Node) {
	for _, q := range f.queues {
		q.held(leaf)
	}
}

// remember notes the past of an account or a user, which matters in few cycles and for few of them.
func (f *Accounts) remember(n *drf.Node) {
	if n.Mark == 0 {
		return
	}
	if f.decay == nil {
		f.decay = estimate.NewDecay(f.Now, f.Policy.HalfLifeMS)
	}
	p := &f.pasts[n.Mark-1]
	if p.usage != nil {
		n.Attend(f.decay.ActiveTime(p.usage))
		if n.User {
			n.Use(f.Amount(f.decay.PastUsage(p.usage)))
		}
	}
	if p.standing != nil {
		n.Use(f.Amount(f.decay.RunningUsage(p.standing)))
	}
}

// capacities returns the cluster as it should be and what of it is up.
func (f *Accounts) capacities() (configured, live drf.Amount) {
	inv := f.View.Inventory()
	configured, live = f.amounts(&inv.All), f.amounts(&inv.Up)
	if q := f.View.Config().Capacity; q != nil {
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
const mib = 1 << 20

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

// quota returns what is configured as an amount, nil for nothing.
func (f *Accounts) quota(q *model.Quota) drf.Amount {
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

func (f *Accounts) terms(t model.Terms) drf.Terms {
	return drf.Terms{Weight: int64(t.Weight), Deserved: f.quota(t.Deserved), Limit: f.quota(t.Limit)}
}

// addAccounts adds what is configured, parents first.
func (f *Accounts) addAccounts() {
	accounts := f.View.Config().Accounts
	var add func(name string) *drf.Node
	add = func(name string) *drf.Node {
		if n := f.Tree.Account(name); n != nil {
			return n
		}
		a, known := accounts[name]
		if !known {
			return nil
		}
		var parent *drf.Node
		if a.Parent != "" {
			parent = add(a.Parent)
		}
		n := f.Tree.AddAccount(name, parent, f.terms(a.Terms))
		for user, terms := range a.Users {
			f.leaves[model.Association{Account: name, User: user}] = f.Tree.AddUser(n, user, f.terms(terms))
		}
		return n
	}
	for name := range accounts {
		add(name)
	}
}

// Leaf returns the leaf of a user in an account. Accounts of which nothing is configured are at the
// top.
func (f *Accounts) Leaf(of model.Association) *drf.Node {
	if n := f.leaves[of]; n != nil {
		return n
	}
	n := f.Tree.AddUser(f.Account(of.Account), of.User, drf.Terms{})
	f.leaves[of] = n
	return n
}

// Account returns an account of the tree. Accounts that are not configured are at the top.
func (f *Accounts) Account(name string) *drf.Node {
	if n := f.Tree.Account(name); n != nil {
		return n
	}
	return f.Tree.AddAccount(name, nil, drf.Terms{})
}

// HeldBy returns what the workers of an attempt hold that have not ended.
func (f *Accounts) HeldBy(j *model.Job, a *model.Attempt) drf.Amount {
	held := f.View.HeldBy(j, a)
	return f.amounts(&held)
}

// amounts returns the amount that the state knows as amounts.
func (f *Accounts) amounts(all *model.Amounts) drf.Amount {
	a := f.Amount(all.Cores, all.Memory, all.GPUs)
	copy(a[drf.Models:], all.Models)
	return a
}

// InMiB returns bytes in whole MiB, the unit of memory in amounts.
func InMiB(bytes int64) int64 { return model.InMiB(bytes) }

// Asks returns what one attempt of a waiting job would hold. Of which model its GPUs would be is
// not known, so that they count for each.
func (f *Accounts) Asks(j *model.Job) drf.Amount {
	v := j.Total()
	a := f.Amount(v.Cores, InMiB(int64(v.Memory)), v.GPUs)
	for i := range f.Models {
		a[drf.Models+i] = v.GPUs
	}
	return a
}

// before reports whether the turn of one job comes before that of another.
func (f *Accounts) before(a *queue.Contender, x *drf.Node, b *queue.Contender, y *drf.Node) bool {
	if by := cmp.Or(cmp.Compare(queue.ClassRank(a.Job.Class), queue.ClassRank(b.Job.Class)),
		queue.FirstRank(a.Job)-queue.FirstRank(b.Job)); by != 0 {
		return by < 0
	}
	m, n := drf.Part(x, y)
	if m == nil {
		return queue.Compare(a.Job, b.Job) < 0
	}
	return drf.Compare(m, f.Asks(a.Job), n, f.Asks(b.Job)) < 0
}

// line forms the queues. A job that a limit keeps from starting is in no queue: it blocks no job,
// and no room is kept for it. Without a front scan all groups are looked at: the queues are the
// same.
func (f *Accounts) line(q *queue.FrontScan) {
	for _, r := range f.View.Reservations() {
		if j := f.View.Job(r.Job); f.Holders[r.Job] != nil && f.Startable(j) {
			f.open.push(f.Leaf(j.Association()), &queue.Contender{Job: j})
		}
	}
	var c queue.Contender // see line.form
	for at, front := range f.View.QueueHeads() {
		if front.Held || q.Does(at, front) {
			continue
		}
		c = queue.Contender{Group: f.View.QueueGroupAt(at)}
		if !c.Advance(f.Order) {
			continue
		}
		if leaf := f.Leaf(c.Job.Association()); !f.Limited(leaf, c.Job) && f.screen(leaf, &c) {
			open := c
			f.open.push(leaf, &open)
		}
	}
	for leaf, first := range f.first {
		f.heads.put(leaf, &queue.Contender{Job: f.View.Job(first.Job)})
	}
}

// frontScan finds the first job of each leaf, if seen is not nil the first blocked one. A job that
// a limit keeps from starting is not blocked.
func (f *Accounts) frontScan(seen *queue.Frontier, first queue.Firsts[*drf.Node]) *queue.FrontScan {
	return queue.NewFrontScan(f.Order, seen, func(g *groups.Group) *queue.Key {
		leaf := f.Leaf(g.Key.Association())
		if (seen != nil || f.QuotaOnly) && leaf.Bounded() {
			return nil
		}
		return first.Of(leaf)
	})
}

// LimitOf says whose limit keeps a job from starting, nothing if none does.
func (f *Accounts) LimitOf(j *model.Job) model.Reason {
	v := j.Total()
	at, r := f.Leaf(j.Association()).Limited(f.Amount(v.Cores, InMiB(int64(v.Memory)), v.GPUs))
	if at == nil {
		return model.Reason{}
	}
	of := "account " + at.Name
	if at.User {
		of = "user " + at.Name + " in account " + at.Parent().Name
	}
	return model.Reason{Code: model.ReasonLimit, Want: j.Workers, Need: j.Request.Active,
		Text: fmt.Sprintf("%s may hold %s at once and holds %s",
			of, f.told(r, at.Terms().Limit[r]), f.told(r, at.Held()[r]))}
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

// Limited reports whether a limit keeps a job from starting wherever it is put.
func (f *Accounts) Limited(leaf *drf.Node, j *model.Job) bool {
	v := j.Total()
	at, _ := leaf.Limited(f.Amount(v.Cores, InMiB(int64(v.Memory)), v.GPUs))
	return at != nil
}

// screen reports whether a group's first job fits, as line.screen does.
func (f *Accounts) screen(leaf *drf.Node, c *queue.Contender) bool {
	for f.seen.Fails(f.State, c) {
		f.first.Of(leaf).Keep(queue.KeyOf(c.Job))
		if len(c.Job.Exclude) == 0 || !c.Advance(f.Order) {
			return false
		}
	}
	return true
}

// block notes a job that was found not to fit after all. If it is the first of its leaf, it becomes
// its head.
func (f *Accounts) block(leaf *drf.Node, c *queue.Contender) {
	if f.first.Of(leaf).Keep(queue.KeyOf(c.Job)) {
		f.heads.put(leaf, &queue.Contender{Job: c.Job, Members: c.Members})
	}
}

// place starts what fits, in the order of shares, and sees to it that no head is passed without
// bound.
func (f *Accounts) place() {
	f.line(f.frontScan(&f.seen, f.first))
	b := reserve.NewBypass(&reserve.HeadRules{
		Order:  f.Order,
		Within: func(j *model.Job) bool { return f.Entitled(f.Leaf(j.Association()), f.Asks(j)) },
		Start:  func(c *queue.Contender, spots []fit.Spot, past model.JobID) { c.Start(f.State, spots, past) },
	})
	for !f.Freed {
		c, leaf := f.open.best()
		if h, of := f.heads.best(); h != nil && (c == nil || f.before(h, of, c, leaf)) {
			f.heads.pop(of)
			f.consider(b, h, of)
			continue
		}
		if c == nil {
			return
		}
		f.serve(b, c, leaf)
	}
}

// consider protects a head that comes next.
func (f *Accounts) consider(b *reserve.Bypass, h *queue.Contender, leaf *drf.Node) {
	if f.Limited(leaf, h.Job) {
		return
	}
	b.Consider(h)
	f.CatchUp()
}

// serve starts the best open job if it fits and no limit is in the way, and moves on to the next of
// its group.
func (f *Accounts) serve(b *reserve.Bypass, c *queue.Contender, leaf *drf.Node) {
	if f.Limited(leaf, c.Job) {
		f.open.pop(leaf)
		return
	}
	spots, ok := f.Room.Place(c.Gang(f.State))
	if !ok {
		f.fail(c, leaf)
		return
	}
	if at, _ := leaf.Limited(f.At(c.Job, spots)); at != nil {
		f.open.pop(leaf) // of the model of GPUs there
		return
	}
	c.Start(f.State, spots, b.Past())
	b.Passed()
	f.CatchUp()
	if c.Advance(f.Order) {
		f.open.fix(leaf)
	} else {
		f.open.pop(leaf)
	}
}

// At returns what a job holds at the places that were found for it.
func (f *Accounts) At(j *model.Job, spots []fit.Spot) drf.Amount {
	v := j.Total()
	a := f.Amount(v.Cores, InMiB(int64(v.Memory)), 0)
	for i, s := range spots {
		for _, g := range s.GPUs {
			f.addGPU(a, f.View.Nodes()[s.Node], g, min(1000, j.RequestOf(i).Active.GPUs))
		}
	}
	return a
}

// fail takes a job out that was found not to fit, and with it all that ask for no less.
func (f *Accounts) fail(c *queue.Contender, leaf *drf.Node) {
	if len(c.Job.Exclude) > 0 || c.Group == nil {
		f.block(leaf, c)
		if c.Group != nil && c.Advance(f.Order) {
			f.open.fix(leaf)
			return
		}
		f.open.pop(leaf)
		return
	}
	f.seen.Fail(c.Gang(f.State))
	f.open.drop(func(leaf *drf.Node, o *queue.Contender) bool {
		failed := o.Group != nil && f.seen.FailedSince(f.State, o)
		if failed {
			f.block(leaf, o)
		}
		return failed
	})
}
