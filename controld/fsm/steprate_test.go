package fsm

import (
	"slices"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// TestPacesByPlacement keeps what workers on one node do apart from what as many do on several.
func TestPacesByPlacement(t *testing.T) {
	on := func(rate int64, nodes ...string) estimate.StepRate {
		a := model.Attempt{Rate: rate}
		for _, n := range nodes {
			a.Workers = append(a.Workers, model.Worker{Place: model.Place{Node: n}})
		}
		return estimate.StepRateOf(model.Elastic{First: 1, Fixed: 1}, &a) // a server comes first
	}
	var p estimate.StepRates
	for _, n := range []estimate.StepRate{on(300, "s", "a", "b"), on(100, "s", "a"), on(380, "s", "a", "a"), on(100, "s", "s"), on(340, "a", "b", "a")} {
		p = p.With(n, 7)
	}
	want := []estimate.StepRate{{Size: 1, Rate: 100}, {Size: 2, Rate: 380}, {Size: 2, Spread: true, Rate: 320}}
	if !slices.Equal(p.Sizes, want) || p.At != 7 {
		t.Errorf("got %v at %d, want %v", p.Sizes, p.At, want)
	}
}

// TestServiceOfJobsAlike learns what elastic jobs of one user and name took in all from those that have completed, whatever their sizes, and from
// no other job.
func TestServiceOfJobsAlike(t *testing.T) {
	w := elasticWorld(t)
	usual := func(id model.JobID, want int64) {
		t.Helper()
		if got := w.s.View().Statistics().MeanService(w.job(id)); got != want {
			t.Errorf("job %d is taken to need %d ms of a GPU, want %d", id, got, want)
		}
	}
	first := w.stretch(2, []string{"n1", "n2"}, elastic(1, 4))
	usual(first, 0)
	w.wait(100)
	w.leavesWell(first, 0, 1)
	w.state(first, model.Completed)
	usual(first, 400_000)

	failed := w.stretch(2, []string{"n1"}, elastic(1, 4))
	w.wait(1000)
	w.report(failed, 0, model.WorkerExited, code(1))
	rigid := w.running(2, []string{"n2"})
	w.wait(1000)
	w.leavesWell(rigid, 0)
	usual(first, 400_000)

	second := w.stretch(2, []string{"n1"}, elastic(1, 4))
	w.wait(50)
	w.ok(w.resize(second, nil, "n3"))
	w.leaves(second, 0)
	w.wait(50)
	w.run(second)
	w.leavesWell(second, 0, 1)
	w.state(second, model.Completed)
	usual(first, 350_000)

	other := w.submit3(2, elastic(1, 4), func(j *jobspec.Job) { j.Name = "k" })
	usual(other, 0)
}
