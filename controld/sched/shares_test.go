package sched_test

import (
	"slices"
	"testing"

	"github.com/rota-hpc/rota/controld/sched/fairshare"
	"github.com/rota-hpc/rota/controld/sched/schedtest"
)

// TestShares: two jobs of ann hold 6 of 8 GPUs for half an hour, of which her account deserves 4.
func TestShares(t *testing.T) {
	w := schedtest.NewWorld()
	for _, line := range []string{
		"policy name=fairshare", "node n1 gpus=8", "account top deserved=4 weight=3", "account lab parent=top",
		"submit a1 a2 gpus=3 account=lab user=ann", "cycle", "run a1 a2", "submit b1 gpus=4 account=top user=bob",
		"advance 30m",
	} {
		if err := w.Run(line); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	v := w.State.View()
	got := fairshare.Shares(v, w.Now, v.Config().Policy)
	// 30 minutes of 6 of 8 GPUs are 1350 s of the cluster; of a quarter of it they would have been
	// 450 s.
	want := []fairshare.Share{
		{Account: "top", Weight: 3, Deserved: 500, Fair: 1000, Alloc: 750, Borrowed: 250, GPUs: 6000, Usage: 1350,
			Ratio: 1500},
		{Account: "top", User: "bob", Weight: 1, Deserved: 250, Fair: 500},
		{Account: "lab", Parent: "top", Weight: 1, Deserved: 250, Fair: 500, Alloc: 750, Borrowed: 500, GPUs: 6000,
			Usage: 1350, Ratio: 3000},
		{Account: "lab", User: "ann", Weight: 1, Deserved: 250, Fair: 500, Alloc: 750, Borrowed: 500, GPUs: 6000,
			Usage: 1350, Ratio: 3000},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}
