package jobspec

import (
	"fmt"
	"sort"
	"strings"
)

// Param is a parameter of an array element, with its value.
type Param struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Span is the ordinals from First to Last, inclusive.
type Span struct{ First, Last int }

// Elements is an index of an array's elements for many look-ups. The ordinal numbers elements from
// 0 without gaps. The index is the number that the user wrote; the two differ in an array with
// [Array.Indices].
type Elements struct {
	array *Array
	runs  Indices // nil: index and ordinal are the same
	base  []int   // ordinal of the first index of each run
	len   int
}

// Elements builds the index of the array. An invalid array has no elements.
func (a *Array) Elements() Elements {
	e := Elements{array: a}
	switch {
	case a.Indices != "":
		runs, err := ParseIndices(a.Indices)
		if err != nil {
			return e
		}
		e.runs, e.base = runs, make([]int, len(runs))
		for i, run := range runs {
			e.base[i] = e.len
			e.len += run.Len()
		}
	case len(a.Matrix) > 0:
		e.len = a.combinations()
	default:
		e.len = len(a.Rows)
	}
	if e.len > MaxElements {
		e.len = 0
	}
	return e
}

// combinations returns the product of the axes' lengths, capped at [MaxElements] + 1 to prevent
// overflow.
func (a *Array) combinations() int {
	n := 1
	for _, axis := range a.Matrix {
		if len(axis.Values) == 0 {
			return 0
		}
		if n *= len(axis.Values); n > MaxElements {
			n = MaxElements + 1
		}
	}
	return n
}

// Len returns the number of elements of the array. Callers with several questions should use
// [Array.Elements] once.
func (a *Array) Len() int { return a.Elements().Len() }

// Index returns the index of the element with an ordinal, -1 if there is none.
func (a *Array) Index(ordinal int) int { return a.Elements().Index(ordinal) }

// Ordinal returns the ordinal of the element with an index, -1 if there is none.
func (a *Array) Ordinal(index int) int { return a.Elements().Ordinal(index) }

// Params returns the parameters of the element with an ordinal, in the order in which they were
// written; none in an array of indices.
func (a *Array) Params(ordinal int) []Param { return a.Elements().Params(ordinal) }

// Names returns the names of the parameters that every element has.
func (a *Array) Names() []string {
	if len(a.Matrix) == 0 {
		return a.Columns
	}
	names := make([]string, len(a.Matrix))
	for i, axis := range a.Matrix {
		names[i] = axis.Name
	}
	return names
}

// Len returns the number of elements.
func (e Elements) Len() int { return e.len }

// Index returns the index of the element with an ordinal, -1 if there is none.
func (e Elements) Index(ordinal int) int {
	if ordinal < 0 || ordinal >= e.len {
		return -1
	}
	if e.runs == nil {
		return ordinal
	}
	i := e.runOf(ordinal)
	return e.runs[i].First + (ordinal-e.base[i])*e.runs[i].Step
}

// runOf returns the position of the run that contains an ordinal.
func (e Elements) runOf(ordinal int) int { return sort.SearchInts(e.base, ordinal+1) - 1 }

// Ordinal returns the ordinal of the element with an index, -1 if there is none.
func (e Elements) Ordinal(index int) int {
	n, found := e.place(index)
	if !found {
		return -1
	}
	return n
}

// place returns the number of elements with a lower index, and whether the index belongs to an
// element.
func (e Elements) place(index int) (int, bool) {
	if e.runs == nil {
		return min(max(index, 0), e.len), index >= 0 && index < e.len
	}
	i := sort.Search(len(e.runs), func(i int) bool { return e.runs[i].Last >= index })
	if i == len(e.runs) {
		return e.len, false
	}
	n, found := e.runs[i : i+1].Ordinal(index)
	return e.base[i] + n, found
}

// Params returns the parameters of the element with an ordinal, in the order in which they were
// written.
func (e Elements) Params(ordinal int) []Param {
	if ordinal < 0 || ordinal >= e.len || e.runs != nil {
		return nil
	}
	names := e.array.Names()
	params := make([]Param, len(names))
	for i := len(names) - 1; i >= 0; i-- {
		params[i].Name = names[i]
		if len(e.array.Matrix) == 0 {
			params[i].Value = e.array.Rows[ordinal][i]
			continue
		}
		values := e.array.Matrix[i].Values
		params[i].Value = values[ordinal%len(values)]
		ordinal /= len(values)
	}
	return params
}

// Text formats the indices of some elements in the shortest form: 0-98:2,200. The spans ascend and
// do not overlap. The cost grows with the numbers of spans and runs, not with the number of
// elements.
func (e Elements) Text(spans []Span) string {
	var out Indices
	for _, s := range spans {
		s.First, s.Last = max(s.First, 0), min(s.Last, e.len-1)
		for s.First <= s.Last {
			run := Run{s.First, s.Last, 1}
			if e.runs != nil {
				i := e.runOf(s.First)
				last := min(s.Last, e.base[i]+e.runs[i].Len()-1)
				run = Run{e.Index(s.First), e.Index(last), e.runs[i].Step}
				s.First = last
			} else {
				s.First = s.Last
			}
			out = append(out, run.split()...)
			s.First++
		}
	}
	return out.compressed().String()
}

// Select finds the elements with the indices in a text, in any order, such as 4-9 of job 123_[4-9].
// It returns their ordinals as ascending spans, and the number of indices that the array lacks. The
// error is an *[IndicesError].
func (e Elements) Select(indices string) (spans []Span, missing int, err error) {
	runs, err := parseAnyOrder(unbracket(indices))
	if err != nil {
		return nil, 0, err
	}
	for _, run := range runs {
		if run.Step == 1 {
			first, _ := e.place(run.First)
			last, _ := e.place(run.Last + 1)
			spans = addSpan(spans, Span{first, last - 1})
			missing += run.Len() - (last - first)
			continue
		}
		for i := range run.Len() {
			if n := e.Ordinal(run.First + i*run.Step); n >= 0 {
				spans = addSpan(spans, Span{n, n})
			} else {
				missing++
			}
		}
	}
	return spans, missing, nil
}

// addSpan appends a span, and merges it with the last one if they touch.
func addSpan(spans []Span, s Span) []Span {
	if s.Last < s.First {
		return spans
	}
	if n := len(spans); n > 0 && spans[n-1].Last+1 == s.First {
		spans[n-1].Last = s.Last
		return spans
	}
	return append(spans, s)
}

// ParseSlurmArray parses the value of sbatch --array: indices in any order, and %N for at most N
// running elements, as in 0-99:2%8. The error is an *[IndicesError].
func ParseSlurmArray(text string) (*Array, error) {
	indices, limit, limited := strings.Cut(text, "%")
	runs, err := parseAnyOrder(unbracket(indices))
	if err != nil {
		return nil, err
	}
	a := &Array{Indices: runs.String()}
	if !limited {
		return a, nil
	}
	if a.MaxParallel = number(limit); !isDigits(limit) || a.MaxParallel > MaxElements {
		return nil, &IndicesError{CodeIndices, "%" + limit, len(indices) + 1, "is no limit",
			fmt.Sprintf("write a number up to %d after %%", MaxElements)}
	}
	return a, nil
}

// unbracket removes the brackets around a text.
func unbracket(text string) string {
	if inner, ok := strings.CutPrefix(text, "["); ok {
		if inner, ok = strings.CutSuffix(inner, "]"); ok {
			return inner
		}
	}
	return text
}

// parseAnyOrder parses indices in any order. It returns them in ascending order without
// repetitions.
func parseAnyOrder(text string) (Indices, error) {
	runs, err := ParseIndices(text)
	if err == nil {
		return runs, nil
	}
	bad := err.(*IndicesError) //nolint:errorlint // ParseIndices returns no other type of error
	if bad.Code != CodeIndexOrder || bad.Why == "goes down" {
		return nil, err
	}
	var numbers []int
	column := 1
	for part := range strings.SplitSeq(text, ",") {
		run, err := parseRun(part, column)
		if err != nil {
			return nil, err
		}
		if len(numbers)+run.Len() > MaxElements {
			return nil, &IndicesError{CodeElements, part, column, fmt.Sprintf("stands for more than %d elements", MaxElements),
				"split it into several jobs"}
		}
		for i := range run.Len() {
			numbers = append(numbers, run.First+i*run.Step)
		}
		column += len(part) + 1
	}
	return MakeIndices(numbers), nil
}
