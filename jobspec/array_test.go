package jobspec_test

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/jobspec"
)

func TestParseIndices(t *testing.T) {
	for text, want := range map[string]string{
		"0": "0", "0-99": "0-99", "0-99:2,200": "0-98:2,200", "5-5": "5", "0-1:5": "0", "007": "7", "0-99999": "0-99999",
		"2147483646": "2147483646",
	} {
		x, err := jobspec.ParseIndices(text)
		if err != nil || x.String() != want {
			t.Errorf("%q: %v, %v; want %s", text, x, err, want)
		}
	}
	for text, want := range map[string]struct {
		code   string
		column int
	}{
		"":                             {jobspec.CodeIndices, 1},
		"a":                            {jobspec.CodeIndices, 1},
		"1,,2":                         {jobspec.CodeIndices, 3},
		"0-9:0":                        {jobspec.CodeIndices, 1},
		"3:2":                          {jobspec.CodeIndices, 1},
		"1-2-3":                        {jobspec.CodeIndices, 1},
		"-1":                           {jobspec.CodeIndices, 1},
		" 1":                           {jobspec.CodeIndices, 1},
		"0-9%4":                        {jobspec.CodeIndices, 1},
		"0,2147483647":                 {jobspec.CodeIndices, 3},
		"99999999999999999999":         {jobspec.CodeIndices, 1},
		"9-1":                          {jobspec.CodeIndexOrder, 1},
		"0-9,5":                        {jobspec.CodeIndexOrder, 5},
		"0-8:2,3":                      {jobspec.CodeIndexOrder, 7},
		"7,3":                          {jobspec.CodeIndexOrder, 3},
		"0-100000":                     {jobspec.CodeElements, 1},
		"0-2147483646":                 {jobspec.CodeElements, 1},
		"0-99998,200000,200001-200002": {jobspec.CodeElements, 16},
		strings.Repeat("1,", 40000):    {jobspec.CodeElements, 1},
	} {
		_, err := jobspec.ParseIndices(text)
		var bad *jobspec.IndicesError
		if !errors.As(err, &bad) || bad.Code != want.code || bad.Column != want.column || bad.Why == "" || bad.Hint == "" {
			t.Errorf("%.40q: %#v, want %v", text, err, want)
		}
	}
}

func TestParseSlurmArray(t *testing.T) {
	for text, want := range map[string]jobspec.Array{
		"0-99:2%8":      {Indices: "0-98:2", MaxParallel: 8},
		"[0-15]%4":      {Indices: "0-15", MaxParallel: 4},
		"3,1,2":         {Indices: "1-3"},
		"0-8:2,1-9:2,5": {Indices: "0-9"},
		"1,3,5,7":       {Indices: "1-7:2"}, // shorter, and the same
		"5%0":           {Indices: "5"},
	} {
		a, err := jobspec.ParseSlurmArray(text)
		if text == "1,3,5,7" {
			want.Indices = "1,3,5,7" // already in order, so it stays as it was written
		}
		if err != nil || !reflect.DeepEqual(*a, want) {
			t.Errorf("%q: %+v, %v; want %+v", text, a, err, want)
		}
	}
	for _, text := range []string{"", "0-9%", "0-9%x", "0-9%-1", "0-9%999999", "[0-9", "5-1", "1,x", "5,0-2147483646",
		"%4"} {
		if a, err := jobspec.ParseSlurmArray(text); err == nil {
			t.Errorf("%q was read as %+v", text, a)
		}
	}
}

// TestElements compares every answer with a plain list of all indices.
func TestElements(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		var list []int
		for n := random.IntN(5); len(list) < 40 && random.IntN(30) > 0; n += 1 + random.IntN(4) {
			list = append(list, n)
		}
		if len(list) == 0 {
			continue
		}
		a := &jobspec.Array{Indices: jobspec.MakeIndices(list).String()}
		e := a.Elements()
		if e.Len() != len(list) {
			t.Fatalf("%s has %d elements, want %d", a.Indices, e.Len(), len(list))
		}
		for n := -1; n <= list[len(list)-1]+2; n++ {
			if got := e.Ordinal(n); got != slices.Index(list, n) {
				t.Fatalf("%s: index %d is element %d", a.Indices, n, got)
			}
		}
		for ordinal, index := range list {
			if a.Index(ordinal) != index {
				t.Fatalf("%s: element %d has index %d, want %d", a.Indices, ordinal, a.Index(ordinal), index)
			}
		}
		if e.Index(-1) != -1 || e.Index(len(list)) != -1 {
			t.Fatalf("%s: an element that is not there has an index", a.Indices)
		}
		someElements(t, random, e, list)
	}
}

// someElements names a random part of an array and wants the same part back.
func someElements(t *testing.T, random *rand.Rand, e jobspec.Elements, list []int) {
	t.Helper()
	var spans []jobspec.Span
	var want []int
	for ordinal, index := range list {
		if random.IntN(3) == 0 {
			continue
		}
		want = append(want, index)
		if n := len(spans); n > 0 && spans[n-1].Last == ordinal-1 {
			spans[n-1].Last = ordinal
		} else {
			spans = append(spans, jobspec.Span{First: ordinal, Last: ordinal})
		}
	}
	if len(want) == 0 {
		return
	}
	text := e.Text(spans)
	x, err := jobspec.ParseIndices(text)
	if err != nil {
		t.Fatalf("%v of %v is written %q: %v", want, list, text, err)
	}
	for i, index := range want {
		if n, ok := x.Ordinal(index); !ok || n != i {
			t.Fatalf("%v of %v is written %q", want, list, text)
		}
	}
	if x.Len() != len(want) {
		t.Fatalf("%v of %v is written %q", want, list, text)
	}
	got, missing, err := e.Select("[" + text + "," + "1000000-1000002]")
	if err != nil || missing != 3 || !slices.Equal(got, spans) {
		t.Fatalf("%q of %v selects %v (%d missing), %v; want %v", text, list, got, missing, err, spans)
	}
}

func TestText(t *testing.T) {
	a := &jobspec.Array{Indices: "0-99:2,200,300-302"}
	for _, test := range []struct {
		spans []jobspec.Span
		want  string
	}{
		{[]jobspec.Span{{First: 0, Last: 53}}, "0-98:2,200,300-302"},
		{[]jobspec.Span{{First: 0, Last: 1000}}, "0-98:2,200,300-302"},
		{[]jobspec.Span{{First: 0, Last: 0}, {First: 2, Last: 2}, {First: 4, Last: 4}}, "0-8:4"},
		{[]jobspec.Span{{First: 1, Last: 1}, {First: 3, Last: 3}}, "2,6"},
		{[]jobspec.Span{{First: 4, Last: 5}, {First: 50, Last: 51}}, "8,10,200,300"},
		{nil, ""},
	} {
		if got := a.Elements().Text(test.spans); got != test.want {
			t.Errorf("%v is written %q, want %q", test.spans, got, test.want)
		}
	}
}

// TestTextIsCheap writes an element set of an array of a hundred thousand without looking at each.
func TestTextIsCheap(t *testing.T) {
	e := (&jobspec.Array{Indices: "0-99999"}).Elements()
	if n := testing.AllocsPerRun(10, func() { _ = e.Text([]jobspec.Span{{First: 4, Last: 99999}}) }); n > 20 {
		t.Errorf("%v allocations", n)
	}
}

func TestParams(t *testing.T) {
	matrix := &jobspec.Array{Matrix: []jobspec.Axis{{Name: "lr", Values: []string{"1", "2", "3"}},
		{Name: "seed", Values: []string{"a", "b"}}}}
	rows := &jobspec.Array{Columns: []string{"x", "y"}, Rows: [][]string{{"1", "2"}, {"3", "4"}}}
	if matrix.Len() != 6 || rows.Len() != 2 {
		t.Fatalf("%d and %d elements", matrix.Len(), rows.Len())
	}
	seen := map[string]bool{}
	for i := range matrix.Len() {
		p := matrix.Params(i)
		if p[0].Name != "lr" || p[1].Name != "seed" || matrix.Index(i) != i || matrix.Ordinal(i) != i {
			t.Errorf("element %d: %v", i, p)
		}
		seen[p[0].Value+p[1].Value] = true
	}
	if len(seen) != 6 || matrix.Params(1)[1].Value != "b" || matrix.Params(2)[0].Value != "2" {
		t.Errorf("the last axis is not the fastest: %v, %v", matrix.Params(1), matrix.Params(2))
	}
	if p := rows.Params(1); p[0] != (jobspec.Param{Name: "x", Value: "3"}) ||
		p[1] != (jobspec.Param{Name: "y", Value: "4"}) {
		t.Errorf("%v", p)
	}
	if matrix.Params(6) != nil || matrix.Params(-1) != nil || (&jobspec.Array{Indices: "0-3"}).Params(1) != nil {
		t.Error("elements that are not there, and arrays without parameters, have parameters")
	}
}

// TestHugeMatrix counts without overflow: 2 to the power of 64 combinations are none.
func TestHugeMatrix(t *testing.T) {
	a := &jobspec.Array{}
	for range 64 {
		a.Matrix = append(a.Matrix, jobspec.Axis{Name: "x", Values: []string{"0", "1"}})
	}
	if a.Len() != 0 {
		t.Errorf("%d elements", a.Len())
	}
}

// TestTimes compares with the standard library over the whole range.
func TestTimes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 20000 {
		unix := random.Int64N(253402300800)
		zone := time.FixedZone("", (random.IntN(2*23*60)-23*60)*60)
		want := time.Unix(unix, 0).UTC().Format(time.RFC3339)
		if got := jobspec.FormatTime(unix); got != want {
			t.Fatalf("%d is written %s, want %s", unix, got, want)
		}
		text := time.Unix(unix, 500).In(zone).Format(time.RFC3339Nano)
		if len(text) < 20 || text[0] == '+' || text[:4] < "1970" || text[:4] > "9999" || text[4] != '-' {
			continue
		}
		if got, err := jobspec.ParseTime(text); err != nil || got != unix {
			t.Fatalf("%s is read as %d, %v; want %d", text, got, err, unix)
		}
	}
	for _, text := range []string{
		"", "now", "2026-03-01", "2026-03-01T08:00:00", "2026-02-29T08:00:00Z", "2026-13-01T08:00:00Z",
		"2026-00-01T08:00:00Z", "2026-01-00T08:00:00Z",
		"2026-01-01T24:00:00Z", "2026-01-01T00:60:00Z", "2026-01-01T00:00:60Z", "2026-01-01T00:00:00.Z",
		"2026-01-01T00:00:00+0100",
		"1969-12-31T23:59:59Z", "2026/01/01T00:00:00Z", "2026-01-01T00:00:00Zz", "２026-01-01T00:00:00Z",
	} {
		if got, err := jobspec.ParseTime(text); err == nil {
			t.Errorf("%q was read as %d", text, got)
		}
	}
	if got, err := jobspec.ParseTime("2024-02-29t23:59:59.75z"); err != nil || got != 1709251199 {
		t.Errorf("%d, %v", got, err)
	}
}

func FuzzIndices(f *testing.F) {
	for _, text := range []string{"0-99:2,200", "3,1,2%4", "[0-15]%4", "0-9,5", "1,3,5,9-20:3"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := jobspec.ParseSlurmArray(text)
		if err != nil {
			return
		}
		e := a.Elements()
		if e.Len() < 1 || e.Len() > jobspec.MaxElements {
			t.Fatalf("%q has %d elements", text, e.Len())
		}
		last := -1
		for i := range min(e.Len(), 1000) {
			n := e.Index(i)
			if n <= last || e.Ordinal(n) != i {
				t.Fatalf("%q: element %d has index %d behind %d, which is element %d", text, i, n, last, e.Ordinal(n))
			}
			last = n
		}
		if all := e.Text([]jobspec.Span{{First: 0, Last: e.Len() - 1}}); !slices.Equal(expand(all), expand(a.Indices)) {
			t.Fatalf("%q is written %s", text, all)
		}
	})
}

func expand(indices string) []int {
	x, _ := jobspec.ParseIndices(indices)
	var all []int
	for _, run := range x {
		for n := run.First; n <= run.Last; n += run.Step {
			all = append(all, n)
		}
	}
	return all
}
