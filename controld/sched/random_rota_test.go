package sched_test

import (
	"testing"

	"github.com/rota-hpc/rota/controld/sched/schedtest"
)

// TestContests plays random histories under the policies that displace jobs.
func TestContests(t *testing.T) {
	const steps = 25
	for _, policy := range []string{"rota", "fitgpp", "rand"} {
		t.Run(policy, func(t *testing.T) {
			seen := map[string]int{}
			n := schedtest.States(20_000) / steps
			first, last := uint64(1), uint64(n)
			if *schedtest.Seed != 0 {
				first, last = *schedtest.Seed, *schedtest.Seed
			}
			for seed := first; seed <= last; seed++ {
				c := schedtest.NewContest(seed, policy, seen)
				for step := range steps {
					c.Step()
					if err := c.Settle(); err != nil {
						t.Fatalf("seed=%d step %d: %v", seed, step, err)
					}
				}
			}
			t.Logf("%v", seen)
			want := []string{"te"}
			if policy == "rota" {
				want = []string{"te", "order", "first", "limit", "Preempting", "NoVictim", "suspend te", "suspend order",
					"paused", "resume"}
			}
			for _, what := range want {
				if *schedtest.Seed == 0 && seen[what] == 0 {
					t.Errorf("the histories had no %q: %v", what, seen)
				}
			}
		})
	}
}
