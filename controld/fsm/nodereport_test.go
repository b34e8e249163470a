package fsm

import (
	"testing"

	"github.com/rota-hpc/rota/controld/model"
)

// TestAReportOfAnotherNodeChangesNothing has one node report workers of another: their states, their
// step rates, and findings. It notices that a report is accepted from a node that the worker is not
// on.
func TestAReportOfAnotherNodeChangesNothing(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	w.node("n2", 8)
	id := w.submit(2, 1)
	w.ok(w.start(id, "n1", "n2"))
	w.run(id)
	before, other := w.job(id), w.submit(1, 1)
	for _, r := range []model.WorkerReport{
		{Worker: 0, State: model.WorkerExited},
		{Worker: 0, State: model.WorkerExited, ExitCode: 1},
		{Worker: -1, State: model.WorkerExited},
		{Worker: 2, State: model.WorkerExited},
	} {
		r.Job, r.Attempt = id, 1
		w.must(NodeReport{Node: "n2", BootID: "b1", Workers: []model.WorkerReport{r}})
		if w.job(id) != before {
			t.Fatalf("node n2 reports worker %d, which is not on it, and the job is %+v", r.Worker, w.job(id))
		}
	}
	w.must(NodeReport{Node: "n2", BootID: "b1", Workers: []model.WorkerReport{
		{Job: id, Attempt: 2, Worker: 1, State: model.WorkerExited}, // not this attempt
		{Job: other, Attempt: 1, State: model.WorkerExited},         // which has none
		{Job: 99, Attempt: 1, State: model.WorkerExited},
	}})
	if w.job(id) != before {
		t.Fatalf("another attempt's report changed the job to %+v", w.job(id))
	}
	w.must(NodeReport{Node: "n2", BootID: "b1", Workers: []model.WorkerReport{
		{Job: id, Attempt: 1, Worker: 1, State: model.WorkerExited}}})
	if got := w.job(id).Attempts[0].Workers; got[1].State != model.WorkerExited || got[0].State != model.WorkerRunning {
		t.Fatalf("after the report of the node that it is on: %+v", got)
	}
	_, err := w.apply(NodeReport{Node: "n2", BootID: "b0", Workers: nil})
	w.refused(err, model.ErrOtherBoot)
}
