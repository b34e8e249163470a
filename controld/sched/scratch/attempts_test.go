package scratch

import (
	"testing"

	"github.com/rota-hpc/rota/controld/model"
)

// TestAttainedService: each GPU second counts once, whether it was charged already or not.
func TestAttainedService(t *testing.T) {
	const s = 1000
	resized := &model.Resizing{N: 1, At: 110 * s, Before: model.Ledger{GPUMS: 300 * s}}
	for what, c := range map[string]struct {
		charged int64
		attempt model.Attempt
		want    int64
	}{
		"its first attempt":        {0, model.Attempt{}, 2 * 140 * s},
		"a later attempt":          {500 * s, model.Attempt{}, 780 * s},
		"resized while it ran":     {300 * s, model.Attempt{Resizing: resized}, 380 * s},
		"suspended":                {0, model.Attempt{Switch: &model.Switching{Number: 1, Since: 50 * s}}, 2 * 40 * s},
		"it has part of its GPU":   {0, model.Attempt{Packing: &model.Packing{Share: 500, Since: 20 * s}}, 2 * 140 * s},
		"it went on after a pause": {0, model.Attempt{Switch: &model.Switching{Number: 2, Total: 7 * s}}, 2 * 140 * s},
	} {
		j := &model.Job{Workers: 2, Request: model.Request{Active: model.Vector{GPUs: model.WholeGPU}},
			Ledger: model.Ledger{GPUMS: c.charged}}
		c.attempt.Assigned.At = 10 * s
		if got := AttainedService(j, &c.attempt, 150*s); got != c.want {
			t.Errorf("%s: %d, want %d", what, got, c.want)
		}
	}
}
