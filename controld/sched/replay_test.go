package sched_test

import (
	"testing"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/replay"
	"github.com/rota-hpc/rota/controld/sched"
	"github.com/rota-hpc/rota/controld/sched/schedtest"
)

// TestALogIsDecidedAgain records random histories under every policy, as a leader with a cycle
// cache writes them. Then it replays the logs: from the beginning with and without a cache, and
// from a snapshot in the middle. Every plan must be the same.
func TestALogIsDecidedAgain(t *testing.T) {
	for _, policy := range sched.Policies() {
		t.Run(policy, func(t *testing.T) {
			plans := 0
			for seed := range uint64(schedtest.States(900) / 30) {
				log, middle := record(t, 1+seed, policy)
				replays := map[string]*replay.Replay{
					"with a cache":    replay.New(fsm.New(cluster.DefaultConfig()), true),
					"without a cache": replay.New(fsm.New(cluster.DefaultConfig()), false),
				}
				replays["from a snapshot"] = replay.New(machineOf(t, middle), true)
				for name, r := range replays {
					for i := int(r.Machine().Index()); i < len(log); i++ {
						if err := r.Apply(uint64(i+1), log[i]); err != nil {
							t.Fatalf("policy %s seed %d, %s: entry %d: %v", policy, 1+seed, name, i+1, err)
						}
					}
					if !r.Same() || r.Identical != r.Plans {
						t.Fatalf("policy %s seed %d, %s: %+v\n%s", policy, 1+seed, name, r.Report, r.First)
					}
					plans += r.Plans
				}
			}
			if plans < 100 {
				t.Errorf("only %d plans were decided again", plans)
			}
		})
	}
}

// record plays a history and returns its log, and the state in the middle.
func record(t *testing.T, seed uint64, policy string) (log [][]byte, middle *state.View) {
	t.Helper()
	world := newLifeThat(seed, policy, func(e fsm.Entry) {
		b, err := fsm.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		log = append(log, b)
	})
	cache := &sched.Cache{}
	world.unjudged, world.decide = true, cache.Cycle
	for step := range 30 {
		if err := world.step(); err != nil {
			t.Fatalf("policy %s seed %d step %d: %v", policy, seed, step, err)
		}
		if step == 15 {
			middle = world.State.View()
		}
	}
	return log, middle
}
