package sched

import (
	"container/heap"
	"slices"

	"github.com/rota-hpc/rota/controld/cluster"
)

// line is all jobs that wait, best first. The open entries fit as far as is known. The heads are blocked jobs: their turn comes only to
// protect them from being passed for ever.
type line struct {
	*jobOrder
	open  contenders
	heads contenders
	first firsts[string] // the first blocked job of each account
	seen  frontier
}

// newLine forms the line. Every group is looked at once. Every distinct request is searched for at most once, and not at all if it asks for
// at least as much as one that has failed.
func newLine(o *jobOrder) *line {
	l := emptyLine(o)
	l.form(l.glance())
	return l
}

func emptyLine(o *jobOrder) *line { return &line{jobOrder: o, first: firsts[string]{}} }

// glance finds the first blocked job of each account.
func (l *line) glance() *glance {
	return newGlance(l.jobOrder, &l.seen, func(g *cluster.Group) *sortKey {
		if l.bounded != nil && l.bounded(g) {
			return nil
		}
		return l.first.of(g.Key.Account)
	})
}

// form lines up all jobs. Without a glance all groups are looked at: the line is the same.
func (l *line) form(q *glance) {
	for _, r := range l.view.Reservations() {
		if l.holders[r.Job] != nil {
			l.standAlone(l.view.Job(r.Job))
		}
	}
	var c contender // one for all groups: most are blocked, and thousands of short-lived ones would keep the collector busy
	for at, front := range l.view.Fronts() {
		if front.Held || q.does(at, front) {
			continue
		}
		g := l.view.GroupAt(at)
		if l.aged != nil && g.Key.Level > 0 {
			l.promote(g)
		}
		c = contender{order: l.jobOrder, group: g}
		if c.advance(l.jobOrder) && l.screen(&c) {
			open := c
			l.open = append(l.open, &open)
		}
	}
	for _, first := range l.first {
		l.heads = append(l.heads, &contender{order: l.jobOrder, job: l.view.Job(first.job), head: true})
	}
	heap.Init(&l.open)
	heap.Init(&l.heads)
}

// standAlone lines up the holder of a reservation. It is never screened: its own claim makes the difference.
func (l *line) standAlone(j *cluster.Job) {
	if l.startable(j) {
		l.open = append(l.open, newContender(l.jobOrder, j))
	}
}

// promote lines up apart from its group each job that has waited for so long that it counts as new.
func (l *line) promote(g *cluster.Group) {
	for _, j := range g.Jobs {
		if l.holders[j.ID] == nil && l.aged(j) {
			if l.alone == nil {
				l.alone = map[cluster.JobID]bool{}
			}
			l.alone[j.ID] = true
			l.standAlone(j)
		}
	}
}

// screen reports whether a group's first job fits. A job that avoids nodes fails for itself alone: then the next one is tried.
func (l *line) screen(c *contender) bool {
	for l.seen.fails(l.trial, c) {
		l.note(c)
		if len(c.job.Exclude) == 0 || !c.advance(l.jobOrder) {
			return false
		}
	}
	return true
}

// note notes a job that does not fit, and reports whether it is the first of its account. A job that leaves room to new jobs blocks no other one:
// the next job of its account is protected.
func (l *line) note(c *contender) bool {
	if l.leavesRoom(c.job) {
		return false
	}
	return l.first.of(c.job.Account).keep(l.keyOf(c.job))
}

// empty reports whether no open entry is left.
func (l *line) empty() bool { return len(l.open) == 0 }

// top returns the best open entry, as of when it was last ordered.
func (l *line) top() *contender { return l.open[0] }

// some returns the first n open entries, the best one first and the others in no order.
func (l *line) some(n int) []*contender { return l.open[:min(n, len(l.open))] }

// lead returns the best open entry. What has started since may have put others before it.
func (l *line) lead() *contender {
	for c := l.open[0]; len(l.open) > 1 && c.excessOf == c.job.ID; c = l.open[0] {
		if !c.refreshExcess() {
			break
		}
		heap.Fix(&l.open, 0)
	}
	return l.open[0]
}

// fail takes the best open entry, which was just found not to fit, out of the line, and with it all that ask for no less. Doing this at once keeps
// the heap free of groups that would be tried in vain one by one. A job that avoids nodes fails for itself alone, so the next one of its group takes
// its place.
func (l *line) fail() {
	c := l.open[0]
	if len(c.job.Exclude) > 0 || c.group == nil {
		l.drop(c)
		if c.advance(l.jobOrder) {
			heap.Fix(&l.open, 0)
			return
		}
		heap.Pop(&l.open)
		return
	}
	l.seen.fail(c.gang(l.trial))
	kept := l.open[:0]
	for _, o := range l.open {
		if o.group != nil && l.seen.failedSince(l.trial, o) {
			l.drop(o)
			continue
		}
		kept = append(kept, o)
	}
	clear(l.open[len(kept):])
	l.open = kept
	heap.Init(&l.open)
}

// skip leaves out the job of the best open entry and moves on to the next one of its group.
func (l *line) skip() {
	l.open[0].skipTasks()
	if l.open[0].advance(l.jobOrder) {
		heap.Fix(&l.open, 0)
	} else {
		heap.Pop(&l.open)
	}
}

// pass moves the entry of a job that has started on to the next job of its group.
func (l *line) pass(c *contender) {
	i := slices.Index(l.open, c)
	if c.advance(l.jobOrder) {
		heap.Fix(&l.open, i)
	} else {
		heap.Remove(&l.open, i)
	}
}

// reorder puts an open entry where it belongs if its accounts are over quota by another amount than before, and reports whether that is so.
func (l *line) reorder(c *contender) bool {
	if !c.refreshExcess() {
		return false
	}
	heap.Fix(&l.open, slices.Index(l.open, c))
	return true
}

// drop notes a job that was found not to fit after all. If it is the first of its account, it becomes a head.
func (l *line) drop(c *contender) {
	if l.note(c) {
		heap.Push(&l.heads, &contender{order: c.order, job: c.job, members: c.members, head: true})
	}
}

// nextHead takes out and returns the first head, if it comes before the first open entry by class, priority, service and age. What accounts hold does
// not count here.
func (l *line) nextHead() *contender {
	for len(l.heads) > 0 {
		h := l.heads[0]
		if len(l.open) > 0 && l.open[0].compare(h) < 0 {
			return nil
		}
		heap.Pop(&l.heads)
		if l.first.of(h.job.Account).job == h.job.ID { // else an earlier job of its account was blocked after it
			return h
		}
	}
	return nil
}
