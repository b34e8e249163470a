package fairshare_test

import (
	"testing"

	"github.com/rota-hpc/rota/controld/sched/schedtest"
)

// TestMishaps plays histories in which accounts reclaim while GPUs break, and nodes go down, are
// drained and are booted anew.
func TestMishapsWhileReclaiming(t *testing.T) {
	for _, policy := range []string{"fairshare", "rota"} {
		t.Run(policy, func(t *testing.T) {
			schedtest.PlayMishaps(t, func(seed uint64, seen map[string]int) (*schedtest.World, func() error) {
				q := newQuarrel(t, policy, seed, 17, seen)
				return q.World, q.next
			})
		})
	}
}
