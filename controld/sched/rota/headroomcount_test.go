package rota_test

import (
	"testing"

	"github.com/rota-hpc/rota/controld/sched/rota"
	"github.com/rota-hpc/rota/controld/sched/schedtest"
)

// TestHeadroomCount compares which nodes would take the jobs to come, found by their empty GPUs,
// with what is found by asking every node.
func TestHeadroomCount(t *testing.T) {
	counted := 0
	for seed := range uint64(schedtest.States(3_000) / 25) {
		c := schedtest.NewContest(1+seed, "rota", map[string]int{})
		for range 12 {
			c.Must("node m%02d gpus=%d cores=%d memory=%d", c.Random.IntN(40), 2+c.Random.IntN(7), 8+c.Random.IntN(8),
				8+c.Random.IntN(24))
		}
		for step := range 25 {
			for range 4 {
				c.Step()
			}
			v := c.State.View()
			tr := schedtest.TrialOf(v, c.Now)
			h := rota.NewHeadroom(tr)
			if h == nil {
				continue
			}
			h.WantSoon()
			for node := range v.Nodes() {
				for _, o := range h.Outlooks() {
					if said, want := o.Counted(tr.Room, node); said != want {
						t.Fatalf("seed %d step %d: node %d would take %b, said to take %b", 1+seed, step, node, want, said)
					}
				}
			}
			counted++
		}
	}
	if counted < 100 {
		t.Errorf("room was counted %d times: too seldom to prove anything", counted)
	}
}
