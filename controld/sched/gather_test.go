package sched_test

import (
	"math/rand/v2"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched"
	"github.com/rota-hpc/rota/controld/sched/preempt"
	"github.com/rota-hpc/rota/controld/sched/schedtest"
)

// newPieces makes a cluster with a little room on each node, in which a job of several workers or
// GPUs waits.
func newPieces(seed uint64) *schedtest.Contest {
	c := &schedtest.Contest{World: schedtest.NewWorld(), Random: rand.New(rand.NewPCG(seed, 29)), Policy: "rota",
		Seen: map[string]int{}}
	c.Unchecked = true
	c.Must("policy name=rota p=1 min-runtime=1s min-turn=20m reserve-after=%dm max-bypass=1000", 10+c.Random.IntN(1000))
	for i := range 2 + c.Random.IntN(4) {
		c.Must("node n%d gpus=%d cores=64 memory=256", i, 4+c.Random.IntN(5))
	}
	for i := range 6 + c.Random.IntN(12) {
		c.Must("submit v%d account=a%d gpus=%d grace=%ds %s", i, c.Random.IntN(3), 1+c.Random.IntN(3), 1+c.Random.IntN(60),
			[]string{"save=yes", "save=yes", "save=20m", ""}[c.Random.IntN(4)])
	}
	c.Must("cycle")
	for j := range c.State.View().Live() {
		c.Must("run %s", c.Names[j.ID])
	}
	for j := range c.State.View().Jobs() {
		if j.Live() == nil || c.Random.IntN(2) == 0 {
			c.Must("%s %s", map[bool]string{true: "cancel", false: "exit"}[j.Live() == nil], c.Names[j.ID])
		}
	}
	c.Must("advance %dm", 1+c.Random.IntN(120))
	c.Must("submit x account=a%d gang=%dx%d per-node=%d", c.Random.IntN(3), 1+c.Random.IntN(2), 2+c.Random.IntN(5),
		1+c.Random.IntN(2))
	c.Must("cycle")
	return c
}

// TestWhoMovesGoesOn has jobs move for a larger one in random states. The moving jobs can save
// their state and are smaller. Once they have left, all of them run again at once, and so does the
// larger job.
func TestWhoMovesGoesOn(t *testing.T) {
	moved, several := 0, 0
	first, last := uint64(1), uint64(schedtest.States(4_000))
	if *schedtest.Seed != 0 {
		first, last = *schedtest.Seed, *schedtest.Seed
	}
	for seed := first; seed <= last; seed++ {
		c := newPieces(seed)
		c.Must("advance %dm", 1+c.Random.IntN(60))
		v := c.State.View()
		x := v.Job(c.Ids["x"])
		plan, _ := sched.Cycle(v, c.Now, v.Config().Policy)
		var movers []model.JobID
		for _, action := range plan.Actions {
			a, ok := action.(*fsm.StopJob)
			if !ok || a.Cause != model.CauseMigrate {
				continue
			}
			if j := v.Job(a.Job); j.Spec.Checkpoint == nil || j.Width() >= x.Width() || a.For != x.ID ||
				c.Now-j.Live().Started.At < 20*60_000 {
				t.Fatalf("seed=%d: %s moves for %d", seed, c.Names[j.ID], a.For)
			}
			movers = append(movers, a.Job)
		}
		if len(movers) == 0 {
			continue
		}
		moved++
		if len(movers) > 1 {
			several++
		}
		if err := c.Commit(plan); err != nil {
			t.Fatalf("seed=%d: %v", seed, err)
		}
		for _, id := range movers {
			c.Must("exit code=85 %s", c.Names[id])
			c.Must("cycle")
		}
		for _, id := range append(movers, x.ID) {
			if j := c.State.View().Job(id); j.Live() == nil {
				t.Fatalf("seed=%d: %s waits after %d have moved for %s: %+v", seed, c.Names[id], len(movers), c.Names[x.ID],
					j.Reason)
			} else if preempt.Displacements(j) > 0 {
				t.Fatalf("seed=%d: %s has moved, and that counts as a displacement", seed, c.Names[id])
			}
		}
	}
	t.Logf("in %d states jobs moved, in %d several", moved, several)
	if *schedtest.Seed == 0 && (moved < int(last)/40 || several == 0) {
		t.Errorf("only in %d states jobs moved, in %d several", moved, several)
	}
}
