package fsm

import (
	"iter"
	"math/bits"
	"slices"
)

// pageSize is the number of values in a page: 2 KiB of pointers, which is what the first write after a view copies.
const pageSize = 256

// page is a run of values with consecutive numbers. It may be written only by the table whose epoch it carries.
type page[T any] struct {
	epoch uint64
	count int
	wrote uint64                // how often it was about to be written
	used  [pageSize / 64]uint64 // bit i: vals[i] is set
	vals  [pageSize]T
}

// shelfSize is the number of pages on a shelf.
const shelfSize = 256

// shelf is a run of pages. It is owned as a page is.
type shelf[T any] struct {
	epoch uint64
	count int // pages that are not nil
	pages [shelfSize]*page[T]
}

// table maps numbers to values and is copied on write a page at a time, so that a view of it costs nothing to make. It suits numbers that
// are given in order, as ids are: what is empty between the least and the greatest in use takes a pointer for every 65,536 numbers, since
// arrays use up ids by the hundred thousand and one old job may keep its own for ever.
type table[T any] struct {
	base   int64 // number of shelves[0]
	shelf  []*shelf[T]
	epoch  uint64
	shared bool       // shelf is also a view's
	spare  []*page[T] // some pages that were left empty, to be used again; nobody else has them
}

// maxSpare is how many empty pages a table keeps: enough for a short queue that comes and goes.
const maxSpare = 8

// view returns a copy that no later write to t changes. The copy must not be written.
func (t *table[T]) view() table[T] {
	t.epoch++
	t.shared = true
	v := *t
	v.spare = nil
	return v
}

func (t *table[T]) find(i int64) *page[T] {
	n := i / pageSize
	at := n/shelfSize - t.base
	if i < 0 || at < 0 || at >= int64(len(t.shelf)) || t.shelf[at] == nil {
		return nil
	}
	return t.shelf[at].pages[n%shelfSize]
}

// get returns value i, or the zero value if it is not set.
func (t *table[T]) get(i int64) (v T, ok bool) {
	p := t.find(i)
	if p == nil || p.used[i%pageSize/64]&(1<<(i%64)) == 0 {
		return v, false
	}
	return p.vals[i%pageSize], true
}

// set stores value i; i must not be negative.
func (t *table[T]) set(i int64, v T) {
	p := t.own(i / pageSize)
	word, bit := i%pageSize/64, uint64(1)<<(i%64)
	if p.used[word]&bit == 0 {
		p.used[word] |= bit
		p.count++
	}
	p.vals[i%pageSize] = v
}

// drop forgets value i, and the pages and shelves that this leaves empty.
func (t *table[T]) drop(i int64) {
	if _, ok := t.get(i); !ok {
		return
	}
	n := i / pageSize
	p := t.own(n)
	var zero T
	p.vals[i%pageSize] = zero
	p.used[i%pageSize/64] &^= 1 << (i % 64)
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
func (t *table[T]) trim() {
	for len(t.shelf) > 0 && t.shelf[0] == nil {
		t.shelf = t.shelf[1:]
		t.base++
	}
	for n := len(t.shelf); n > 0 && t.shelf[n-1] == nil; n-- {
		t.shelf = t.shelf[:n-1]
	}
}

// own returns page n ready to be written.
func (t *table[T]) own(n int64) *page[T] {
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
	p.wrote++
	s.pages[n%shelfSize] = p
	return p
}

// blank returns an empty page: tables that are empty every now and then, as a short queue is, need no new one each time.
func (t *table[T]) blank() *page[T] {
	n := len(t.spare) - 1
	if n < 0 {
		return &page[T]{epoch: t.epoch}
	}
	p := t.spare[n]
	t.spare, p.epoch = t.spare[:n], t.epoch
	return p
}

// ownShelf returns shelf n ready to be written.
func (t *table[T]) ownShelf(n int64) *shelf[T] {
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
func (t *table[T]) reach(n int64) {
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

// from yields the values numbered first and above, in order.
func (t *table[T]) from(first int64) iter.Seq2[int64, T] {
	return func(yield func(int64, T) bool) {
		for start, pg := range t.allPages {
			if start+pageSize <= first {
				continue
			}
			for w, word := range pg.used {
				for ; word != 0; word &= word - 1 {
					i := int64(w*64 + bits.TrailingZeros64(word))
					if start+i >= first && !yield(start+i, pg.vals[i]) {
						return
					}
				}
			}
		}
	}
}

// without yields the values at whose numbers another table has none, in order.
func (t *table[T]) without(other *table[T]) iter.Seq[T] {
	return func(yield func(T) bool) {
		for start, pg := range t.allPages {
			not := other.find(start)
			for w, word := range pg.used {
				if not != nil {
					word &^= not.used[w]
				}
				for ; word != 0; word &= word - 1 {
					if !yield(pg.vals[w*64+bits.TrailingZeros64(word)]) {
						return
					}
				}
			}
		}
	}
}

// refs is from(0) by reference.
func (t *table[T]) refs(yield func(int64, *T) bool) {
	for start, pg := range t.allPages {
		for w, word := range pg.used {
			for ; word != 0; word &= word - 1 {
				i := w*64 + bits.TrailingZeros64(word)
				if !yield(start+int64(i), &pg.vals[i]) {
					return
				}
			}
		}
	}
}

// allPages yields every page with the number of its first value.
func (t *table[T]) allPages(yield func(int64, *page[T]) bool) {
	for at, s := range t.shelf {
		if s == nil {
			continue
		}
		for n, p := range s.pages {
			if p != nil && !yield(((t.base+int64(at))*shelfSize+int64(n))*pageSize, p) {
				return
			}
		}
	}
}

// before returns the value with the greatest number that is not above i.
func (t *table[T]) before(i int64) (v T, ok bool) {
	for i >= 0 && len(t.shelf) > 0 {
		n := i / pageSize
		at := n/shelfSize - t.base
		switch {
		case at < 0:
			return v, false
		case at >= int64(len(t.shelf)):
			i = (t.base+int64(len(t.shelf)))*shelfSize*pageSize - 1
			continue
		case t.shelf[at] == nil:
			i = n/shelfSize*shelfSize*pageSize - 1
			continue
		}
		if p := t.shelf[at].pages[n%shelfSize]; p != nil {
			for k := i % pageSize; k >= 0; k-- {
				if p.used[k/64]&(1<<(k%64)) != 0 {
					return p.vals[k], true
				}
			}
		}
		i = n*pageSize - 1
	}
	return v, false
}

// values yields all values in the order of their numbers.
func (t *table[T]) values() iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, v := range t.from(0) {
			if !yield(v) {
				return
			}
		}
	}
}

// size counts the values.
func (t *table[T]) size() int {
	n := 0
	for _, p := range t.allPages {
		n += p.count
	}
	return n
}

// empty reports whether there are no values.
func (t *table[T]) empty() bool { return len(t.shelf) == 0 }
