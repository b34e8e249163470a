package table

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestTableIsAMapWithFreeViews compares a table with a map, and views with copies of the map.
func TestTableIsAMapWithFreeViews(t *testing.T) {
	for _, seed := range []uint64{1, 2, 3, 4, 5, 6} {
		r := rand.New(rand.NewPCG(seed, 2))
		var tab Table[int]
		model := map[int64]int{}
		type pair struct {
			view Table[int]
			want map[int64]int
		}
		var views []pair
		for step := range 20_000 {
			i := r.Int64N(2000) + int64(step)/4
			if r.IntN(3) == 0 {
				tab.Drop(i)
				delete(model, i)
			} else {
				tab.Set(i, step)
				model[i] = step
			}
			if r.IntN(1000) == 0 {
				views = append(views, pair{tab.View(), maps.Clone(model)})
			}
		}
		views = append(views, pair{tab, model})
		for _, p := range views {
			if got := maps.Collect(p.view.From(0)); !maps.Equal(got, p.want) || p.view.Size() != len(p.want) {
				t.Fatalf("seed %d: table has %d values, want %d", seed, len(got), len(p.want))
			}
			last := int64(-1)
			for i, v := range p.view.From(500) {
				if got, ok := p.view.Get(i); i <= last || i < 500 || !ok || got != v {
					t.Fatalf("seed %d: value %d after %d", seed, i, last)
				}
				if n, ok := p.view.Before(i); !ok || n != v {
					t.Fatalf("seed %d: before(%d) is %d, %t", seed, i, n, ok)
				}
				if next := i + 1; p.want[next] == 0 {
					if n, ok := p.view.Before(next); !ok || n != v {
						t.Fatalf("seed %d: before(%d) is %d, %t, not value %d", seed, next, n, ok, i)
					}
				}
				last = i
			}
		}
	}
}

// TestTableWithout leaves out of one table the numbers of another.
func TestTableWithout(t *testing.T) {
	var all, some Table[int]
	r := rand.New(rand.NewPCG(1, 3))
	var want []int
	for i := range 10_000 {
		if r.IntN(3) > 0 {
			all.Set(int64(i), i)
			if i >= 3000 && i < 6000 && r.IntN(2) == 0 {
				some.Set(int64(i), -i)
			} else {
				want = append(want, i)
			}
		}
	}
	some.Set(20_000, 1)
	if got := slices.Collect(all.Without(&some)); !slices.Equal(got, want) {
		t.Errorf("%d values are left, want %d", len(got), len(want))
	}
	for v := range all.Without(&some) {
		if v > 4000 { // a caller that has seen enough stops
			break
		}
	}
}

func TestTableForgetsPages(t *testing.T) {
	var tab Table[int]
	for i := range int64(100_000) {
		tab.Set(i, 1)
		tab.Drop(i - 10)
	}
	pages := 0
	for range tab.AllPages {
		pages++
	}
	if pages > 2 || len(tab.shelf) > 2 {
		t.Fatalf("%d pages on %d shelves for 10 values", pages, len(tab.shelf))
	}
}

// A table that is empty every now and then uses its last page again, which no view may notice.
func TestTableUsesAnEmptyPageAgain(t *testing.T) {
	var tab Table[int]
	var views []Table[int]
	for round := range 100 {
		tab.Set(int64(round), round)
		if round%3 == 0 {
			views = append(views, tab.View())
		}
		tab.Drop(int64(round))
		if round%7 == 0 {
			tab.View()
		}
		tab.Set(int64(round)+1000, round) // another page, which may be the last one
		tab.Drop(int64(round) + 1000)
		if !tab.Empty() {
			t.Fatalf("round %d: %d values are left", round, tab.Size())
		}
	}
	for i, v := range views {
		if got, want := maps.Collect(v.From(0)), map[int64]int{int64(3 * i): 3 * i}; !maps.Equal(got, want) {
			t.Errorf("view %d has %v, want %v", i, got, want)
		}
	}
	if n := testing.AllocsPerRun(100, func() { tab.Set(5, 5); tab.Drop(5) }); n > 2 {
		t.Errorf("a value that comes and goes allocates %v times: only the shelf and its list are new", n)
	}
}

// A few numbers far apart take little, and are found from either side.
func TestTableOfFewNumbersFarApart(t *testing.T) {
	var tab Table[int]
	numbers := []int64{1, 300, 65_536*3 - 1, 65_536 * 3, 400_000_000}
	for i, n := range numbers {
		tab.Set(n, i)
	}
	if len(tab.shelf) > 10_000 {
		t.Errorf("%d shelves", len(tab.shelf))
	}
	for i, n := range numbers {
		for _, above := range []int64{n, n + 1, n + 100_000} {
			want := i
			for k, m := range numbers {
				if m <= above {
					want = k
				}
			}
			if got, ok := tab.Before(above); !ok || got != want {
				t.Errorf("before(%d) is %d, %t, want %d", above, got, ok, want)
			}
		}
	}
	if _, ok := tab.Before(0); ok {
		t.Error("there is something before the first")
	}
	var got []int64
	for n := range tab.From(300) {
		got = append(got, n)
	}
	if !slices.Equal(got, numbers[1:]) {
		t.Errorf("from 300: %v", got)
	}
}
