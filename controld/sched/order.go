package sched

import (
	"cmp"
	"container/heap"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/jobspec"
)

// compare is the order in which jobs are served: where service counts, who has had little of it goes before age. Without a trial it does not.
func (t *trial) compare(a, b *cluster.Job) int {
	if t.ranks(a, b) {
		if c := cmp.Compare(t.levelOf(a), t.levelOf(b)); c != 0 {
			return c
		}
	}
	return compare(a, b)
}

// ranks reports whether service decides between two jobs before age does.
func (t *trial) ranks(a, b *cluster.Job) bool {
	return t != nil && t.byService && a.Class == b.Class && a.First == b.First && a.Priority == b.Priority
}

// compare is the order of class, priority and age; who has left his room to a job that did not want it any more comes first of his class. It
// is total: the id, which grows with age, comes last.
func compare(a, b *cluster.Job) int {
	return cmp.Or(
		cmp.Compare(classRank(a.Class), classRank(b.Class)),
		firstRank(a)-firstRank(b),
		cmp.Compare(b.Priority, a.Priority),
		cmp.Compare(a.ID, b.ID))
}

func firstRank(j *cluster.Job) int {
	if j.First {
		return 0
	}
	return 1
}

func classRank(c jobspec.Class) int {
	if c == jobspec.TE {
		return 0
	}
	return 1
}

// contender is what stands in line: the first job of a group that may start, with the rest of its group behind it. A job
// that holds a reservation stands alone, because it sees more room than its like.
type contender struct {
	trial   *trial
	job     *cluster.Job
	gang    fit.Gang       // see asks; of nobody until it is asked for
	group   *cluster.Group // nil for a job alone
	next    int            // index in group.Jobs of the first one behind job
	members *cluster.Turns // in the order in which they start, of a record, once one of its members has started

	head     bool          // it does not fit, and is only to be protected
	excess   excess        // see trial.excess
	excessOf cluster.JobID // of which job that is known
	level    int           // see trial.levelOf
	levelOf  cluster.JobID // of which job that is known
}

// member returns the member of a record that starts next, 0 for a job that is none.
func (c *contender) member() int {
	if c.job.Family == nil {
		return 0
	}
	if c.members == nil {
		c.members = c.job.Turns()
	}
	return c.members.Next()
}

// line is all waiting jobs, best first: the open ones, whose request fits as far as is known, and the heads, which are
// blocked jobs whose turn comes only to be protected from being passed for ever.
type line struct {
	open  contenders
	heads contenders
	first firsts[string] // the first blocked job of each account
	seen  frontier
}

// order forms the line. Every group is looked at once; every distinct request is searched for once at most, and not at all if it
// asks for at least as much as one that has failed.
func order(t *trial) *line {
	l := newLine()
	l.form(t, l.glance(t))
	return l
}

func newLine() *line { return &line{first: firsts[string]{}} }

// glance finds the first blocked job of each account.
func (l *line) glance(t *trial) *glance {
	return newGlance(t, &l.seen, func(g *cluster.Group) *rank {
		if t.byService && t.limited() && t.accounts().leaf(g.Key.Leaf()).Bounded() {
			return nil
		}
		return l.first.of(g.Key.Account)
	})
}

// form lines everybody up. Without a glance all groups are looked at: the line is the same.
func (l *line) form(t *trial, q *glance) {
	for _, r := range t.view.Reservations() {
		if t.holders[r.Job] != nil {
			l.standAlone(t, t.view.Job(r.Job))
		}
	}
	var c contender // one for all groups: most are blocked, and thousands of short-lived ones would keep the collector busy
	for at, front := range t.view.Fronts() {
		if front.Held || q.does(at, front) {
			continue
		}
		g := t.view.GroupAt(at)
		if t.byService && g.Key.Level > 0 {
			l.promote(t, g)
		}
		c = contender{trial: t, group: g}
		if c.advance(t) && l.screen(t, &c) {
			open := c
			l.open = append(l.open, &open)
		}
	}
	for _, first := range l.first {
		l.heads = append(l.heads, &contender{trial: t, job: t.view.Job(first.job), head: true})
	}
	heap.Init(&l.open)
	heap.Init(&l.heads)
}

// standAlone lines up the holder of a reservation. It is never screened: its own claim makes the difference.
func (l *line) standAlone(t *trial, j *cluster.Job) {
	if t.startable(j) {
		l.open = append(l.open, &contender{trial: t, job: j})
	}
}

// promote lines up apart the jobs of a group that have waited so long that they come before the others.
func (l *line) promote(t *trial, g *cluster.Group) {
	for _, j := range g.Jobs {
		if t.holders[j.ID] == nil && t.promoted(j) {
			if t.alone == nil {
				t.alone = map[cluster.JobID]bool{}
			}
			t.alone[j.ID] = true
			l.standAlone(t, j)
		}
	}
}

// screen reports whether a group's first job fits. One that avoids nodes speaks for itself alone: behind it the next is asked.
func (l *line) screen(t *trial, c *contender) bool {
	for l.seen.fails(t, c) {
		l.note(c)
		if len(c.job.Exclude) == 0 || !c.advance(t) {
			return false
		}
	}
	return true
}

// advance moves on to the group's next job that may start and reports whether there is one. A record stays until all of its members have
// started that may.
func (c *contender) advance(t *trial) bool {
	if c.members != nil && c.members.Left() > 0 {
		return true
	}
	if c.group == nil {
		return false
	}
	for c.next < len(c.group.Jobs) {
		j := c.group.Jobs[c.next]
		c.next++
		if t.holders[j.ID] == nil && !t.alone[j.ID] && t.startable(j) {
			c.job, c.members = j, nil
			return true
		}
	}
	return false
}

// asks returns what the job asks of a placement. All of a group ask for the same, but for the nodes that they avoid.
func (c *contender) asks(t *trial) *fit.Gang {
	switch c.gang.For {
	case c.job.ID:
	case 0:
		c.gang = t.gang(c.job)
	default:
		c.gang = c.gang.Of(t.view, c.job)
	}
	return &c.gang
}

// note notes a job that does not fit, and reports whether it is the first of its account by now. One that leaves room to new jobs stands in nobody's
// way: another of its account is protected.
func (l *line) note(c *contender) bool {
	if c.trial.holdsBack(c.job) {
		return false
	}
	return l.first.of(c.job.Account).keep(c.trial.rankOf(c.job))
}

// fail takes the best open contender, which has just been found not to fit, out of the line, and with it all that ask for no
// less. Doing this at once keeps the heap free of groups that would be tried in vain one by one. A job that avoids nodes fails
// for itself alone, so the next of its group takes its place.
func (l *line) fail(t *trial) {
	c := l.open[0]
	if len(c.job.Exclude) > 0 || c.group == nil {
		l.drop(c)
		if c.advance(t) {
			heap.Fix(&l.open, 0)
			return
		}
		heap.Pop(&l.open)
		return
	}
	l.seen.fail(c.asks(t))
	kept := l.open[:0]
	for _, o := range l.open {
		if o.group != nil && l.seen.failedSince(t, o) {
			l.drop(o)
			continue
		}
		kept = append(kept, o)
	}
	clear(l.open[len(kept):])
	l.open = kept
	heap.Init(&l.open)
}

// lead returns the best open contender. What has been started meanwhile may have put others before it.
func (l *line) lead(t *trial) *contender {
	for c := l.open[0]; len(l.open) > 1 && c.excessOf == c.job.ID; c = l.open[0] {
		now := t.excess(c.job)
		if now == c.excess {
			break
		}
		c.excess = now
		heap.Fix(&l.open, 0)
	}
	return l.open[0]
}

// before reports whether a contender's turn comes before that of another. Among best-effort jobs an account that holds what it is entitled to comes
// last. A user of it does so only among jobs that have had about as much service: who has just come may have the room of others' jobs that have had
// much, and so must not find them before himself where room is free.
func (c *contender) before(o *contender) bool {
	t := c.trial
	if t == nil || !t.byService || c.head || c.job.Class == jobspec.TE || o.job.Class == jobspec.TE {
		return c.compare(o) < 0
	}
	mine, theirs := c.excessNow(), o.excessNow()
	if by := cmp.Compare(mine.accounts, theirs.accounts); by != 0 {
		return by < 0
	}
	if mine.user != theirs.user && t.ranks(c.job, o.job) && c.levelNow() == o.levelNow() {
		return mine.user < theirs.user
	}
	return c.compare(o) < 0
}

// compare is trial.compare, but a level is worked out once.
func (c *contender) compare(o *contender) int {
	if c.trial.ranks(c.job, o.job) {
		if by := cmp.Compare(c.levelNow(), o.levelNow()); by != 0 {
			return by
		}
	}
	return compare(c.job, o.job)
}

func (c *contender) levelNow() int {
	if c.levelOf != c.job.ID {
		c.level, c.levelOf = c.trial.levelOf(c.job), c.job.ID
	}
	return c.level
}

func (c *contender) excessNow() excess {
	if c.excessOf != c.job.ID {
		c.excess, c.excessOf = c.trial.excess(c.job), c.job.ID
	}
	return c.excess
}

// next lets the group of the best open contender go on to its next job.
func (l *line) next(t *trial) {
	if l.open[0].advance(t) {
		heap.Fix(&l.open, 0)
	} else {
		heap.Pop(&l.open)
	}
}

// drop notes a job that was found not to fit after all. If it is the first of its account, it becomes a head.
func (l *line) drop(c *contender) {
	if l.note(c) {
		heap.Push(&l.heads, &contender{trial: c.trial, job: c.job, members: c.members, head: true})
	}
}

// nextHead returns the first head if it comes before the first open contender by class, priority, service and age, whatever their accounts hold, and
// takes it out.
func (l *line) nextHead() *contender {
	for len(l.heads) > 0 {
		h := l.heads[0]
		if len(l.open) > 0 && l.open[0].compare(h) < 0 {
			return nil
		}
		heap.Pop(&l.heads)
		if l.first.of(h.job.Account).job == h.job.ID { // else an earlier one of its account was blocked after it
			return h
		}
	}
	return nil
}

// contenders is a heap, best first.
type contenders []*contender

func (c contenders) Len() int           { return len(c) }
func (c contenders) Less(i, j int) bool { return c[i].before(c[j]) }
func (c contenders) Swap(i, j int)      { c[i], c[j] = c[j], c[i] }

// Push implements heap.Interface.
func (c *contenders) Push(x any) { *c = append(*c, x.(*contender)) }

// Pop implements heap.Interface.
func (c *contenders) Pop() any {
	old := *c
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*c = old[:len(old)-1]
	return last
}
