package sched

import (
	"cmp"
	"container/heap"
	"fmt"
	"maps"
	"slices"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
	shares "github.com/rota-hpc/rota/controld/sched/share"
)

// fairshare serves trial-and-error jobs before best-effort ones, and within a class the account that would be least saturated with its next
// job, in it the user for whom that is so, and the jobs of a user by priority and age. Who is below what he deserves gets room back from
// those who have more than their share: see reclaim.go.
func fairshare(t *trial) {
	f := newFair(t)
	f.place()
	f.reclaim()
}

// fair is a cycle's view of accounts and users.
type fair struct {
	*trial
	tree   *shares.Tree
	models []string // told apart, in the order of their amounts
	leaves map[cluster.Leaf]*shares.Node
	open   queue // jobs that fit as far as is known
	heads  queue // the first blocked job of each leaf
	first  map[*shares.Node]*contender
	seen   frontier
}

// newFair makes the tree from the configuration and the state, and settles it.
func newFair(t *trial) *fair {
	f := &fair{trial: t, leaves: map[cluster.Leaf]*shares.Node{}, first: map[*shares.Node]*contender{}}
	f.open, f.heads = queue{f: f, of: map[*shares.Node]*contenders{}}, queue{f: f, of: map[*shares.Node]*contenders{}}
	f.models = modelsOf(t.view.Config())
	f.tree = shares.New(f.capacities())
	f.addAccounts()
	d := cluster.NewDecay(t.now, t.policy.HalfLifeMS)
	for u := range t.view.Usages() {
		cores, memory, gpus := d.Of(u)
		if u.User == "" && cores+memory+gpus == 0 {
			f.account(u.Account).Attend(d.Active(u))
			continue
		}
		leaf := f.leaf(u.Leaf)
		leaf.Use(f.amount(cores, memory, gpus))
		leaf.Attend(d.Active(u))
	}
	for j := range t.view.Live() {
		f.holdLive(j, d)
	}
	for g := range t.view.Groups() {
		if !g.Key.Held {
			f.want(g)
		}
	}
	f.tree.Settle(int64(t.policy.UsageInfluence))
	t.limits = f.limitOf
	return f
}

// modelsOf lists the models of which a configuration says something.
func modelsOf(cfg *cluster.Config) []string {
	named := map[string]bool{}
	note := func(terms cluster.Terms) {
		for _, q := range []*cluster.Quota{terms.Deserved, terms.Limit} {
			if q != nil {
				for m := range q.Models {
					named[m] = true
				}
			}
		}
	}
	for _, a := range cfg.Accounts {
		note(a.Terms)
		for _, u := range a.Users {
			note(u)
		}
	}
	return slices.Sorted(maps.Keys(named))
}

// capacities returns the cluster as it should be and what of it is up.
func (f *fair) capacities() (configured, live shares.Amount) {
	configured, live = f.amount(0, 0, 0), f.amount(0, 0, 0)
	for _, n := range f.view.Nodes() {
		all, healthy := f.amount(n.Cores, int64(n.Memory)/mib, 0), f.amount(n.Cores, int64(n.Memory)/mib, 0)
		for i := range n.GPUs {
			f.addGPU(all, n, i)
			if n.GPUs[i].Healthy {
				f.addGPU(healthy, n, i)
			}
		}
		configured = configured.Plus(all)
		if n.State == cluster.NodeUp {
			live = live.Plus(healthy)
		}
	}
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

// addGPU adds one GPU of a node.
func (f *fair) addGPU(a shares.Amount, n *cluster.Node, gpu int) {
	a[shares.GPUs] += 1000
	if i, ok := slices.BinarySearch(f.models, n.GPUs[gpu].Model); ok {
		a[shares.Models+i] += 1000
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

// holdLive notes what a live job holds and has used since its attempt began.
func (f *fair) holdLive(j *cluster.Job, d *cluster.Decay) {
	n, a := f.leaf(j.Leaf()), j.Live()
	held := f.heldBy(j, a)
	n.Hold(held)
	seconds := d.Since(a.Assigned.At) / 1000
	used := f.amount(0, 0, 0)
	for r := range shares.Models {
		used[r] = held[r] * seconds
	}
	n.Use(used)
}

// heldBy returns what the workers of an attempt hold that have not ended.
func (f *fair) heldBy(j *cluster.Job, a *cluster.Attempt) shares.Amount {
	held := f.amount(0, 0, 0)
	for i := range a.Workers {
		w := &a.Workers[i]
		if w.State.Final() {
			continue
		}
		v := j.Charged(a, i)
		held[shares.Cores] += v.Cores
		held[shares.Memory] += inMiB(int64(v.Memory))
		n, _ := f.view.Node(w.Node)
		if v.GPUs == int64(len(w.GPUs))*1000 && n != nil {
			for _, g := range w.GPUs {
				f.addGPU(held, n, g)
			}
			continue
		}
		held[shares.GPUs] += v.GPUs // of a node that it has for itself
	}
	return held
}

func inMiB(bytes int64) int64 { return (bytes + mib - 1) / mib }

// asks returns what one attempt of a waiting job would hold. Of which model its GPUs would be is not known, so that they count for each.
func (f *fair) asks(j *cluster.Job) shares.Amount {
	v := j.Total()
	a := f.amount(v.Cores, inMiB(int64(v.Memory)), v.GPUs)
	for i := range f.models {
		a[shares.Models+i] = v.GPUs
	}
	return a
}

// want notes what the jobs of a group ask for. When it is more than there is, it does not matter how much.
func (f *fair) want(g *cluster.Group) {
	leaf := f.leaf(cluster.Leaf{Account: g.Key.Account, User: g.Key.User})
	one := f.asks(g.Jobs[0])
	sum := f.amount(0, 0, 0)
	for _, j := range g.Jobs {
		times := 1
		if j.Family != nil {
			times = j.Startable()
		}
		for range times {
			if f.tree.Exceeds(sum, one) {
				leaf.Want(sum)
				return
			}
			sum = sum.Plus(one)
		}
	}
	leaf.Want(sum)
}

// queue is waiting jobs by leaf, for each a heap in the order of compare.
type queue struct {
	f  *fair
	of map[*shares.Node]*contenders
}

func (q *queue) push(leaf *shares.Node, c *contender) {
	if q.of[leaf] == nil {
		q.of[leaf] = &contenders{}
	}
	heap.Push(q.of[leaf], c)
}

// best returns the job whose turn it is, nil if there is none.
func (q *queue) best() (*contender, *shares.Node) {
	class := 2
	for _, line := range q.of {
		if len(*line) > 0 {
			class = min(class, classRank((*line)[0].job.Class))
		}
	}
	return q.bestBelow(q.f.tree.Root(), class)
}

func (q *queue) bestBelow(n *shares.Node, class int) (*contender, *shares.Node) {
	if line := q.of[n]; n.User {
		if line == nil || len(*line) == 0 || classRank((*line)[0].job.Class) != class {
			return nil, nil
		}
		return (*line)[0], n
	}
	var best *contender
	var leaf, at *shares.Node
	var more shares.Amount
	for _, child := range n.Children() {
		c, l := q.bestBelow(child, class)
		if c == nil {
			continue
		}
		asks := q.f.asks(c.job)
		if best == nil || shares.Compare(child, asks, at, more) < 0 {
			best, leaf, at, more = c, l, child, asks
		}
	}
	return best, leaf
}

// before reports whether the turn of one job comes before that of another.
func (f *fair) before(a *contender, x *shares.Node, b *contender, y *shares.Node) bool {
	if by := cmp.Compare(classRank(a.job.Class), classRank(b.job.Class)); by != 0 {
		return by < 0
	}
	m, n := shares.Part(x, y)
	if m == nil {
		return compare(a.job, b.job) < 0
	}
	return shares.Compare(m, f.asks(a.job), n, f.asks(b.job)) < 0
}

// line forms the queues. A job that its account's or user's limit keeps from starting stands in none: it blocks nobody, and no room is kept
// for it.
func (f *fair) line() {
	for _, r := range f.view.Reservations() {
		if j := f.view.Job(r.Job); f.holders[r.Job] != nil && f.startable(j) {
			f.open.push(f.leaf(j.Leaf()), &contender{job: j})
		}
	}
	for g := range f.view.Groups() {
		c := &contender{group: g}
		if g.Key.Held || !c.advance(f.trial) {
			continue
		}
		leaf := f.leaf(c.job.Leaf())
		if f.limited(leaf, c.job) {
			continue
		}
		if f.screen(leaf, c) {
			f.open.push(leaf, c)
		}
	}
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
		f.block(leaf, c)
		if len(c.job.Exclude) == 0 || !c.advance(f.trial) {
			return false
		}
	}
	return true
}

// block notes a job that does not fit. Only the first of its leaf becomes a head.
func (f *fair) block(leaf *shares.Node, c *contender) {
	first := f.first[leaf]
	if first != nil && compare(first.job, c.job) <= 0 {
		return
	}
	head := &contender{job: c.job, turns: c.turns}
	f.first[leaf] = head
	f.heads.push(leaf, head)
}

// place starts what fits, in the order of shares, and sees to it that no head is passed without bound.
func (f *fair) place() {
	f.line()
	b := bypass{reserved: map[string]bool{}}
	b.recall(f.trial)
	for !f.freed {
		c, leaf := f.open.best()
		if h, of := f.heads.best(); h != nil && (c == nil || f.before(h, of, c, leaf)) {
			heap.Pop(f.heads.of[of])
			f.consider(&b, h, of)
			continue
		}
		if c == nil {
			return
		}
		f.serve(&b, c, leaf)
	}
}

// consider protects a head whose turn it is, if it is still the first of its leaf.
func (f *fair) consider(b *bypass, h *contender, leaf *shares.Node) {
	if f.first[leaf] != h || f.limited(leaf, h.job) {
		return
	}
	before := len(f.actions)
	b.consider(f.trial, h)
	f.count(f.actions[before:])
}

// serve starts the best open job if it fits and no limit is in the way, and moves on to the next of its group.
func (f *fair) serve(b *bypass, c *contender, leaf *shares.Node) {
	line := f.open.of[leaf]
	if f.limited(leaf, c.job) {
		heap.Pop(line)
		return
	}
	spots, ok := f.room.Place(c.asks(f.trial))
	if !ok {
		f.fail(c, leaf)
		return
	}
	if at, _ := leaf.Limited(f.at(c.job, spots)); at != nil {
		heap.Pop(line) // of the model of GPUs there
		return
	}
	before := len(f.actions)
	f.start(c, spots, b.past())
	b.passed(f.trial)
	f.count(f.actions[before:])
	if c.advance(f.trial) {
		heap.Fix(line, 0)
	} else {
		heap.Pop(line)
	}
}

// at returns what a job holds at the places that were found for it.
func (f *fair) at(j *cluster.Job, spots []fit.Spot) shares.Amount {
	v := j.Total()
	a := f.amount(v.Cores, inMiB(int64(v.Memory)), 0)
	for _, s := range spots {
		for _, g := range s.GPUs {
			f.addGPU(a, f.view.Nodes()[s.Node], g)
		}
	}
	return a
}

// count notes what has been started.
func (f *fair) count(actions []cluster.Action) {
	for _, a := range actions {
		if a.Start == nil {
			continue
		}
		j := f.view.Job(a.Start.Job)
		var spots []fit.Spot
		for _, p := range a.Start.Places {
			_, n := f.view.Node(p.Node)
			spots = append(spots, fit.Spot{Node: n, GPUs: p.GPUs})
		}
		f.leaf(j.Leaf()).Hold(f.at(j, spots))
	}
}

// fail takes a job out that was found not to fit, and with it all that ask for no less.
func (f *fair) fail(c *contender, leaf *shares.Node) {
	line := f.open.of[leaf]
	if len(c.job.Exclude) > 0 || c.group == nil {
		f.block(leaf, c)
		if c.group != nil && c.advance(f.trial) {
			heap.Fix(line, 0)
			return
		}
		heap.Pop(line)
		return
	}
	f.seen.add(c.asks(f.trial))
	for leaf, line := range f.open.of {
		kept := (*line)[:0]
		for _, o := range *line {
			if o.group != nil && f.seen.covers(o.asks(f.trial)) {
				f.block(leaf, o)
				continue
			}
			kept = append(kept, o)
		}
		clear((*line)[len(kept):])
		*line = kept
		heap.Init(line)
	}
}
