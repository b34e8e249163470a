package sched_test

import (
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/sched/preempt"
	"github.com/rota-hpc/rota/controld/sched/schedtest"
)

// TestNoJobIsDisplacedAnEleventhTime displaces one job again and again, never more than three
// times in a day, until it may not be any more; an account that is owed its room gets it even then.
func TestNoJobIsDisplacedAnEleventhTime(t *testing.T) {
	const round = "submit quick%d class=te gpus=4\ncycle\nexit old code=85\ncycle\nrun quick%d\nexit quick%d\n" +
		"cycle\nrun old\nadvance 9h\n"
	w := schedtest.NewWorld()
	play := func(script string) string {
		t.Helper()
		w.Out.Reset()
		for _, line := range strings.Split(strings.TrimSpace(script), "\n") {
			if err := w.Run(line); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		}
		return w.Out.String()
	}
	play("policy name=rota p=3 min-runtime=1s\naccount owed deserved=4\nnode n1 gpus=4\n" +
		"submit old gpus=4 grace=60s save=yes account=other\ncycle\nrun old\nadvance 9h")
	for i := range preempt.MaxDisplacements {
		said := play(strings.ReplaceAll(round, "%d", string(rune('a'+i))))
		if !strings.Contains(said, "stop old: te") {
			t.Fatalf("displacement %d: %s", i+1, said)
		}
	}
	if said := play("submit last class=te gpus=4\ncycle"); strings.Contains(said, "stop old") {
		t.Errorf("displaced once more: %s", said)
	}
	if said := play("cancel last\nadvance 1m\nsubmit mine gpus=4 account=owed\ncycle"); !strings.Contains(said,
		"stop old: reclaim for mine") {
		t.Errorf("what is owed is not given back: %s", said)
	}
}
