package sim

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/rota-hpc/rota/controld/sim/trace"
)

// scattered returns a workload in which gangs of two workers, which are half as fast on two nodes,
// often find room on two nodes only.
func scattered(seed uint64, jobs int) *trace.Trace {
	r := rand.New(rand.NewPCG(seed, 3))
	t := workload()
	at := int64(0)
	for i := range jobs {
		at += r.Int64N(56)
		j := job(fmt.Sprint(i), at, 60+r.Int64N(120), 1+r.Int64N(3))
		if i%3 == 0 {
			j = gang(fmt.Sprint(i), at, 240+r.Int64N(240), 2, 4)
			j.Locality[trace.OneRack] = trace.FullRate / 2
		}
		j.Grace, j.Restart, j.Saves = 30_000, minute, trace.SavesSignal
		t.Jobs = append(t.Jobs, j)
	}
	return t
}

// TestGangsMoveTogether: jobs end sooner if gangs move to one node when there is room, under any
// policy, with all invariants checked.
func TestGangsMoveTogether(t *testing.T) {
	for _, policy := range []string{"standard", "rota"} {
		var on, off float64
		moves := 0
		for seed := range uint64(3) {
			tr := scattered(seed, 300)
			before := mustRun(t, tr, setup(t, "6x64c/256g/8gpu", policy))
			off += before.Classes["all"].JCTS.Mean
			r := mustRun(t, tr, setup(t, "6x64c/256g/8gpu", policy+":migrate=on"))
			on += r.Classes["all"].JCTS.Mean
			moves += r.Migrations - before.Migrations
			if r.Unended > 0 || len(r.Notes) > 0 {
				t.Errorf("%s: %d jobs did not end, %v", policy, r.Unended, r.Notes)
			}
		}
		t.Logf("%s: mean completion time %.0f s instead of %.0f s, %d moves more", policy, on/3, off/3, moves)
		if moves == 0 || on >= off {
			t.Errorf("%s: %d moves, mean completion time %.0f s instead of %.0f s", policy, moves, on/3, off/3)
		}
	}
}
