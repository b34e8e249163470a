package fsm

import (
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// TestServiceOfJobsAlike learns the total service of elastic jobs with one user and name. It learns
// from those that have completed, whatever their sizes, and from no other job.
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
