package show

import (
	"testing"

	"github.com/rota-hpc/rota/controld/api"
)

// TestTrialText: what was tried with a job is told in one way, whatever is known of it.
func TestTrialText(t *testing.T) {
	for want, trial := range map[string]api.Trial{
		"packed with 7: 1.31x, kept":            {What: "pack", With: 7, MeasuredGain: 1309},
		"packed with 9: 0.87x, undone":          {What: "pack", With: 9, MeasuredGain: 874, Undone: true},
		"packed with 9: never measured, undone": {What: "pack", With: 9, Undone: true},
		"packed with 9: not measured yet":       {What: "pack", With: 9},
		"packed: 1.40x expected, 1.31x measured, kept": {What: "pack", ExpectedGain: 1400,
			MeasuredGain: 1310},
		"moved to n3: 1.12x expected, 1.10x measured": {What: "migrate", ExpectedGain: 1120,
			MeasuredGain: 1100},
		"moved to n3: 1.12x expected, not measured yet": {What: "migrate", ExpectedGain: 1120},
		"moved to n3: 2.00x expected, 0.05x measured, brought nothing": {What: "migrate", ExpectedGain: 1999,
			MeasuredGain: 50, Undone: true},
	} {
		if got := Trial(&trial, "n3"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	e := api.Event{What: "migrate", ExpectedGain: 1120, Node: "n3", Text: "hidden"}
	if got := EventText(&e); got != "moved to n3: 1.12x expected, not measured yet" {
		t.Errorf("an event says %q", got)
	}
}
