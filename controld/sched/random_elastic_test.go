package sched_test

import (
	"testing"

	"github.com/rota-hpc/rota/controld/sched/schedtest"
)

// TestElasticHistories plays random histories under the policies that give jobs more and fewer
// workers.
func TestElasticHistories(t *testing.T) {
	const steps = 25
	for _, policy := range []string{"elastic", "dragon", "static", "rota"} {
		t.Run(policy, func(t *testing.T) {
			seen := map[string]int{}
			first, last := uint64(1), uint64(schedtest.States(20_000)/steps)
			if *schedtest.Seed != 0 {
				first, last = *schedtest.Seed, *schedtest.Seed
			}
			for seed := first; seed <= last; seed++ {
				s := schedtest.NewStretched(seed, policy, seen)
				for step := range steps {
					s.Step()
					if err := s.Settle(); err != nil {
						t.Fatalf("seed=%d step %d: %v", seed, step, err)
					}
				}
			}
			t.Logf("%v", seen)
			want := map[string][]string{"elastic": {"shrink", "grow", "needed"}, "dragon": {"grow", "back"},
				"rota": {"grow", "shrink"}}
			for _, what := range want[policy] {
				if *schedtest.Seed == 0 && seen[what] == 0 {
					t.Errorf("the histories had no %q: %v", what, seen)
				}
			}
		})
	}
}
