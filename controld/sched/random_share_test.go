package sched_test

import (
	"slices"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm/grid"
	"github.com/rota-hpc/rota/controld/sched/schedtest"
)

// brokenShares are histories in which one rule was broken. More of a node was promised than would
// be free there. A promise was made and given up for ever. Two jobs that were promised a node
// waited for each other.
var brokenShares = map[string][]uint64{"rota": {516, 977, 1490, 4977}}

// TestSharedContests plays random histories of jobs that share GPUs. Whatever is planned the state
// takes, nothing is promised twice, and what could start does.
func TestSharedContests(t *testing.T) {
	const steps = 25
	for _, policy := range []string{"standard", "rota", "fairshare", "backfill", "easy", "fitgpp", "rand"} {
		t.Run(policy, func(t *testing.T) {
			seen := map[string]int{}
			n := schedtest.States(1_000) / steps
			if policy == "rota" {
				n *= 5
			}
			seeds := slices.Clone(brokenShares[policy])
			for seed := range uint64(n) {
				seeds = append(seeds, seed+1)
			}
			if *schedtest.Seed != 0 {
				seeds = []uint64{*schedtest.Seed}
			}
			for _, seed := range seeds {
				c := schedtest.NewContest(seed, policy, seen)
				for step := range steps {
					c.StepShared()
					if err := c.Settle(); err != nil {
						t.Fatalf("seed=%d step %d: %v", seed, step, err)
					}
					seen["shared"] += shared(c.State.View().Grid())
				}
			}
			t.Logf("%v", seen)
			if *schedtest.Seed == 0 && seen["shared"] < n {
				t.Errorf("GPUs were shared too seldom: %v", seen)
			}
		})
	}
}

// shared counts the nodes with GPUs that are shared.
func shared(g *grid.Grid) int {
	n := 0
	for i := range g.Len() {
		if g.SharedGPUs(i) != 0 {
			n++
		}
	}
	return n
}
