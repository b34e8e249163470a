package sched

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/rota-hpc/rota/controld/cluster"
)

// TestGlance proves that the line is the same whether groups are passed over by their fronts or looked at one by one.
func TestGlance(t *testing.T) {
	const steps = 25
	for _, policy := range []string{"rota", "standard", "fitgpp"} {
		passed := 0
		for seed := range uint64(states(4_000) / steps) {
			c := newContest(1+seed, policy, map[string]int{})
			for step := range steps {
				for range 4 {
					c.step()
				}
				v := c.state.View()
				quick, n := lineOf(v, c.now, true)
				if slow, _ := lineOf(v, c.now, false); quick != slow {
					t.Fatalf("policy %s seed %d step %d: the line is\n%s\nand by looking at every group\n%s", policy, 1+seed, step, quick, slow)
				}
				passed += n
				if err := c.settle(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if passed < 100 {
			t.Errorf("policy %s: only %d groups were passed over", policy, passed)
		}
	}
}

// lineOf writes down the line that a cycle begins with, and when it would be woken, and counts the groups that were passed over.
func lineOf(v *cluster.View, now cluster.Instant, quick bool) (text string, passed int) {
	t := newTrial(v, now, v.Config().Policy)
	expire(t)
	t.byService = v.Config().Policy.Name == "rota"
	var q *glance
	if quick {
		q = newGlance(t)
	}
	l := orderBy(t, q)
	for _, list := range []contenders{l.open, l.heads} {
		for _, c := range list {
			text += fmt.Sprintf("%d ", c.job.ID)
		}
		text += "\n"
	}
	for _, account := range slices.Sorted(maps.Keys(l.first)) {
		text += fmt.Sprintf("%s: %d ", account, l.first[account].ID)
	}
	if q != nil {
		passed = q.passed
	}
	return fmt.Sprintf("%s\nwake at %d", text, t.wake), passed
}
