package jobspec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Limits of an array. An element costs nothing until it starts, but history and listings grow with
// the elements.
const (
	MaxElements    = 100_000
	MaxIndex       = 1<<31 - 2 // what every program's int holds, with one to spare
	maxIndicesText = 64 << 10
)

// Run is the indices First, First+Step and so on; Last is the last of them. Step is 1 or more.
type Run struct{ First, Last, Step int }

// Len returns how many indices there are.
func (r Run) Len() int { return (r.Last-r.First)/r.Step + 1 }

// split returns the run as it is written: two numbers with a gap are not written as a range.
func (r Run) split() []Run {
	switch {
	case r.First == r.Last:
		return []Run{{r.First, r.Last, 1}}
	case r.Len() == 2 && r.Step > 1:
		return []Run{{r.First, r.First, 1}, {r.Last, r.Last, 1}}
	}
	return []Run{r}
}

// String writes 7, 0-3 or 0-8:2.
func (r Run) String() string {
	switch {
	case r.First == r.Last:
		return strconv.Itoa(r.First)
	case r.Step == 1:
		return fmt.Sprintf("%d-%d", r.First, r.Last)
	}
	return fmt.Sprintf("%d-%d:%d", r.First, r.Last, r.Step)
}

// Indices are the indices of an array as runs. They ascend and are distinct, so a run begins behind
// the end of the run before it.
type Indices []Run

// IndicesError is a mistake in a text of indices.
type IndicesError struct {
	Code   string
	Text   string // the part that is wrong
	Column int    // of that part, from 1
	Why    string
	Hint   string
}

// Error implements error.
func (e *IndicesError) Error() string {
	return fmt.Sprintf("column %d: %q %s", e.Column, e.Text, e.Why)
}

// ParseIndices reads indices as in 0-99:2,200. They must ascend and be distinct, and there are at
// most [MaxElements]. The error is an *[IndicesError].
func ParseIndices(text string) (Indices, error) {
	var out Indices
	total, column := 0, 1
	if len(text) > maxIndicesText {
		return nil, &IndicesError{CodeElements, text[:16] + "...", 1,
			fmt.Sprintf("has %d characters; at most %d are read", len(text), maxIndicesText), "use ranges, or a file"}
	}
	for part := range strings.SplitSeq(text, ",") {
		run, err := parseRun(part, column)
		if err != nil {
			return nil, err
		}
		if n := len(out); n > 0 && run.First <= out[n-1].Last {
			return nil, disorder(out, run, part, column)
		}
		if total += run.Len(); total > MaxElements {
			return nil, &IndicesError{CodeElements, part, column, fmt.Sprintf("stands for more than %d elements", MaxElements),
				"split it into several jobs"}
		}
		out = append(out, run)
		column += len(part) + 1
	}
	return out, nil
}

// disorder returns the mistake of a run that does not come behind those before it: it repeats an
// index, or comes too late.
func disorder(before Indices, run Run, part string, column int) error {
	for i := range min(run.Len(), 1000) { // farther on the other message is as good
		if n := run.First + i*run.Step; n <= before[len(before)-1].Last {
			if _, twice := before.Ordinal(n); twice {
				return &IndicesError{CodeIndexOrder, part, column, fmt.Sprintf("repeats index %d", n), "name every index once"}
			}
		}
	}
	return &IndicesError{CodeIndexOrder, part, column, fmt.Sprintf("comes behind %d", before[len(before)-1].Last),
		"write indices in ascending order"}
}

const indicesHint = `write numbers and ranges such as "0-99", "0-98:2" or "1,4,7-9"`

// parseRun reads N, N-M or N-M:STEP.
func parseRun(part string, column int) (Run, error) {
	bad := func(code, why, hint string) (Run, error) { return Run{}, &IndicesError{code, part, column, why, hint} }
	bounds, step, stepped := strings.Cut(part, ":")
	first, last, ranged := strings.Cut(bounds, "-")
	if !ranged {
		last = first
	}
	if !stepped {
		step = "1"
	}
	if !isDigits(first) || !isDigits(last) || !isDigits(step) || stepped && !ranged {
		if strings.Contains(part, "%") {
			return bad(CodeIndices, "has a % after it", "write max_parallel = ... for the number of elements at once")
		}
		return bad(CodeIndices, "is neither an index nor a range", indicesHint)
	}
	run := Run{number(first), number(last), number(step)}
	switch {
	case run.First > MaxIndex || run.Last > MaxIndex:
		return bad(CodeIndices, "is too large", fmt.Sprintf("the largest index is %d", MaxIndex))
	case run.Step == 0:
		return bad(CodeIndices, "has a step of 0", "write a step of 1 or more")
	case run.Last < run.First:
		return bad(CodeIndexOrder, "goes down", fmt.Sprintf("write \"%d-%d\"", run.Last, run.First))
	}
	run.Last = run.First + (run.Len()-1)*run.Step
	if run.First == run.Last {
		run.Step = 1
	}
	return run, nil
}

// number reads digits. A number beyond MaxIndex becomes MaxIndex + 1.
func number(digits string) int {
	n, err := strconv.Atoi(digits)
	if err != nil || n > MaxIndex {
		return MaxIndex + 1
	}
	return n
}

// Len returns how many indices there are.
func (x Indices) Len() int {
	n := 0
	for _, run := range x {
		n += run.Len()
	}
	return n
}

// Ordinal returns how many indices come before index, and whether it is one of them.
func (x Indices) Ordinal(index int) (int, bool) {
	before := 0
	for _, run := range x {
		switch {
		case index < run.First:
			return before, false
		case index > run.Last:
			before += run.Len()
		default:
			steps := (index - run.First + run.Step - 1) / run.Step
			return before + steps, run.First+steps*run.Step == index
		}
	}
	return before, false
}

// String writes the runs as [ParseIndices] reads them.
func (x Indices) String() string {
	parts := make([]string, len(x))
	for i, run := range x {
		parts[i] = run.String()
	}
	return strings.Join(parts, ",")
}

// MakeIndices returns the shortest runs of some numbers. They may come in any order, and more than
// once.
func MakeIndices(numbers []int) Indices {
	numbers = slices.Clone(numbers)
	slices.Sort(numbers)
	single := make(Indices, 0, len(numbers))
	for _, n := range slices.Compact(numbers) {
		single = append(single, Run{n, n, 1})
	}
	return single.compressed()
}

// compressed joins neighbours that form one run.
func (x Indices) compressed() Indices {
	var out Indices
	for _, run := range x {
		out = append(out, run)
		for out.joinLast() {
		}
	}
	return out
}

// joinLast joins the last run with the one before it, if they form one run.
func (x *Indices) joinLast() bool {
	all := *x
	n := len(all)
	if n < 2 {
		return false
	}
	a, b := all[n-2], all[n-1]
	gap := b.First - a.Last
	aOne, bOne := a.First == a.Last, b.First == b.Last
	switch {
	case aOne && bOne && gap == 1, !aOne && a.Step == gap && (bOne || b.Step == gap), aOne && !bOne && b.Step == gap:
		all[n-2] = Run{a.First, b.Last, gap}
		*x = all[:n-1]
		return true
	case aOne && bOne && n > 2 && all[n-3].First == all[n-3].Last && a.First-all[n-3].Last == gap:
		all[n-3] = Run{all[n-3].First, b.Last, gap}
		*x = all[:n-2]
		return true
	}
	return false
}
