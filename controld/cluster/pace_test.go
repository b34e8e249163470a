package cluster

import (
	"slices"
	"testing"
)

// TestPacesByPlacement keeps what workers on one node do apart from what as many do on several.
func TestPacesByPlacement(t *testing.T) {
	on := func(rate int64, nodes ...string) Pace {
		a := Attempt{Rate: rate}
		for _, n := range nodes {
			a.Workers = append(a.Workers, Worker{Place: Place{Node: n}})
		}
		return paceOf(Elastic{First: 1, Fixed: 1}, &a) // a server comes first
	}
	var p Paces
	for _, n := range []Pace{on(300, "s", "a", "b"), on(100, "s", "a"), on(380, "s", "a", "a"), on(100, "s", "s"), on(340, "a", "b", "a")} {
		p = p.with(n, 7)
	}
	want := []Pace{{Size: 1, Rate: 100}, {Size: 2, Rate: 380}, {Size: 2, Apart: true, Rate: 320}}
	if !slices.Equal(p.Sizes, want) || p.At != 7 {
		t.Errorf("got %v at %d, want %v", p.Sizes, p.At, want)
	}
}
