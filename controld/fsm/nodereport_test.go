package fsm

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
)

// refusedRow reports one worker on node n1, of whose row something cannot be true.
func (w *world) refusedRow(r model.WorkerReport, want error) {
	w.t.Helper()
	rows, err := w.apply(NodeReport{Node: "n1", BootID: "b1", Workers: []model.WorkerReport{r}})
	if refused, _ := rows.(RefusedRows); err != nil || len(refused) != 1 || !errors.Is(refused[0], want) {
		w.t.Errorf("%+v: refused %v, %v, want %v", r, rows, err, want)
	}
}

// TestABadRowLosesNoOther mixes random rows that cannot be true with the ends of workers. Each of these
// counts, also one whose own figures are impossible, and each bad row is named.
func TestABadRowLosesNoOther(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed=%d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for range 50 {
		w := newWorld(t)
		w.node("n1", 8)
		var rows []model.WorkerReport
		var steps []model.StepReport
		var ids []model.JobID
		bad := 0
		for range 1 + r.IntN(8) {
			id := w.submit(1, 1)
			w.ok(w.start(id, "n1"))
			w.run(id)
			ids = append(ids, id)
			end := model.WorkerReport{Job: id, Attempt: 1, State: model.WorkerExited, Usage: model.Usage{CPUMS: 5}}
			if r.IntN(3) == 0 {
				end.Usage.GPU = 1001
				bad++
			}
			rows = append(rows, end)
		}
		for range r.IntN(6) {
			row := model.WorkerReport{Job: ids[r.IntN(len(ids))], Attempt: 1, State: model.WorkerRunning}
			switch r.IntN(4) {
			case 0:
				row.State = "dancing"
			case 1:
				row.Rate = -1
			case 2:
				row.Class = "finished"
			case 3:
				row.Profile = &model.Profile{Utilisation: 1001}
			}
			rows = append(rows, row)
			bad++
		}
		for range r.IntN(3) {
			steps = append(steps, model.StepReport{Job: ids[0], Attempt: 1, Step: model.Step{Row: 4}})
			bad++
		}
		r.Shuffle(len(rows), func(i, k int) { rows[i], rows[k] = rows[k], rows[i] })
		got, err := w.apply(NodeReport{Node: "n1", BootID: "b1", Workers: rows, Steps: steps})
		refused, _ := got.(RefusedRows)
		other := func(e error) bool { return !errors.Is(e, model.ErrBadReport) && !errors.Is(e, model.ErrBadClass) }
		if err != nil || len(refused) != bad || slices.ContainsFunc(refused, other) {
			t.Fatalf("seed=%d: %d bad rows, refused %v, %v", seed, bad, got, err)
		}
		for _, id := range ids {
			w.state(id, model.Completed)
		}
	}
}

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
