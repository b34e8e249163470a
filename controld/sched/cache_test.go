package sched_test

import (
	"reflect"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched"
	"github.com/rota-hpc/rota/controld/sched/schedtest"
)

// TestCache plays random histories with one cache for each, and has every decision made on a new
// one as well: the plans must be the same, also when the cache is used with what a state shows in
// passing. What of the cache's memory was of use is counted, or the test would prove nothing.
func TestCache(t *testing.T) {
	for _, policy := range []string{"rota", "fairshare", "fitgpp", "elastic", "standard"} {
		t.Run(policy, func(t *testing.T) {
			repeated, due := 0, 0
			for seed := range uint64(schedtest.States(1_500) / 30) {
				l := newLife(1+seed, policy, map[string]int{})
				cache := &sched.Cache{}
				l.decide = func(v *state.View, now model.Instant, p model.Policy) (fsm.CommitPlan, model.Instant) {
					if l.random.IntN(2) == 0 {
						v = l.State.Present()
					}
					plan, wake := cache.Cycle(v, now, p)
					candidates, ends := cache.Reused()
					repeated, due = repeated+candidates, due+ends
					want, wakeWant := sched.Cycle(v, now, p)
					if !reflect.DeepEqual(plan, want) || wake != wakeWant {
						t.Fatalf("policy %s seed %d: %s, wake at %d, and on a new cache %s, wake at %d", policy, 1+seed, l.told(plan),
							wake, l.told(want), wakeWant)
					}
					return plan, wake
				}
				for step := range 30 {
					if step%10 == 9 { // ids are used up, so that attempts are on several pages
						l.must("submit x%d array=0-299 gpus=64", step)
						l.must("cancel x%d", step)
					}
					if err := l.step(); err != nil {
						t.Fatalf("seed %d step %d: %v", 1+seed, step, err)
					}
				}
			}
			if displaces := policy == "rota" || policy == "fitgpp"; due < 1000 || displaces && repeated < 50 {
				t.Errorf("%d pages were looked at for what is due, and victims of %d taken over", due, repeated)
			}
		})
	}
}
