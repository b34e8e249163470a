package sched_test

import (
	"bytes"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/sched"
	"github.com/rota-hpc/rota/controld/sched/schedtest"
)

// TestCache plays random histories under every policy with one cache for each. Every decision is
// made again on a new cache, and on the state that a snapshot of the view becomes. The plans must
// be the same to the byte, even if the cache is used on states seen in passing. The test counts how
// often the cache's memory was of use, or it would prove nothing.
func TestCache(t *testing.T) {
	for _, policy := range sched.Policies() {
		t.Run(policy, func(t *testing.T) {
			repeated, due := 0, 0
			for seed := range uint64(schedtest.States(1_500) / 30) {
				l := newLife(1+seed, policy, map[string]int{})
				l.unjudged = true
				cache := &sched.Cache{}
				l.decide = func(v *state.View, now model.Instant, p cluster.Policy) (fsm.CommitPlan, model.Instant) {
					if l.random.IntN(2) == 0 {
						v = l.State.Present()
					}
					plan, wake := cache.Cycle(v, now, p)
					candidates, ends := cache.Reused()
					repeated, due = repeated+candidates, due+ends
					want, wakeWant := sched.Cycle(v, now, p)
					if !bytes.Equal(encoded(t, plan), encoded(t, want)) || wake != wakeWant {
						t.Fatalf("policy %s seed %d: %s, wake at %d, and on a new cache %s, wake at %d", policy, 1+seed, l.told(plan),
							wake, l.told(want), wakeWant)
					}
					if l.random.IntN(8) == 0 {
						again, wakeAgain := sched.Cycle(restored(t, v), now, p)
						if !bytes.Equal(encoded(t, plan), encoded(t, again)) || wake != wakeAgain {
							t.Fatalf("policy %s seed %d: %s, wake at %d, and from a snapshot %s, wake at %d", policy, 1+seed,
								l.told(plan), wake, l.told(again), wakeAgain)
						}
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

// encoded is a plan as the log has it.
func encoded(t *testing.T, plan fsm.CommitPlan) []byte {
	t.Helper()
	b, err := fsm.Encode(fsm.Entry{Command: plan})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// restored is the state of a view after it has been written and read.
func restored(t *testing.T, v *state.View) *state.View {
	t.Helper()
	return machineOf(t, v).View()
}

// machineOf goes on from the state of a view after it has been written and read.
func machineOf(t *testing.T, v *state.View) *fsm.Machine {
	t.Helper()
	var snapshot bytes.Buffer
	if err := v.WriteSnapshot(&snapshot); err != nil {
		t.Fatal(err)
	}
	m, err := fsm.ReadSnapshot(&snapshot)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
