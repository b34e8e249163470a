package judge

import (
	"slices"
	"testing"
)

// The best comes first: the least value, or with goal max the greatest; of equal ones the lower
// number.
func TestRanked(t *testing.T) {
	values := map[int]float64{1: 5, 2: 3, 3: 5, 4: 9}
	for goal, want := range map[string][]int{"": {2, 1, 3, 4}, "min": {2, 1, 3, 4}, "max": {4, 1, 3, 2}} {
		if got := Ranked(values, goal); !slices.Equal(got, want) {
			t.Errorf("goal %q: %v, want %v", goal, got, want)
		}
	}
	if got := Ranked(nil, "max"); len(got) != 0 {
		t.Errorf("nothing is ranked %v", got)
	}
}
