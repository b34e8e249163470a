package sched_test

import (
	"fmt"
	"testing"

	"github.com/rota-hpc/rota/controld/sched"
	"github.com/rota-hpc/rota/controld/sched/schedtest"
)

// TestForesee: which jobs would leave for one that waits is found out without doing it, also when
// the policy looks for them only later.
func TestForesee(t *testing.T) {
	for _, c := range []struct{ name, ran, job, want string }{
		{"at once", "55m", "submit new class=te gpus=2", "0s: long te 60000 0; "},
		{"by order, when the other has had much", "205m", "submit new gpus=2 save=yes", "0s: long order 60000 0; "},
		{"it fits", "55m", "submit new gpus=1", "0s: "},
		{"never", "55m", "submit new gpus=9", "0s: "},
	} {
		w := schedtest.NewWorld()
		for _, line := range []string{"policy name=rota", "node n1 gpus=8", "submit stubborn gpus=3",
			"submit long gpus=4 grace=60s save=yes", "cycle", "run stubborn long", "advance " + c.ran, c.job} {
			if err := w.Run(line); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		}
		v := w.State.View()
		id := w.Ids["new"]
		before := v.Index()
		f := sched.Foresee(v, w.Now, v.Config().Policy, id, id)
		got := fmt.Sprintf("%ds: ", f.After/1000)
		for _, d := range f.Displacements {
			got += fmt.Sprintf("%s %s %d %d; ", w.Names[d.Job], d.Cause, d.GraceMS, d.LostMS)
		}
		if got != c.want || w.State.View().Index() != before {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
