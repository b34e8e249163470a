package rota_test

import (
	"fmt"
	"testing"

	"github.com/rota-hpc/rota/controld/sched/schedtest"
)

// TestAnAccountLendsItsPartOnce has trial-and-error jobs come one after another. Each takes little
// of an account that has a quota, and all of them no more than te_borrow. It notices a te_borrow
// that lends without a limit. GPUs that an account has already lent, to waiting or leaving jobs,
// must count for the next job.
func TestAnAccountLendsItsPartOnce(t *testing.T) {
	const quota = 20
	for _, c := range []struct{ borrow, want int }{
		{0, 2}, {-1, 0}, {1, 1}, {50, 1}, {99, 1}, {100, 2}, {149, 2}, {150, 3}, {250, 5}, {1000, 8},
	} {
		for _, gone := range []bool{true, false} { // whether those that were asked to leave have left
			w := schedtest.NewWorld()
			must := func(format string, args ...any) {
				t.Helper()
				if err := w.Run(fmt.Sprintf(format, args...)); err != nil {
					t.Fatal(err)
				}
			}
			must("policy name=rota p=100 min-runtime=1s min-turn=10h te-gpus=100 te-borrow=%d", c.borrow)
			must("node n1 gpus=%d cores=64 memory=256", quota)
			must("account lender deserved=%d", quota)
			for i := range quota {
				must("submit l%d account=lender gpus=1 grace=10m save=yes", i)
			}
			must("cycle")
			for i := range quota {
				must("run l%d", i)
			}
			must("advance 1h")
			for i := range 8 {
				must("submit x%d class=te account=taker%d gpus=1", i, i)
				must("cycle")
				for j := range w.State.View().Live() {
					if gone && j.Live().Stop != nil {
						must("exit code=85 %s", w.Names[j.ID])
					}
				}
				must("cycle")
			}
			lost := 0
			for j := range w.State.View().Jobs() {
				if a := j.Live(); j.Account == "lender" && (a == nil || a.Stop != nil) {
					lost++
				}
			}
			if lost != c.want {
				t.Errorf("te_borrow %d, jobs have left: %t: an account with a quota of %d lends %d, want %d", c.borrow, gone,
					quota, lost, c.want)
			}
		}
	}
}
