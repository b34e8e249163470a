package sched

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
	shares "github.com/rota-hpc/rota/controld/sched/share"
)

// fairshare serves trial-and-error jobs before best-effort ones, and within a class the account that would be least saturated with its next
// job, in it the user for whom that is so, and the jobs of a user by priority and age. Who is below what he deserves gets room back from
// those who have more than their share: see reclaim.go.
func fairshare(t *trial) policyRules {
	f := newFair(&jobOrder{trial: t})
	return policyRules{serve: f.place, preempt: f.reclaim, limit: f.limitOf}
}

// fair is a cycle's view of accounts and users.
type fair struct {
	*jobOrder
	quotaOnly bool // only accounts with a quota of their own reclaim, and room kept for any blocked head comes after what they are entitled to
	tree      *shares.Tree
	models    []string // told apart, in the order of their amounts
	pasts     []past   // by the mark of the node, less one
	decay     *cluster.Decay
	leaves    map[cluster.Leaf]*shares.Node
	open      *queue               // jobs that fit as far as is known
	heads     *queue               // the first blocked job of each leaf
	first     firsts[*shares.Node] // the first blocked job of each leaf
	seen      frontier
	queues    []*queue // to be told when holdings change

	counted  int                    // actions of this cycle of which the holdings know
	promised map[cluster.JobID]bool // waiting jobs that count as there, because room is kept for them
	foreseen bool                   // those who are leaving count as gone
	roster   *roster                // to be told who is asked to leave; nil: nobody need know
}

// newFair makes the tree from the configuration and the state, and settles it.
func newFair(o *jobOrder) *fair {
	f := &fair{jobOrder: o, leaves: map[cluster.Leaf]*shares.Node{}, first: firsts[*shares.Node]{}, promised: map[cluster.JobID]bool{}}
	f.models = f.view.Models()
	f.tree = shares.New(f.capacities())
	f.open, f.heads = newQueue(f), newQueue(f)
	f.addAccounts()
	for u := range f.view.Usages() {
		if u.User == "" && u.Empty() {
			f.pastOf(f.account(u.Account)).usage = u
		} else {
			f.pastOf(f.leaf(u.Leaf)).usage = u
		}
	}
	for st := range f.view.Standings() {
		leaf := f.leaf(st.Leaf)
		leaf.Hold(f.amounts(&st.Held))
		leaf.Want(f.amounts(&st.Wants))
		f.pastOf(leaf).standing = st
	}
	f.tree.Remember(f.remember)
	f.tree.Settle(int64(f.policy.UsageInfluence))
	f.tree.Watch(f.held)
	return f
}

// past is where it says what a user has used, or for how long an account was active.
type past struct {
	usage    *cluster.Usage
	standing *cluster.Standing // for what has not ended
}

// pastOf returns the past of an account or a user, to be filled in.
func (f *fair) pastOf(n *shares.Node) *past {
	if n.Mark == 0 {
		f.pasts = append(f.pasts, past{})
		n.Mark = len(f.pasts)
	}
	return &f.pasts[n.Mark-1]
}

// held has it found out anew whose turn it is where holdings have changed.
func (f *fair) held(leaf *shares.Node) {
	for _, q := range f.queues {
		q.held(leaf)
	}
}

// remember notes the past of an account or a user, which matters in few cycles and for few of them.
func (f *fair) remember(n *shares.Node) {
	if n.Mark == 0 {
		return
	}
	if f.decay == nil {
		f.decay = cluster.NewDecay(f.now, f.policy.HalfLifeMS)
	}
	p := &f.pasts[n.Mark-1]
	if p.usage != nil {
		n.Attend(f.decay.Active(p.usage))
		if n.User {
			n.Use(f.amount(f.decay.Of(p.usage)))
		}
	}
	if p.standing != nil {
		n.Use(f.amount(f.decay.Lasted(p.standing)))
	}
}

// capacities returns the cluster as it should be and what of it is up.
func (f *fair) capacities() (configured, live shares.Amount) {
	inv := f.view.Inventory()
	configured, live = f.amounts(&inv.All), f.amounts(&inv.Up)
	if q := f.view.Config().Capacity; q != nil {
		stated := f.quota(q)
		for r := range stated {
			if stated[r] != shares.Unset {
				configured[r] = stated[r]
			}
		}
	}
	return configured, live
}

// mib is the unit of memory in amounts.
const mib = 1 << 20

// amount returns an amount without a model.
func (f *fair) amount(cores, memoryMiB, gpus int64) shares.Amount {
	a := make(shares.Amount, shares.Models+len(f.models))
	a[shares.Cores], a[shares.Memory], a[shares.GPUs] = cores, memoryMiB, gpus
	return a
}

// addGPU adds some thousandths of a GPU of a node.
func (f *fair) addGPU(a shares.Amount, n *cluster.Node, gpu int, of int64) {
	a[shares.GPUs] += of
	if i, ok := slices.BinarySearch(f.models, n.GPUs[gpu].Model); ok {
		a[shares.Models+i] += of
	}
}

// quota returns what is configured as an amount, nil for nothing.
func (f *fair) quota(q *cluster.Quota) shares.Amount {
	if q == nil {
		return nil
	}
	a := f.amount(0, 0, 0)
	for r := range a {
		a[r] = shares.Unset
	}
	if q.Cores != nil {
		a[shares.Cores] = *q.Cores
	}
	if q.Memory != nil {
		a[shares.Memory] = int64(*q.Memory) / mib
	}
	if q.GPUs != nil {
		a[shares.GPUs] = *q.GPUs
	}
	for i, m := range f.models {
		if n, ok := q.Models[m]; ok {
			a[shares.Models+i] = n
		}
	}
	return a
}

func (f *fair) terms(t cluster.Terms) shares.Terms {
	return shares.Terms{Weight: int64(t.Weight), Deserved: f.quota(t.Deserved), Limit: f.quota(t.Limit)}
}

// addAccounts adds what is configured, parents first.
func (f *fair) addAccounts() {
	accounts := f.view.Config().Accounts
	var add func(name string) *shares.Node
	add = func(name string) *shares.Node {
		if n := f.tree.Account(name); n != nil {
			return n
		}
		a, known := accounts[name]
		if !known {
			return nil
		}
		var parent *shares.Node
		if a.Parent != "" {
			parent = add(a.Parent)
		}
		n := f.tree.AddAccount(name, parent, f.terms(a.Terms))
		for user, terms := range a.Users {
			f.leaves[cluster.Leaf{Account: name, User: user}] = f.tree.AddUser(n, user, f.terms(terms))
		}
		return n
	}
	for name := range accounts {
		add(name)
	}
}

// leaf returns the leaf of a user in an account. Accounts of which nothing is configured are at the top.
func (f *fair) leaf(of cluster.Leaf) *shares.Node {
	if n := f.leaves[of]; n != nil {
		return n
	}
	n := f.tree.AddUser(f.account(of.Account), of.User, shares.Terms{})
	f.leaves[of] = n
	if f.view.Config().Version < 2 {
		n.Attend(1) // nothing is known of the past
	}
	return n
}

func (f *fair) account(name string) *shares.Node {
	if n := f.tree.Account(name); n != nil {
		return n
	}
	return f.tree.AddAccount(name, nil, shares.Terms{})
}

// heldBy returns what the workers of an attempt hold that have not ended.
func (f *fair) heldBy(j *cluster.Job, a *cluster.Attempt) shares.Amount {
	held := f.view.HeldBy(j, a)
	return f.amounts(&held)
}

// amounts returns the amount that the state knows as amounts.
func (f *fair) amounts(all *cluster.Amounts) shares.Amount {
	a := f.amount(all.Cores, all.Memory, all.GPUs)
	copy(a[shares.Models:], all.Models)
	return a
}

func inMiB(bytes int64) int64 { return cluster.InMiB(bytes) }

// asks returns what one attempt of a waiting job would hold. Of which model its GPUs would be is not known, so that they count for each.
func (f *fair) asks(j *cluster.Job) shares.Amount {
	v := j.Total()
	a := f.amount(v.Cores, inMiB(int64(v.Memory)), v.GPUs)
	for i := range f.models {
		a[shares.Models+i] = v.GPUs
	}
	return a
}

// before reports whether the turn of one job comes before that of another.
func (f *fair) before(a *contender, x *shares.Node, b *contender, y *shares.Node) bool {
	if by := cmp.Or(cmp.Compare(classRank(a.job.Class), classRank(b.job.Class)), firstRank(a.job)-firstRank(b.job)); by != 0 {
		return by < 0
	}
	m, n := shares.Part(x, y)
	if m == nil {
		return compare(a.job, b.job) < 0
	}
	return shares.Compare(m, f.asks(a.job), n, f.asks(b.job)) < 0
}

// line forms the queues. A job that its account's or user's limit keeps from starting stands in none: it blocks nobody, and no room is kept
// for it. Without a glance all groups are looked at: the queues are the same.
func (f *fair) line(q *glance) {
	for _, r := range f.view.Reservations() {
		if j := f.view.Job(r.Job); f.holders[r.Job] != nil && f.startable(j) {
			f.open.push(f.leaf(j.Leaf()), &contender{job: j})
		}
	}
	var c contender // see line.form
	for at, front := range f.view.Fronts() {
		if front.Held || q.does(at, front) {
			continue
		}
		c = contender{group: f.view.GroupAt(at)}
		if !c.advance(f.jobOrder) {
			continue
		}
		if leaf := f.leaf(c.job.Leaf()); !f.limited(leaf, c.job) && f.screen(leaf, &c) {
			open := c
			f.open.push(leaf, &open)
		}
	}
	for leaf, first := range f.first {
		f.heads.put(leaf, &contender{job: f.view.Job(first.job)})
	}
}

// glance finds the first job of each leaf, if seen is not nil the first blocked one. Whom a limit keeps from starting is not blocked.
func (f *fair) glance(seen *frontier, first firsts[*shares.Node]) *glance {
	return newGlance(f.jobOrder, seen, func(g *cluster.Group) *sortKey {
		leaf := f.leaf(g.Key.Leaf())
		if (seen != nil || f.quotaOnly) && leaf.Bounded() {
			return nil
		}
		return first.of(leaf)
	})
}

// limitOf says whose limit keeps a job from starting, nothing if none does.
func (f *fair) limitOf(j *cluster.Job) cluster.Reason {
	v := j.Total()
	at, r := f.leaf(j.Leaf()).Limited(f.amount(v.Cores, inMiB(int64(v.Memory)), v.GPUs))
	if at == nil {
		return cluster.Reason{}
	}
	of := "account " + at.Name
	if at.User {
		of = "user " + at.Name + " in account " + at.Parent().Name
	}
	return cluster.Reason{Code: cluster.ReasonLimit, Want: j.Workers, Need: j.Request.Active, Text: fmt.Sprintf("%s may hold %s at once and holds %s",
		of, f.told(r, at.Terms().Limit[r]), f.told(r, at.Held()[r]))}
}

// told writes an amount of one resource.
func (f *fair) told(r int, n int64) string {
	switch r {
	case shares.Cores:
		return fmt.Sprintf("%d cores", n)
	case shares.Memory:
		return fmt.Sprintf("%d MiB", n)
	case shares.GPUs:
		return fmt.Sprintf("%g GPUs", float64(n)/1000)
	}
	return fmt.Sprintf("%g GPUs of model %s", float64(n)/1000, f.models[r-shares.Models])
}

// limited reports whether a limit keeps a job from starting wherever it is put.
func (f *fair) limited(leaf *shares.Node, j *cluster.Job) bool {
	v := j.Total()
	at, _ := leaf.Limited(f.amount(v.Cores, inMiB(int64(v.Memory)), v.GPUs))
	return at != nil
}

// screen reports whether a group's first job fits, as line.screen does.
func (f *fair) screen(leaf *shares.Node, c *contender) bool {
	for f.seen.fails(f.trial, c) {
		f.first.of(leaf).keep(keyOf(c.job))
		if len(c.job.Exclude) == 0 || !c.advance(f.jobOrder) {
			return false
		}
	}
	return true
}

// block notes a job that was found not to fit after all. If it is the first of its leaf, it becomes its head.
func (f *fair) block(leaf *shares.Node, c *contender) {
	if f.first.of(leaf).keep(keyOf(c.job)) {
		f.heads.put(leaf, &contender{job: c.job, members: c.members})
	}
}

// place starts what fits, in the order of shares, and sees to it that no head is passed without bound.
func (f *fair) place() {
	f.line(f.glance(&f.seen, f.first))
	b := newBypass(&headRules{
		jobOrder: f.jobOrder,
		within:   func(j *cluster.Job) bool { return f.entitled(f.leaf(j.Leaf()), f.asks(j)) },
		start:    func(c *contender, spots []fit.Spot, past cluster.JobID) { c.start(f.trial, spots, past) },
	})
	for !f.freed {
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

// consider protects a head whose turn it is.
func (f *fair) consider(b *bypass, h *contender, leaf *shares.Node) {
	if f.limited(leaf, h.job) {
		return
	}
	b.consider(h)
	f.catchUp()
}

// serve starts the best open job if it fits and no limit is in the way, and moves on to the next of its group.
func (f *fair) serve(b *bypass, c *contender, leaf *shares.Node) {
	if f.limited(leaf, c.job) {
		f.open.pop(leaf)
		return
	}
	spots, ok := f.room.Place(c.gang(f.trial))
	if !ok {
		f.fail(c, leaf)
		return
	}
	if at, _ := leaf.Limited(f.at(c.job, spots)); at != nil {
		f.open.pop(leaf) // of the model of GPUs there
		return
	}
	c.start(f.trial, spots, b.past())
	b.passed()
	f.catchUp()
	if c.advance(f.jobOrder) {
		f.open.fix(leaf)
	} else {
		f.open.pop(leaf)
	}
}

// at returns what a job holds at the places that were found for it.
func (f *fair) at(j *cluster.Job, spots []fit.Spot) shares.Amount {
	v := j.Total()
	a := f.amount(v.Cores, inMiB(int64(v.Memory)), 0)
	for i, s := range spots {
		for _, g := range s.GPUs {
			f.addGPU(a, f.view.Nodes()[s.Node], g, min(1000, j.RequestOf(i).Active.GPUs))
		}
	}
	return a
}

// fail takes a job out that was found not to fit, and with it all that ask for no less.
func (f *fair) fail(c *contender, leaf *shares.Node) {
	if len(c.job.Exclude) > 0 || c.group == nil {
		f.block(leaf, c)
		if c.group != nil && c.advance(f.jobOrder) {
			f.open.fix(leaf)
			return
		}
		f.open.pop(leaf)
		return
	}
	f.seen.fail(c.gang(f.trial))
	f.open.drop(func(leaf *shares.Node, o *contender) bool {
		failed := o.group != nil && f.seen.failedSince(f.trial, o)
		if failed {
			f.block(leaf, o)
		}
		return failed
	})
}
