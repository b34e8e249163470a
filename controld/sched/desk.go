package sched

import (
	"iter"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
)

// Desk is what cycles work on. Whoever runs one after another keeps a Desk, so that a cycle need not begin with fresh memory and need not look
// again at what has not changed since the last: on a large cluster that, and collecting the garbage, is most of what a decision costs. The
// plan does not depend on it: it is that of [Cycle], whatever views the Desk was used with before. The zero Desk is ready for use. It is
// not for concurrent use.
type Desk struct {
	room   fit.Room
	roster *roster // of an earlier cycle; nil: there is none, or this cycle has it
	made   *roster // in this cycle
	unused int     // cycles in a row that have made no roster
	spare  []uint64
	due    pages[cluster.Instant]
	briefs pages[[]brief]
	coming []cluster.Request
	lone   contender // of startWhole
}

// maxUnused is for how many cycles a roster is kept that none of them needs.
const maxUnused = 256

// Cycle is the function [Cycle] on this desk.
func (d *Desk) Cycle(v *cluster.View, now cluster.Instant, p cluster.Policy) (cluster.CommitPlan, cluster.Instant) {
	t := d.decide(v, now, p)
	d.tidy()
	return cluster.CommitPlan{BasedOn: v.Index(), Actions: t.actions, Turns: t.turned}, t.wake
}

// tidy keeps the roster of this cycle for the next, but not one that nobody has needed for long: those on it may have left the state.
func (d *Desk) tidy() {
	switch {
	case d.made != nil:
		for i := range d.made.victims {
			d.made.victims[i].turn = nil // which keeps all that wait alive
		}
		d.roster, d.made, d.unused = d.made, nil, 0
	case d.unused == maxUnused:
		d.roster = nil
	default:
		d.unused++
	}
}

// decide runs the phases. What it returns says more than the plan, which is what Explain needs.
func (d *Desk) decide(v *cluster.View, now cluster.Instant, p cluster.Policy) *trial {
	t := d.newTrial(v, now, p)
	expire(t)
	rules, known := policies[p.Name]
	if !known {
		rules = policies[""]
	}
	rules(t)
	return t
}

func (d *Desk) newTrial(v *cluster.View, now cluster.Instant, p cluster.Policy) *trial {
	d.room.Reset(v)
	return &trial{
		view: v, now: now, policy: p, room: &d.room, desk: d,
		holders: map[cluster.JobID]*cluster.Reservation{}, started: map[cluster.JobID]int{}, late: map[cluster.JobID]bool{},
	}
}

// takeRoster returns the memory of the last roster, which this cycle may overwrite.
func (d *Desk) takeRoster() *roster {
	r := d.roster
	if r == nil {
		r = &roster{}
	}
	d.roster, d.made = nil, r
	return r
}

// words returns so many words that are 0.
func (d *Desk) words(n int) []uint64 {
	d.spare = cleared(d.spare, n)
	return d.spare
}

// cleared returns n zero values, in the memory of a list that is not needed any more.
func cleared[T any](list []T, n int) []T {
	if cap(list) < n {
		return make([]T, n)
	}
	list = list[:n]
	clear(list)
	return list
}

// pages remembers what was found out about each page of the attempts in progress.
type pages[T any] struct {
	was, is []noted[T] // in the last walk over all pages, and in this one
	next    int        // of was
}

type noted[T any] struct {
	page cluster.RunPage
	what T
}

// begin begins a walk over all pages, in order.
func (p *pages[T]) begin() {
	p.was, p.is, p.next = p.is, p.was[:0], 0
}

// recall returns what was noted in the last walk of a page that has not changed since, and false if that is nothing.
func (p *pages[T]) recall(page cluster.RunPage) (what T, known bool) {
	for p.next < len(p.was) && p.was[p.next].page.First() < page.First() {
		p.next++
	}
	if p.next < len(p.was) && p.was[p.next].page == page {
		return p.was[p.next].what, true
	}
	return what, false
}

func (p *pages[T]) note(page cluster.RunPage, what T) { p.is = append(p.is, noted[T]{page, what}) }

// end ends a walk: what was noted in the one before is of no use any more, and would keep alive what the state has left behind.
func (p *pages[T]) end() { clear(p.was) }

// walk is a whole walk: it yields each page with what find says of it, or said in the last walk if the page has not changed since.
func (p *pages[T]) walk(v *cluster.View, find func(cluster.RunPage) T) iter.Seq2[cluster.RunPage, T] {
	return func(yield func(cluster.RunPage, T) bool) {
		p.begin()
		defer p.end()
		for page := range v.RunPages {
			what, known := p.recall(page)
			if !known {
				what = find(page)
			}
			p.note(page, what)
			if !yield(page, what) {
				return
			}
		}
	}
}

// forget makes the next walk find nothing.
func (p *pages[T]) forget() { p.is = p.is[:0] }
