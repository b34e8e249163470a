package sched

import (
	"math/rand/v2"
	"testing"

	"github.com/rota-hpc/rota/controld/cluster"
)

// newPieces makes a cluster with a little room on each node, in which a job of several workers or GPUs waits.
func newPieces(seed uint64) *contest {
	c := &contest{world: newWorld(), random: rand.New(rand.NewPCG(seed, 29)), policy: "rota", seen: map[string]int{}}
	c.unchecked = true
	c.must("policy name=rota p=1 min-runtime=1s min-turn=20m reserve-after=%dm max-bypass=1000", 10+c.random.IntN(1000))
	for i := range 2 + c.random.IntN(4) {
		c.must("node n%d gpus=%d cores=64 memory=256", i, 4+c.random.IntN(5))
	}
	for i := range 6 + c.random.IntN(12) {
		c.must("submit v%d account=a%d gpus=%d grace=%ds %s", i, c.random.IntN(3), 1+c.random.IntN(3), 1+c.random.IntN(60), []string{"save=yes", "save=yes", "save=20m", ""}[c.random.IntN(4)])
	}
	c.must("cycle")
	for j := range c.state.View().Live() {
		c.must("run %s", c.names[j.ID])
	}
	for j := range c.state.View().Jobs() {
		if j.Live() == nil || c.random.IntN(2) == 0 {
			c.must("%s %s", map[bool]string{true: "cancel", false: "exit"}[j.Live() == nil], c.names[j.ID])
		}
	}
	c.must("advance %dm", 1+c.random.IntN(120))
	c.must("submit x account=a%d gang=%dx%d per-node=%d", c.random.IntN(3), 1+c.random.IntN(2), 2+c.random.IntN(5), 1+c.random.IntN(2))
	c.must("cycle")
	return c
}

// TestWhoMovesGoesOn has jobs move for a larger one in random states: they can save their state and are smaller, and once they have left
// all of them run again at once, and the larger one too.
func TestWhoMovesGoesOn(t *testing.T) {
	moved, several := 0, 0
	first, last := uint64(1), uint64(states(1_000))
	if *seedFlag != 0 {
		first, last = *seedFlag, *seedFlag
	}
	for seed := first; seed <= last; seed++ {
		c := newPieces(seed)
		c.must("advance %dm", 1+c.random.IntN(60))
		v := c.state.View()
		x := v.Job(c.ids["x"])
		plan, _ := Cycle(v, c.now, v.Config().Policy)
		var movers []cluster.JobID
		for _, a := range plan.Actions {
			if a.Stop == nil || a.Stop.Cause != cluster.CauseMigrate {
				continue
			}
			if j := v.Job(a.Stop.Job); j.Spec.Checkpoint == nil || j.Width() >= x.Width() || a.Stop.For != x.ID || c.now-j.Live().Started.At < 20*60_000 {
				t.Fatalf("seed=%d: %s moves for %d", seed, c.names[j.ID], a.Stop.For)
			}
			movers = append(movers, a.Stop.Job)
		}
		if len(movers) == 0 {
			continue
		}
		moved++
		if len(movers) > 1 {
			several++
		}
		if err := c.commit(plan); err != nil {
			t.Fatalf("seed=%d: %v", seed, err)
		}
		for _, id := range movers {
			c.must("exit code=85 %s", c.names[id])
			c.must("cycle")
		}
		for _, id := range append(movers, x.ID) {
			if j := c.state.View().Job(id); j.Live() == nil {
				t.Fatalf("seed=%d: %s waits after %d have moved for %s: %+v", seed, c.names[id], len(movers), c.names[x.ID], j.Reason)
			} else if displacements(j) > 0 {
				t.Fatalf("seed=%d: %s has moved, and that counts as a displacement", seed, c.names[id])
			}
		}
	}
	t.Logf("in %d states jobs moved, in %d several", moved, several)
	if *seedFlag == 0 && (moved < int(last)/20 || several == 0) {
		t.Errorf("only in %d states jobs moved, in %d several", moved, several)
	}
}
