// Package ranges has sets of numbers that are stored and written as ranges, such as the indices 0-9,12
// of an array.
package ranges

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
)

// Ranges is a set of numbers, kept as ascending ranges that neither touch nor overlap. In JSON it
// is text such as "1-4,7". A Ranges never changes: its methods return new ones.
type Ranges []Range

// Range is the numbers from First to Last, both included.
type Range struct{ First, Last int }

// Span returns the numbers from first to last, none if last is less.
func Span(first, last int) Ranges {
	if last < first {
		return nil
	}
	return Ranges{{first, last}}
}

// Len returns how many numbers there are.
func (r Ranges) Len() int {
	n := 0
	for _, x := range r {
		n += x.Last - x.First + 1
	}
	return n
}

// Has reports whether n is among them.
func (r Ranges) Has(n int) bool {
	_, ok := r.find(n)
	return ok
}

// find returns the position of the range that holds n, or of the first one after it.
func (r Ranges) find(n int) (int, bool) {
	return slices.BinarySearchFunc(r, n, func(x Range, n int) int {
		switch {
		case x.Last < n:
			return -1
		case x.First > n:
			return 1
		}
		return 0
	})
}

// All yields the numbers in order.
func (r Ranges) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, x := range r {
			for n := x.First; n <= x.Last; n++ {
				if !yield(n) {
					return
				}
			}
		}
	}
}

// With returns r and the numbers of more.
func (r Ranges) With(more Ranges) Ranges {
	all := slices.Concat(r, more)
	slices.SortFunc(all, func(a, b Range) int { return a.First - b.First })
	var out Ranges
	for _, x := range all {
		if n := len(out); n > 0 && x.First <= out[n-1].Last+1 {
			out[n-1].Last = max(out[n-1].Last, x.Last)
			continue
		}
		out = append(out, x)
	}
	return out
}

// Without returns r but for the numbers of less.
func (r Ranges) Without(less Ranges) Ranges {
	var out Ranges
	k := 0
	for _, x := range r {
		for k < len(less) && less[k].Last < x.First {
			k++
		}
		for i := k; i < len(less) && less[i].First <= x.Last; i++ {
			if less[i].First > x.First {
				out = append(out, Range{x.First, less[i].First - 1})
			}
			x.First = less[i].Last + 1
		}
		if x.First <= x.Last {
			out = append(out, x)
		}
	}
	return out
}

// Both returns the numbers that are in r and in other.
func (r Ranges) Both(other Ranges) Ranges { return r.Without(r.Without(other)) }

// String writes the ranges as in 1-4,7.
func (r Ranges) String() string {
	var b strings.Builder
	for i, x := range r {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(x.First))
		if x.Last != x.First {
			b.WriteString("-" + strconv.Itoa(x.Last))
		}
	}
	return b.String()
}

// MarshalText implements encoding.TextMarshaler.
func (r Ranges) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// maxRange bounds the numbers that are read, so that adding one to them never overflows.
const maxRange = 1<<31 - 1

// UnmarshalText is the reverse of MarshalText and as strict as it: one text for each set.
func (r *Ranges) UnmarshalText(text []byte) error {
	var out Ranges
	for part := range strings.SplitSeq(string(text), ",") {
		if len(text) == 0 {
			break
		}
		a, b, two := strings.Cut(part, "-")
		first, err1 := strconv.Atoi(a)
		last, err2 := first, error(nil)
		if two {
			last, err2 = strconv.Atoi(b)
		}
		if err1 != nil || err2 != nil || last < first || last > maxRange {
			return fmt.Errorf("%q is not a set of numbers such as 1-4,7", text)
		}
		out = append(out, Range{first, last})
	}
	if out.String() != string(text) || !slices.Equal(out, out.With(nil)) {
		return fmt.Errorf("%q is not a set of numbers in ascending ranges", text)
	}
	*r = out
	return nil
}

// Within reports whether all numbers are from 1 to size.
func (r Ranges) Within(size int) bool {
	return len(r) == 0 || r[0].First >= 1 && r[len(r)-1].Last <= size
}
