package rota

import (
	"testing"

	"github.com/rota-hpc/rota/controld/fsm/estimate"
)

// TestHeadroomWorth: the more best-effort jobs wait for each trial-and-error job that does, the
// less is kept free.
func TestHeadroomWorth(t *testing.T) {
	for _, c := range []struct {
		waits     estimate.QueueWaits
		now, soon bool
	}{
		{estimate.QueueWaits{}, true, true},
		{estimate.QueueWaits{TE: 100}, true, true},
		{estimate.QueueWaits{TE: 100, BE: 100 * 20}, true, true},
		{estimate.QueueWaits{TE: 100, BE: 100*20 + 1}, true, false},
		{estimate.QueueWaits{TE: 100, BE: 200 * 20}, true, false},
		{estimate.QueueWaits{TE: 100, BE: 200*20 + 1}, false, false},
		{estimate.QueueWaits{BE: 1}, false, false},
	} {
		if now, soon := worthKeeping(&c.waits, 20); now != c.now || soon != c.soon {
			t.Errorf("%+v: room now %v and soon %v is worth keeping free, want %v and %v", c.waits, now, soon, c.now, c.soon)
		}
	}
}
