// Package queue orders the jobs that wait, and finds the queue heads: blocked jobs that must not be
// passed for ever.
//
// A [Line] has one entry for each group of like jobs. Every distinct request is searched for at
// most once in a cycle: [Frontier] remembers which failed. How a policy orders jobs is an [Order],
// a struct of hooks; without any, [Compare] decides alone.
package queue

import (
	"container/heap"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/groups"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// Line is all jobs that wait, best first. The open entries fit as far as is known. The heads are
// blocked jobs: their turn comes only to protect them from being passed for ever.
type Line struct {
	state *scratch.State
	order *Order
	open  Contenders
	heads Contenders
	first Firsts[string] // the first blocked job of each account
	seen  Frontier
}

// NewLine forms the line. Every group is looked at once. Each distinct request is searched for at
// most once. It is not searched for if it asks for at least as much as a job that has failed.
func NewLine(o *Order) *Line {
	l := &Line{state: o.State, order: o, first: Firsts[string]{}}
	l.form(l.frontScan())
	return l
}

// frontScan finds the first blocked job of each account.
func (l *Line) frontScan() *FrontScan {
	return NewFrontScan(l.order, &l.seen, func(g *groups.Group) *Key {
		if l.order.Bounded != nil && l.order.Bounded(g) {
			return nil
		}
		return l.first.Of(g.Key.Account)
	})
}

// form lines up all jobs. Without a front scan all groups are looked at: the line is the same.
func (l *Line) form(q *FrontScan) {
	for _, r := range l.state.View.Reservations() {
		if l.state.Holders[r.Job] != nil {
			l.standAlone(l.state.View.Job(r.Job))
		}
	}
	// one for all groups: most are blocked, and thousands of short-lived ones would keep the
	// collector busy
	var c Contender
	for g := range q.Groups() {
		c = Contender{order: l.order, Group: g}
		if c.Advance(l.order) && l.screen(&c) {
			open := c
			l.open = append(l.open, &open)
		}
	}
	for _, first := range l.first {
		l.heads = append(l.heads, &Contender{Job: l.state.View.Job(first.Job)})
	}
	heap.Init(&l.open)
	heap.Init(&l.heads)
}

// standAlone lines up the holder of a reservation. It is never screened: its own claim makes the
// difference.
func (l *Line) standAlone(j *model.Job) {
	if l.order.Startable(j) {
		l.open = append(l.open, NewContender(l.order, j))
	}
}

// screen reports whether a group's first job fits. A job that avoids nodes fails for itself alone:
// then the next one is tried.
func (l *Line) screen(c *Contender) bool {
	for l.seen.Fails(l.state, c) {
		l.note(c)
		if len(c.Job.Exclude) == 0 || !c.Advance(l.order) {
			return false
		}
	}
	return true
}

// note notes a job that does not fit, and reports whether it is the first of its account.
func (l *Line) note(c *Contender) bool {
	if l.order.LeavesRoom(c.Job) {
		return false
	}
	return l.first.Of(c.Job.Account).Keep(KeyOf(c.Job))
}

// Empty reports whether no open entry is left.
func (l *Line) Empty() bool { return len(l.open) == 0 }

// Top returns the best open entry, as of when it was last ordered.
func (l *Line) Top() *Contender { return l.open[0] }

// Some returns the first n open entries, the best one first and the others in no order.
func (l *Line) Some(n int) []*Contender { return l.open[:min(n, len(l.open))] }

// Lead returns the best open entry. Jobs that have started since may have put others before it.
func (l *Line) Lead() *Contender {
	for c := l.open[0]; len(l.open) > 1 && c.excessOf == c.Job.ID; c = l.open[0] {
		if !c.refresh() {
			break
		}
		heap.Fix(&l.open, 0)
	}
	return l.open[0]
}

// Fail takes the best open entry out of the line, which was just found not to fit. All entries that
// ask for no less go with it. Doing this at once keeps the heap free of groups that would be tried
// in vain one by one. A job that avoids nodes fails for itself alone, so the next one of its group
// takes its place.
func (l *Line) Fail() {
	c := l.open[0]
	if len(c.Job.Exclude) > 0 || c.Group == nil {
		l.drop(c)
		if c.Advance(l.order) {
			heap.Fix(&l.open, 0)
			return
		}
		heap.Pop(&l.open)
		return
	}
	l.seen.Fail(c.Gang(l.state))
	l.open = slices.DeleteFunc(l.open, func(o *Contender) bool {
		failed := o.Group != nil && l.seen.FailedSince(l.state, o)
		if failed {
			l.drop(o)
		}
		return failed
	})
	heap.Init(&l.open)
}

// Skip leaves out the job of the best open entry and moves on to the next one of its group.
func (l *Line) Skip() {
	if l.open[0].Skip(l.order) {
		heap.Fix(&l.open, 0)
	} else {
		heap.Pop(&l.open)
	}
}

// Pass moves the entry of a job that has started on to the next job of its group.
func (l *Line) Pass(c *Contender) {
	i := slices.Index(l.open, c)
	if c.Advance(l.order) {
		heap.Fix(&l.open, i)
	} else {
		heap.Remove(&l.open, i)
	}
}

// Reorder puts an open entry where it belongs if its accounts or its user hold another part than
// before, and reports whether that is so.
func (l *Line) Reorder(c *Contender) bool {
	if !c.refresh() {
		return false
	}
	heap.Fix(&l.open, slices.Index(l.open, c))
	return true
}

// drop notes a job that was found not to fit after all. If it is the first of its account, it
// becomes a head.
func (l *Line) drop(c *Contender) {
	if l.note(c) {
		heap.Push(&l.heads, &Contender{Job: c.Job, Members: c.Members})
	}
}

// NextHead takes out and returns the first head, if it comes before the first open entry by class,
// priority and age. The other rules of the order do not count here, because they could delay a job
// without bound.
func (l *Line) NextHead() *Contender {
	for len(l.heads) > 0 {
		h := l.heads[0]
		if len(l.open) > 0 && Compare(l.Lead().Job, h.Job) < 0 {
			return nil
		}
		heap.Pop(&l.heads)
		if l.first.Of(h.Job.Account).Job == h.Job.ID { // else an earlier job of its account was blocked after it
			return h
		}
	}
	return nil
}
