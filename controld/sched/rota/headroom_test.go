package rota

import (
	"testing"

	"github.com/rota-hpc/rota/controld/cluster"
)

// TestHeadroomWorth: the more best-effort jobs wait for each trial-and-error job that does, the
// less is kept free.
func TestHeadroomWorth(t *testing.T) {
	for _, c := range []struct {
		waits     cluster.Waits
		now, soon bool
	}{
		{cluster.Waits{}, true, true},
		{cluster.Waits{TE: 100}, true, true},
		{cluster.Waits{TE: 100, BE: 100 * tunables.WaitForTE}, true, true},
		{cluster.Waits{TE: 100, BE: 100*tunables.WaitForTE + 1}, true, false},
		{cluster.Waits{TE: 100, BE: 200 * tunables.WaitForTE}, true, false},
		{cluster.Waits{TE: 100, BE: 200*tunables.WaitForTE + 1}, false, false},
		{cluster.Waits{BE: 1}, false, false},
	} {
		if now, soon := worth(&c.waits); now != c.now || soon != c.soon {
			t.Errorf("%+v: room now %v and soon %v is worth keeping free, want %v and %v", c.waits, now, soon, c.now, c.soon)
		}
	}
}
