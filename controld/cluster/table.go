package cluster

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
	used  [pageSize / 64]uint64 // bit i: vals[i] is set
	vals  [pageSize]T
}

// table maps numbers to values and is copied on write a page at a time, so that a view of it costs nothing to make. It suits
// numbers that are dense between the least and the greatest in use, as ids given in order are.
type table[T any] struct {
	base   int64 // number of pages[0], counted in pages
	pages  []*page[T]
	epoch  uint64
	shared bool // pages is also a view's
}

// view returns a copy that no later write to t changes. The copy must not be written.
func (t *table[T]) view() table[T] {
	t.epoch++
	t.shared = true
	return *t
}

func (t *table[T]) find(i int64) *page[T] {
	p := i/pageSize - t.base
	if i < 0 || p < 0 || p >= int64(len(t.pages)) {
		return nil
	}
	return t.pages[p]
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

// drop forgets value i, and the pages that this leaves empty.
func (t *table[T]) drop(i int64) {
	if _, ok := t.get(i); !ok {
		return
	}
	p := t.own(i / pageSize)
	var zero T
	p.vals[i%pageSize] = zero
	p.used[i%pageSize/64] &^= 1 << (i % 64)
	p.count--
	if p.count > 0 {
		return
	}
	t.pages[i/pageSize-t.base] = nil
	t.trim()
}

// trim drops empty pages at both ends, so that a table whose numbers only grow does not.
func (t *table[T]) trim() {
	for len(t.pages) > 0 && t.pages[0] == nil {
		t.pages = t.pages[1:]
		t.base++
	}
	for n := len(t.pages); n > 0 && t.pages[n-1] == nil; n-- {
		t.pages = t.pages[:n-1]
	}
}

// own returns page n ready to be written.
func (t *table[T]) own(n int64) *page[T] {
	if t.shared {
		t.pages = slices.Clone(t.pages)
		t.shared = false
	}
	t.reach(n)
	p := t.pages[n-t.base]
	switch {
	case p == nil:
		p = &page[T]{epoch: t.epoch}
	case p.epoch != t.epoch:
		next := *p
		next.epoch = t.epoch
		p = &next
	}
	t.pages[n-t.base] = p
	return p
}

// reach extends the list of pages to include page n.
func (t *table[T]) reach(n int64) {
	if len(t.pages) == 0 {
		t.base = n
	}
	if n < t.base {
		t.pages = append(make([]*page[T], t.base-n), t.pages...)
		t.base = n
	}
	for int64(len(t.pages)) <= n-t.base {
		t.pages = append(t.pages, nil)
	}
}

// from yields the values numbered first and above, in order.
func (t *table[T]) from(first int64) iter.Seq2[int64, T] {
	return func(yield func(int64, T) bool) {
		for p, pg := range t.pages {
			start := (t.base + int64(p)) * pageSize
			if pg == nil || start+pageSize <= first {
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

// before returns the value with the greatest number that is not above i.
func (t *table[T]) before(i int64) (v T, ok bool) {
	for p := min(i/pageSize-t.base, int64(len(t.pages))-1); i >= 0 && p >= 0; p-- {
		pg := t.pages[p]
		if pg == nil {
			continue
		}
		start := (t.base + p) * pageSize
		for n := min(i-start, pageSize-1); n >= 0; n-- {
			if pg.used[n/64]&(1<<(n%64)) != 0 {
				return pg.vals[n], true
			}
		}
	}
	return v, false
}

// empty reports whether no value is set.
func (t *table[T]) empty() bool { return len(t.pages) == 0 }

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
	for _, p := range t.pages {
		if p != nil {
			n += p.count
		}
	}
	return n
}
