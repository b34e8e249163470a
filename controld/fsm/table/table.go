// Package table is a map from numbers to values with free views. It is copied on write, page by
// page: a view costs nothing, and a write copies one page at most. It knows nothing of what it
// keeps. See the measured design in cmd/lab/benchmarks.md.
package table

import (
	"iter"
	"math/bits"
	"slices"
)

// PageSize is the number of values in a page: 2 KiB of pointers, which is what the first write
// after a view copies.
const PageSize = 256

// Page is a run of values with consecutive numbers. It may be written only by the table whose epoch
// it carries.
type Page[T any] struct {
	epoch uint64
	count int
	Wrote uint64                // how often it was about to be written
	Used  [PageSize / 64]uint64 // bit i: vals[i] is set
	Vals  [PageSize]T
}

// shelfSize is the number of pages on a shelf.
const shelfSize = 256

// shelf is a run of pages. It is owned as a page is.
type shelf[T any] struct {
	epoch uint64
	count int // pages that are not nil
	pages [shelfSize]*Page[T]
}

// Table maps numbers to values and is copied on write a page at a time, so that a view of it costs
// nothing to make. It suits numbers that are given in order, such as ids. Empty space between the
// least and the greatest number takes a pointer for every 65,536 numbers. Arrays use up ids by the
// hundred thousand, and one old job may keep its id for ever.
type Table[T any] struct {
	base   int64 // number of shelves[0]
	shelf  []*shelf[T]
	epoch  uint64
	shared bool       // shelf is also a view's
	spare  []*Page[T] // some pages that were left empty, to be used again; no other table has them
}

// maxSpare is how many empty pages a table keeps: enough for a short queue that comes and goes.
const maxSpare = 8

// View returns a copy that no later write to t changes. The copy must not be written.
func (t *Table[T]) View() Table[T] {
	t.epoch++
	t.shared = true
	v := *t
	v.spare = nil
	return v
}

func (t *Table[T]) find(i int64) *Page[T] {
	n := i / PageSize
	at := n/shelfSize - t.base
	if i < 0 || at < 0 || at >= int64(len(t.shelf)) || t.shelf[at] == nil {
		return nil
	}
	return t.shelf[at].pages[n%shelfSize]
}

// Get returns value i, or the zero value if it is not set.
func (t *Table[T]) Get(i int64) (v T, ok bool) {
	p := t.find(i)
	if p == nil || p.Used[i%PageSize/64]&(1<<(i%64)) == 0 {
		return v, false
	}
	return p.Vals[i%PageSize], true
}

// Set stores value i; i must not be negative.
func (t *Table[T]) Set(i int64, v T) {
	p := t.own(i / PageSize)
	word, bit := i%PageSize/64, uint64(1)<<(i%64)
	if p.Used[word]&bit == 0 {
		p.Used[word] |= bit
		p.count++
	}
	p.Vals[i%PageSize] = v
}

// Drop forgets value i, and the pages and shelves that this leaves empty.
func (t *Table[T]) Drop(i int64) {
	if _, ok := t.Get(i); !ok {
		return
	}
	n := i / PageSize
	p := t.own(n)
	var zero T
	p.Vals[i%PageSize] = zero
	p.Used[i%PageSize/64] &^= 1 << (i % 64)
	if p.count--; p.count > 0 {
		return
	}
	s := t.shelf[n/shelfSize-t.base] // owned with its page
	s.pages[n%shelfSize] = nil
	if len(t.spare) < maxSpare {
		t.spare = append(t.spare, p)
	}
	if s.count--; s.count == 0 {
		t.shelf[n/shelfSize-t.base] = nil
		t.trim()
	}
}

// trim drops empty shelves at both ends, so that a table whose numbers only grow does not.
func (t *Table[T]) trim() {
	for len(t.shelf) > 0 && t.shelf[0] == nil {
		t.shelf = t.shelf[1:]
		t.base++
	}
	for n := len(t.shelf); n > 0 && t.shelf[n-1] == nil; n-- {
		t.shelf = t.shelf[:n-1]
	}
}

// own returns page n ready to be written.
func (t *Table[T]) own(n int64) *Page[T] {
	s := t.ownShelf(n / shelfSize)
	p := s.pages[n%shelfSize]
	switch {
	case p == nil:
		p = t.blank()
		s.count++
	case p.epoch != t.epoch:
		next := *p
		next.epoch = t.epoch
		p = &next
	}
	p.Wrote++
	s.pages[n%shelfSize] = p
	return p
}

// blank returns an empty page: tables that are empty every now and then, as a short queue is, need
// no new one each time.
func (t *Table[T]) blank() *Page[T] {
	n := len(t.spare) - 1
	if n < 0 {
		return &Page[T]{epoch: t.epoch}
	}
	p := t.spare[n]
	t.spare, p.epoch = t.spare[:n], t.epoch
	return p
}

// ownShelf returns shelf n ready to be written.
func (t *Table[T]) ownShelf(n int64) *shelf[T] {
	if t.shared {
		t.shelf = slices.Clone(t.shelf)
		t.shared = false
	}
	t.reach(n)
	s := t.shelf[n-t.base]
	switch {
	case s == nil:
		s = &shelf[T]{epoch: t.epoch}
	case s.epoch != t.epoch:
		next := *s
		next.epoch = t.epoch
		s = &next
	}
	t.shelf[n-t.base] = s
	return s
}

// reach extends the list of shelves to include shelf n.
func (t *Table[T]) reach(n int64) {
	if len(t.shelf) == 0 {
		t.base = n
	}
	if n < t.base {
		t.shelf = append(make([]*shelf[T], t.base-n), t.shelf...)
		t.base = n
	}
	for int64(len(t.shelf)) <= n-t.base {
		t.shelf = append(t.shelf, nil)
	}
}

// From yields the values numbered first and above, in order.
func (t *Table[T]) From(first int64) iter.Seq2[int64, T] {
	return func(yield func(int64, T) bool) {
		for start, pg := range t.AllPages {
			if start+PageSize <= first {
				continue
			}
			for w, word := range pg.Used {
				for ; word != 0; word &= word - 1 {
					i := int64(w*64 + bits.TrailingZeros64(word))
					if start+i >= first && !yield(start+i, pg.Vals[i]) {
						return
					}
				}
			}
		}
	}
}

// Without yields the values at whose numbers another table has none, in order.
func (t *Table[T]) Without(other *Table[T]) iter.Seq[T] {
	return func(yield func(T) bool) {
		for start, pg := range t.AllPages {
			not := other.find(start)
			for w, word := range pg.Used {
				if not != nil {
					word &^= not.Used[w]
				}
				for ; word != 0; word &= word - 1 {
					if !yield(pg.Vals[w*64+bits.TrailingZeros64(word)]) {
						return
					}
				}
			}
		}
	}
}

// Refs is from(0) by reference.
func (t *Table[T]) Refs(yield func(int64, *T) bool) {
	for start, pg := range t.AllPages {
		for w, word := range pg.Used {
			for ; word != 0; word &= word - 1 {
				i := w*64 + bits.TrailingZeros64(word)
				if !yield(start+int64(i), &pg.Vals[i]) {
					return
				}
			}
		}
	}
}

// AllPages yields every page with the number of its first value.
func (t *Table[T]) AllPages(yield func(int64, *Page[T]) bool) {
	for at, s := range t.shelf {
		if s == nil {
			continue
		}
		for n, p := range s.pages {
			if p != nil && !yield(((t.base+int64(at))*shelfSize+int64(n))*PageSize, p) {
				return
			}
		}
	}
}

// Before returns the value with the greatest number that is not above i.
func (t *Table[T]) Before(i int64) (v T, ok bool) {
	for i >= 0 && len(t.shelf) > 0 {
		n := i / PageSize
		at := n/shelfSize - t.base
		switch {
		case at < 0:
			return v, false
		case at >= int64(len(t.shelf)):
			i = (t.base+int64(len(t.shelf)))*shelfSize*PageSize - 1
			continue
		case t.shelf[at] == nil:
			i = n/shelfSize*shelfSize*PageSize - 1
			continue
		}
		if p := t.shelf[at].pages[n%shelfSize]; p != nil {
			for k := i % PageSize; k >= 0; k-- {
				if p.Used[k/64]&(1<<(k%64)) != 0 {
					return p.Vals[k], true
				}
			}
		}
		i = n*PageSize - 1
	}
	return v, false
}

// Values yields all values in the order of their numbers.
func (t *Table[T]) Values() iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, v := range t.From(0) {
			if !yield(v) {
				return
			}
		}
	}
}

// Size counts the values.
func (t *Table[T]) Size() int {
	n := 0
	for _, p := range t.AllPages {
		n += p.count
	}
	return n
}

// Empty reports whether there are no values.
func (t *Table[T]) Empty() bool { return len(t.shelf) == 0 }
