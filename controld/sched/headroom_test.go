package sched

import (
	"testing"

	"github.com/rota-hpc/rota/controld/cluster"
)

// TestHeadroomWorth: the more best-effort jobs wait for each trial-and-error job that does, the less is kept free.
func TestHeadroomWorth(t *testing.T) {
	h := &headroom{want: 3}
	for _, c := range []struct {
		waits cluster.Waits
		want  int
	}{
		{cluster.Waits{}, 3},
		{cluster.Waits{TE: 100}, 3},
		{cluster.Waits{TE: 100, BE: 100 * waitForTE}, 3},
		{cluster.Waits{TE: 100, BE: 100*waitForTE + 1}, 1},
		{cluster.Waits{TE: 100, BE: 200 * waitForTE}, 1},
		{cluster.Waits{TE: 100, BE: 200*waitForTE + 1}, 0},
		{cluster.Waits{BE: 1}, 0},
	} {
		if got := h.worth(&c.waits); got != c.want {
			t.Errorf("%+v: %d nodes are worth keeping free, want %d", c.waits, got, c.want)
		}
	}
}
