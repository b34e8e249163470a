package preempt_test

import (
	"testing"

	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/preempt"
	"github.com/rota-hpc/rota/controld/sched/schedtest"
)

// TestShutNodes proves that a node which is passed over by its GPUs alone would have offered
// nothing.
func TestShutNodes(t *testing.T) {
	passed := 0
	for seed := range uint64(schedtest.States(2_000) / 25) {
		c := schedtest.NewContest(1+seed, "rota", map[string]int{})
		for step := range 25 {
			c.Step()
			v := c.State.View()
			tr := schedtest.TrialOf(v, c.Now)
			m := preemptorOn(tr)
			r := m.All()
			for j := range v.Jobs() {
				if !j.Waits() {
					continue
				}
				g := fit.NewGang(v, j)
				s := preempt.NewSearch(tr, r, preempt.Question{Gang: &g})
				bound := int64(c.Random.IntN(8)) * preempt.One
				for node := range v.Nodes() {
					if !s.PassedOver(node, &g.Component, bound) || tr.Room.Whole(node) {
						continue
					}
					passed++
					if s.Offers(&g.Component, node, bound) {
						t.Fatalf("seed %d step %d: node %d offers something", 1+seed, step, node)
					}
				}
			}
		}
	}
	if passed < 1000 {
		t.Errorf("%d nodes were passed over: too few to prove anything", passed)
	}
}
