package rota_test

import (
	"testing"

	"github.com/rota-hpc/rota/controld/sched/rota"
	"github.com/rota-hpc/rota/controld/sched/schedtest"
)

// TestLeftOfJobsAlike tells how much elastic jobs still need from what others of their user and
// name have taken, or have had so far.
func TestLeftOfJobsAlike(t *testing.T) {
	w := schedtest.NewWorld()
	play := func(lines ...string) {
		t.Helper()
		for _, line := range lines {
			if err := w.Run(line); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		}
	}
	left := func(name string, had, want int64) {
		t.Helper()
		v := w.State.View()
		s := rota.NewPolicy(schedtest.TrialOf(v, w.Now)).NewElasticPhases()
		if got := s.Allocation().Left(v.Job(w.Ids[name]), had); got != want {
			t.Errorf("%s, which has had %d, needs %d, want %d", name, had, got, want)
		}
	}
	const hour = 3_600_000 // of one GPU
	play("policy name=rota", "node n1 gpus=4", "node n2 gpus=4", "submit seen elastic=2-2 gpus=1", "cycle", "run seen",
		"advance 2h", "exit seen")
	play("submit seen elastic=1-4 gpus=1")
	left("seen", 0, 4*hour)
	left("seen", 3*hour, hour)
	left("seen", 9*hour, hour/2)

	play("hold seen", "submit new elastic=1-1 gpus=1", "cycle")
	left("new", 0, 2*900_000)
	play("run new", "advance 6h")
	left("new", 6*hour, 6*hour)
	play("submit new elastic=1-1 gpus=1")
	left("new", 2*hour, 10*hour)
}

// TestDealing divides room. Each job gets its minimum. Short jobs get the rest as long as further
// workers help them about as much as others.
func TestDealing(t *testing.T) {
	w := schedtest.NewWorld()
	for _, line := range []string{
		"policy name=rota", "node n1 gpus=4", "node n2 gpus=4",
		"submit short elastic=1-1 gpus=1", "submit long elastic=1-1 gpus=1", "cycle", "run short long", "advance 30m",
		"exit short", "advance 30h", "exit long",
		"submit short elastic=1-4 gpus=1", "submit long elastic=1-4 gpus=1", "submit other elastic=2-4/2 gpus=2",
	} {
		if err := w.Run(line); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	v := w.State.View()
	s := rota.NewPolicy(schedtest.TrialOf(v, w.Now)).NewElasticPhases()
	for name, want := range map[string]int{"short": 3, "long": 1, "other": 2} {
		if got := s.Due(v.Job(w.Ids[name])); got != want {
			t.Errorf("%s is due %d workers, want %d", name, got, want)
		}
	}
}
