package scratch

import (
	"iter"

	"github.com/rota-hpc/rota/controld/fsm/state"
)

// Pages remembers a result for each page of live attempts, from one walk over all pages to the
// next. The zero value is ready for use.
type Pages[T any] struct {
	was, is []noted[T] // of the last walk, and of this one
	next    int        // in was
}

type noted[T any] struct {
	page state.AttemptPage
	what T
}

// Begin begins a walk over all pages, in order.
func (p *Pages[T]) Begin() {
	p.was, p.is, p.next = p.is, p.was[:0], 0
}

// Recall returns the last walk's result for a page; false if there is none or the page has changed
// since.
func (p *Pages[T]) Recall(page state.AttemptPage) (what T, known bool) {
	for p.next < len(p.was) && p.was[p.next].page.First() < page.First() {
		p.next++
	}
	if p.next < len(p.was) && p.was[p.next].page == page {
		return p.was[p.next].what, true
	}
	return what, false
}

// Note notes something of a page.
func (p *Pages[T]) Note(page state.AttemptPage, what T) { p.is = append(p.is, noted[T]{page, what}) }

// End ends a walk. Notes of the walk before are dropped, because they would keep alive jobs that
// have left the state.
func (p *Pages[T]) End() { clear(p.was) }

// Walk is a whole walk: it yields each page with the result of find. For a page that has not
// changed since the last walk, that is the earlier result.
func (p *Pages[T]) Walk(v *state.View, find func(state.AttemptPage) T) iter.Seq2[state.AttemptPage, T] {
	return func(yield func(state.AttemptPage, T) bool) {
		p.Begin()
		defer p.End()
		for page := range v.AttemptPages {
			what, known := p.Recall(page)
			if !known {
				what = find(page)
			}
			p.Note(page, what)
			if !yield(page, what) {
				return
			}
		}
	}
}

// Forget makes the next walk recall nothing.
func (p *Pages[T]) Forget() { p.is = p.is[:0] }

// Size returns how many pages the last walk noted something of.
func (p *Pages[T]) Size() int { return len(p.is) }

// Cleared returns n zero values in the memory of a list that is no longer needed.
func Cleared[T any](list []T, n int) []T {
	if cap(list) < n {
		return make([]T, n)
	}
	list = list[:n]
	clear(list)
	return list
}
