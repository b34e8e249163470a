package sched

import (
	"iter"

	"github.com/rota-hpc/rota/controld/cluster"
)

// pages remembers what was found out about each page of the attempts in progress, from one walk over all pages to the next. The zero value is
// ready for use.
type pages[T any] struct {
	was, is []noted[T] // of the last walk, and of this one
	next    int        // in was
}

type noted[T any] struct {
	page cluster.RunPage
	what T
}

// begin begins a walk over all pages, in order.
func (p *pages[T]) begin() {
	p.was, p.is, p.next = p.is, p.was[:0], 0
}

// recall returns what the last walk noted of a page; false if it noted nothing or the page has changed since.
func (p *pages[T]) recall(page cluster.RunPage) (what T, known bool) {
	for p.next < len(p.was) && p.was[p.next].page.First() < page.First() {
		p.next++
	}
	if p.next < len(p.was) && p.was[p.next].page == page {
		return p.was[p.next].what, true
	}
	return what, false
}

// note notes something of a page.
func (p *pages[T]) note(page cluster.RunPage, what T) { p.is = append(p.is, noted[T]{page, what}) }

// end ends a walk. What the walk before noted is dropped: it would keep alive what has left the state.
func (p *pages[T]) end() { clear(p.was) }

// walk is a whole walk: it yields each page with what find returns for it, or returned in the last walk if the page has not changed since.
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

// forget makes the next walk recall nothing.
func (p *pages[T]) forget() { p.is = p.is[:0] }

// cleared returns n zero values in the memory of a list that is no longer needed.
func cleared[T any](list []T, n int) []T {
	if cap(list) < n {
		return make([]T, n)
	}
	list = list[:n]
	clear(list)
	return list
}
