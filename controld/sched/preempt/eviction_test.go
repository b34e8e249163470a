package preempt_test

import (
	"fmt"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/sched/preempt"
	"github.com/rota-hpc/rota/controld/sched/schedtest"
)

// TestEvictionHolds: victims that leave free a place for the job, GPU by GPU. If the search finds
// no victims, no single victim would have been enough.
func TestEvictionHolds(t *testing.T) {
	found, none := 0, 0
	first, last := uint64(1), uint64(schedtest.States(1_000))
	if *schedtest.Seed != 0 {
		first, last = *schedtest.Seed, *schedtest.Seed
	}
	for seed := first; seed <= last; seed++ {
		c := schedtest.NewContest(seed, "rota", map[string]int{})
		for k := range 4 + c.Random.IntN(8) {
			c.MustShare(fmt.Sprintf("v%d", k), 100+c.Random.IntN(899), fmt.Sprintf("cores=%d memory=%d grace=%ds",
				1+c.Random.IntN(3), 1+c.Random.IntN(4), 1+c.Random.IntN(600)))
		}
		c.Must("submit w gpus=%d cores=1 memory=1", 1+c.Random.IntN(2))
		c.Must("cycle")
		c.Must("advance 1h")
		if seed%2 == 0 {
			c.Must("submit x class=te gpus=%d cores=%d memory=%d", 1+c.Random.IntN(3), 1+c.Random.IntN(6), 1+c.Random.IntN(8))
		} else {
			c.MustShare("x", 100+c.Random.IntN(899), fmt.Sprintf("class=te cores=%d memory=%d", 1+c.Random.IntN(6),
				1+c.Random.IntN(8)))
		}
		v := c.State.View()
		m := preemptorOn(schedtest.TrialOf(v, c.Now))
		m.All()
		g := m.Cycle().Gang(v.Job(c.Ids["x"]))
		m.Cycle().Room.LiftHeads()
		set := m.SharedCheapest(&g)
		if set != nil {
			if found++; !m.Frees(set, &g) {
				t.Fatalf("seed=%d: %v leave node %d for %+v, which does not fit there then", seed, set.Candidates,
					set.Claims[0].Node, g.Request)
			}
			continue
		}
		none++
		for i := range m.Candidates.List {
			one := &preempt.Set{Candidates: []int32{int32(i)}}
			for n := range v.Nodes() {
				one.Claims = append(one.Claims, estimate.NodeResources{Node: n, Room: g.Request})
			}
			if m.Frees(one, &g) {
				t.Fatalf("seed=%d: no job is found to leave for %+v, but %d alone would do", seed, g.Request, i)
			}
		}
	}
	if *schedtest.Seed == 0 && (found < int(last)/4 || none == 0) {
		t.Errorf("%d sets found and %d times none: that proves too little", found, none)
	}
}
