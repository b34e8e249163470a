package sched_test

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"testing"

	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/sched/schedtest"
)

// TestLicensesAreNeverOvercommitted runs jobs and arrays under several policies, each with some of
// two scarce licences. The invariants of the state hold, no planned start is refused, and in the
// end every job has run.
func TestLicensesAreNeverOvercommitted(t *testing.T) {
	for seed, policy := range []string{"standard", "rota", "fairshare", "backfill", "dragon"} {
		t.Run(policy, func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(seed), 24))
			w := schedtest.NewWorld()
			run := func(format string, args ...any) {
				t.Helper()
				line := fmt.Sprintf(format, args...)
				if err := w.Run(line); err != nil {
					t.Fatalf("seed %d: %s: %v", seed, line, err)
				}
			}
			run("policy name=%s", policy)
			run("node n1 gpus=8 cores=64")
			run("node n2 gpus=8 cores=64")
			run("license a=3 b=2")
			for i := range 40 {
				array := ""
				if i%4 == 0 {
					array = " array=0-3"
				}
				run("submit j%d gpus=%d licenses=a:%d,b:%d%s", i, r.IntN(3), 1+r.IntN(3), 1+r.IntN(2), array)
			}
			for step := 0; ; step++ {
				if step > 400 {
					t.Fatalf("seed %d: jobs still wait after %d cycles", seed, step)
				}
				run("advance 60s")
				run("cycle")
				v := w.State.View()
				if err := w.State.Check(); err != nil {
					t.Fatalf("seed %d, step %d: %v", seed, step, err)
				}
				held := cluster.HeldLicenses(v.Live())
				if held["a"] > 3 || held["b"] > 2 {
					t.Fatalf("seed %d, step %d: %v are held", seed, step, held)
				}
				next, stop := iter.Pull(v.Live())
				j, any := next()
				if stop(); !any {
					break
				}
				run("run %s", w.Names[j.ID])
				run("exit %s", w.Names[j.ID])
			}
			for j := range w.State.View().Jobs() {
				if !j.State.Final() {
					t.Errorf("seed %d: %s never ended", seed, w.Names[j.ID])
				}
			}
		})
	}
}
