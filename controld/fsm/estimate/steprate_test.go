package estimate

import (
	"slices"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
)

// TestPacesByPlacement keeps what workers on one node do apart from what as many do on several.
func TestPacesByPlacement(t *testing.T) {
	on := func(rate int64, nodes ...string) StepRate {
		a := model.Attempt{Rate: rate}
		for _, n := range nodes {
			a.Workers = append(a.Workers, model.Worker{Place: model.Place{Node: n}})
		}
		return stepRateOf(model.Elastic{First: 1, Fixed: 1}, &a) // a server comes first
	}
	var p StepRates
	for _, n := range []StepRate{on(300, "s", "a", "b"), on(100, "s", "a"), on(380, "s", "a", "a"), on(100, "s", "s"),
		on(340, "a", "b", "a")} {
		p = p.With(n, 7)
	}
	want := []StepRate{{Size: 1, Rate: 100}, {Size: 2, Rate: 380}, {Size: 2, Spread: true, Rate: 320}}
	if !slices.Equal(p.Sizes, want) || p.At != 7 {
		t.Errorf("got %v at %d, want %v", p.Sizes, p.At, want)
	}
}
