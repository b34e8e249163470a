package fsm

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/generation"
	"github.com/rota-hpc/rota/jobspec"
)

var first = generation.Generation{Number: 1, ID: "00000000000000aa"}

// reopened goes on from a snapshot of the state.
func (w *world) reopened() {
	w.t.Helper()
	var b bytes.Buffer
	if err := w.s.View().WriteSnapshot(&b); err != nil {
		w.t.Fatal(err)
	}
	s, err := ReadSnapshot(&b)
	if err != nil {
		w.t.Fatal(err)
	}
	w.s, w.index = s, s.Index()
}

// TestNothingChangesUntilAMajorityFollows: after a generation began, jobs are neither submitted nor
// changed nor started until a majority of the nodes has accepted it.
func TestNothingChangesUntilAMajorityFollows(t *testing.T) {
	w := newWorld(t)
	for _, n := range []string{"n1", "n2", "n3", "n4"} {
		w.node(n, 1)
	}
	waits := w.submit(1, 1)
	before := w.s.View().LastJob()
	w.must(RaiseGeneration{Generation: first, Means: generation.MeansRecover, Controller: "c1"})
	w.reopened()
	w.node("n4", 1) // a node may register
	accept := func(node string) {
		t.Helper()
		w.must(AcceptGeneration{Node: node, BootID: "b1", Generation: first})
	}
	for _, n := range []string{"n1", "n2", "n1"} { // a node that says it twice counts once
		accept(n)
		for _, c := range []Command{SubmitJobs{Owner: alice, Jobs: []*jobspec.Job{testSpec(1, 1)}},
			ControlJobs{Verb: model.VerbCancel, Targets: []Target{{ID: waits}}}, UpdateJobs{IDs: []model.JobID{waits}},
			CommitPlan{Actions: []Action{&StartJob{Job: waits, Places: []model.Place{w.place("n1", 1)}}}}} {
			if _, err := w.apply(c); !errors.Is(err, generation.ErrUnsettled) {
				t.Errorf("%s after %s: %v", c.Kind(), n, err)
			}
		}
	}
	other := AcceptGeneration{Node: "n3", BootID: "b1",
		Generation: generation.Generation{Number: 1, ID: "00000000000000bb"}}
	if _, err := w.apply(other); !errors.Is(err, generation.ErrGeneration) {
		t.Errorf("another generation of the same number: %v", err)
	}
	accept("n3")
	r := w.s.View().Recovery()
	if r.Holds() || r.OldJobsAt-r.Settled != model.Instant(w.s.View().Config().LeaseMS+w.s.View().Config().MarginMS) {
		t.Errorf("with 3 of 4 nodes: %+v", r)
	}
	if err := w.start(waits, "n1"); !errors.Is(err, model.ErrNotEligible) {
		t.Errorf("a job that n4 may still run has started: %v", err)
	}
	if id := w.submit(1, 1); id != before+generation.IDGap+1 || w.start(id, "n2") != nil {
		t.Errorf("a new job has id %d, %v", id, w.start(id, "n2"))
	}
	w.at = r.OldJobsAt
	if err := w.start(waits, "n1"); err != nil {
		t.Error(err)
	}
	if _, err := w.apply(RaiseGeneration{Generation: first, Means: generation.MeansRecover}); !errors.Is(err,
		generation.ErrGeneration) {
		t.Errorf("the same generation again: %v", err)
	}
}

// TestAttemptsThatNodesKnowAreNotGivenAgain: what ran after the state was saved is held, and neither
// its attempt nor its id is given a second time.
func TestAttemptsThatNodesKnowAreNotGivenAgain(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 4)
	w.node("n2", 4)
	ran, runs, missing, waits := w.submit(1, 1), w.submit(1, 1), w.submit(1, 1), w.submit(1, 1)
	array := w.submit(1, 1, func(j *jobspec.Job) { j.Array = &jobspec.Array{Indices: "0-2"} })
	for _, id := range []model.JobID{runs, missing} {
		if err := w.start(id, "n1"); err != nil {
			t.Fatal(err)
		}
		w.must(NodeReport{Node: "n1", BootID: "b1", Workers: []model.WorkerReport{{Job: id, Attempt: 1,
			State: model.WorkerRunning}}})
	}
	w.must(RaiseGeneration{Generation: first, Means: generation.MeansRestore, Controller: "c1"})
	w.must(AcceptGeneration{Node: "n1", BootID: "b1", Generation: first,
		Missing: []MissingWorker{{Job: missing, Attempt: 1}}})
	w.must(AcceptGeneration{Node: "n2", BootID: "b1", Generation: first, LastJob: 5_000_000,
		Ran: []generation.RanAttempt{{Job: ran, Attempt: 3}, {Job: runs, Attempt: 2}, {Job: array + 2, Attempt: 1}}})
	w.reopened()
	for _, id := range []model.JobID{ran, missing} {
		if j := w.s.View().Job(id); j.State != model.Pending || j.Hold != model.HeldByAdmin ||
			!strings.Contains(j.Reason.Text, "after the controllers' state was saved") {
			t.Errorf("job %d is %s, held %q: %+v", id, j.State, j.Hold, j.Reason)
		}
	}
	if j := w.s.View().Job(waits); j.Hold != "" || w.start(waits, "n2") != nil {
		t.Errorf("a job that no node knows is held: %+v", j)
	}
	if ready := w.s.View().Job(array).Ready(); ready.Has(2) || !ready.Has(1) {
		t.Errorf("of the array, these may start: %v", ready)
	}
	w.must(NodeReport{Node: "n1", BootID: "b1", Workers: []model.WorkerReport{{Job: runs, Attempt: 1,
		State: model.WorkerFailed, Message: "lost"}}})
	if j := w.s.View().Job(runs); j.State.Final() == (j.Hold == model.HeldByAdmin) {
		t.Errorf("after its attempt of the state ended, job %d is %s, held %q", runs, j.State, j.Hold)
	}
	w.must(ControlJobs{Verb: model.VerbRelease, Targets: []Target{{ID: ran}}, Admin: true})
	if err := w.start(ran, "n2"); !errors.Is(err, model.ErrNotEligible) {
		t.Errorf("it starts beside an attempt that may still run: %v", err)
	}
	w.at += model.Instant(w.s.View().Config().LeaseMS + w.s.View().Config().MarginMS)
	if err := w.start(ran, "n2"); err != nil {
		t.Fatal(err)
	}
	if j := w.s.View().Job(ran); j.Attempt != 4 || j.Attempts[0].N != 4 {
		t.Errorf("its next attempt is %d", j.Attempt)
	}
	if id := w.submit(1, 1); id != 5_000_001 {
		t.Errorf("the next job has id %d", id)
	}
}
