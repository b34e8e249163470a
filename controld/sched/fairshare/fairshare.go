package fairshare

import (
	"cmp"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/drf"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/policy"
	"github.com/rota-hpc/rota/controld/sched/queue"
	"github.com/rota-hpc/rota/controld/sched/reserve"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// New returns policy fairshare for one cycle. It serves trial-and-error jobs before best-effort
// jobs. Within a class, the account comes first that would be least saturated with its next job.
// Within the account the same holds for users. The jobs of a user are served by priority and age.
// Accounts and users below their entitlement get room back from those that hold more than their
// share: see reclaim.go.
func New(t *scratch.State) policy.Phases {
	return newPolicy(NewAccounts(&queue.Order{State: t}))
}

// fairsharePolicy is policy fairshare in one cycle.
type fairsharePolicy struct {
	policy.Idle
	state    *scratch.State
	accounts *Accounts
	open     *leafQueue                  // jobs that fit, so far as known
	heads    *leafQueue                  // the first blocked job of each leaf
	first    queue.Firsts[*drf.TreeNode] // the same, by their sort keys
	seen     queue.Frontier
}

func newPolicy(f *Accounts) *fairsharePolicy {
	return &fairsharePolicy{state: f.state, accounts: f, open: newLeafQueue(f), heads: newLeafQueue(f),
		first: queue.Firsts[*drf.TreeNode]{}}
}

// Answers is what the policy tells users.
func (f *fairsharePolicy) Answers() *policy.Answers {
	return &policy.Answers{Limit: f.accounts.LimitOf, Compare: f.compare, Causes: []model.Cause{model.CauseReclaim}}
}

// Preempt reclaims room for accounts and users below their entitlement.
func (f *fairsharePolicy) Preempt() { f.accounts.Reclaim() }

// Serve starts what fits, in the order of shares, and sees to it that no head is passed without
// bound.
func (f *fairsharePolicy) Serve() {
	f.line(f.accounts.frontScan(&f.seen, f.first))
	b := reserve.NewBypass(&reserve.HeadRules{
		Order: f.accounts.order,
		Within: func(j *model.Job) bool {
			return f.accounts.Entitled(f.accounts.Leaf(j.Association()), f.accounts.Asks(j))
		},
		Start: func(c *queue.Contender, spots []fit.Spot, past model.JobID) bool {
			return c.Start(f.state, spots, past)
		},
	})
	for !f.state.EndsEarly() {
		c, leaf := f.open.best()
		if h, of := f.heads.best(); h != nil && (c == nil || f.before(h, of, c, leaf)) {
			f.heads.pop(of)
			f.consider(b, h, of)
			continue
		}
		if c == nil {
			return
		}
		f.startBest(b, c, leaf)
	}
}

// consider protects a head that comes next.
func (f *fairsharePolicy) consider(b *reserve.Bypass, h *queue.Contender, leaf *drf.TreeNode) {
	if f.accounts.Limited(leaf, h.Job) {
		return
	}
	b.Consider(h)
	f.accounts.CatchUp()
}

// startBest starts the best open job if it fits and no limit is in the way, and moves on to the next of
// its group.
func (f *fairsharePolicy) startBest(b *reserve.Bypass, c *queue.Contender, leaf *drf.TreeNode) {
	if f.accounts.Limited(leaf, c.Job) {
		f.open.pop(leaf)
		return
	}
	spots, ok := f.state.Room.Place(c.Gang(f.state))
	if !ok {
		f.fail(c, leaf)
		return
	}
	if at, _ := leaf.Limited(f.accounts.At(c.Job, spots)); at != nil {
		f.open.pop(leaf) // a limit of the GPU model there
		return
	}
	next := false
	if c.Start(f.state, spots, b.Past()) {
		b.Passed()
		f.accounts.CatchUp()
		next = c.Advance(f.accounts.order)
	} else {
		next = c.Skip(f.accounts.order)
	}
	if next {
		f.open.fix(leaf)
	} else {
		f.open.pop(leaf)
	}
}

// line forms the queues. A job over a limit is in no queue: it blocks no job, and no room is kept
// for it. Without a front scan it looks at all groups and gets the same queues.
func (f *fairsharePolicy) line(q *queue.FrontScan) {
	for _, r := range f.state.View.Reservations() {
		if j := f.state.View.Job(r.Job); f.state.Holders[r.Job] != nil && f.accounts.order.Startable(j) {
			f.open.push(f.accounts.Leaf(j.Association()), &queue.Contender{Job: j})
		}
	}
	var c queue.Contender // see line.form
	for g := range q.Groups() {
		c = queue.Contender{Group: g}
		if !c.Advance(f.accounts.order) {
			continue
		}
		if leaf := f.accounts.Leaf(c.Job.Association()); !f.accounts.Limited(leaf, c.Job) && f.screen(leaf, &c) {
			open := c
			f.open.push(leaf, &open)
		}
	}
	for leaf, first := range f.first {
		f.heads.put(leaf, &queue.Contender{Job: f.state.View.Job(first.Job)})
	}
}

// screen reports whether a group's first job fits, as line.screen does.
func (f *fairsharePolicy) screen(leaf *drf.TreeNode, c *queue.Contender) bool {
	for f.seen.Fails(f.state, c) {
		f.first.Of(leaf).Keep(queue.KeyOf(c.Job))
		if len(c.Job.Exclude) == 0 || !c.Advance(f.accounts.order) {
			return false
		}
	}
	return true
}

// before reports whether the turn of one job comes before that of another.
func (f *fairsharePolicy) before(a *queue.Contender, x *drf.TreeNode, b *queue.Contender, y *drf.TreeNode) bool {
	if by := cmp.Or(cmp.Compare(queue.ClassRank(a.Job.Class), queue.ClassRank(b.Job.Class)),
		queue.FirstRank(a.Job)-queue.FirstRank(b.Job)); by != 0 {
		return by < 0
	}
	m, n := drf.Part(x, y)
	if m == nil {
		return queue.Compare(a.Job, b.Job) < 0
	}
	return drf.Compare(m, f.accounts.Asks(a.Job), n, f.accounts.Asks(b.Job)) < 0
}

// compare is before for any two jobs.
func (f *fairsharePolicy) compare(a, b *model.Job) int {
	x, y := &queue.Contender{Job: a}, &queue.Contender{Job: b}
	m, n := f.accounts.Leaf(a.Association()), f.accounts.Leaf(b.Association())
	switch {
	case f.before(x, m, y, n):
		return -1
	case f.before(y, n, x, m):
		return 1
	}
	return 0
}

// block notes a job that was found not to fit after all. If it is the first of its leaf, it becomes
// its head.
func (f *fairsharePolicy) block(leaf *drf.TreeNode, c *queue.Contender) {
	if f.first.Of(leaf).Keep(queue.KeyOf(c.Job)) {
		f.heads.put(leaf, &queue.Contender{Job: c.Job, Members: c.Members})
	}
}

// fail removes a job that does not fit, and all jobs that ask for at least as much.
func (f *fairsharePolicy) fail(c *queue.Contender, leaf *drf.TreeNode) {
	if len(c.Job.Exclude) > 0 || c.Group == nil {
		f.block(leaf, c)
		if c.Group != nil && c.Advance(f.accounts.order) {
			f.open.fix(leaf)
			return
		}
		f.open.pop(leaf)
		return
	}
	f.seen.Fail(c.Gang(f.state))
	f.open.drop(func(leaf *drf.TreeNode, o *queue.Contender) bool {
		failed := o.Group != nil && f.seen.FailedSince(f.state, o)
		if failed {
			f.block(leaf, o)
		}
		return failed
	})
}
