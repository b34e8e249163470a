package fsm

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/generation"
	"github.com/rota-hpc/rota/controld/model/ranges"
	"github.com/rota-hpc/rota/jobspec"
)

// raised begins the first generation.
func (w *world) raised() {
	w.t.Helper()
	w.must(RaiseGeneration{Generation: first, Means: generation.MeansRestore, Controller: "c1"})
}

func (w *world) accept(node string, edit ...func(*AcceptGeneration)) {
	w.t.Helper()
	c := AcceptGeneration{Node: node, BootID: "b1", Generation: first}
	for _, e := range edit {
		e(&c)
	}
	w.must(c)
}

// knows has a node that accepts know of an attempt.
func knows(id model.JobID, attempt int) func(*AcceptGeneration) {
	return func(c *AcceptGeneration) { c.Ran = append(c.Ran, generation.RanAttempt{Job: id, Attempt: attempt}) }
}

// misses has it miss a worker that should run there.
func misses(id model.JobID, attempt, worker int) func(*AcceptGeneration) {
	return func(c *AcceptGeneration) { c.Missing = append(c.Missing, MissingWorker{id, attempt, worker}) }
}

func (w *world) leaseSpan() model.Instant {
	return model.Instant(w.s.v.Config().LeaseMS + w.s.v.Config().MarginMS)
}

// TestHowManyNodesSettleAGeneration asks for the majority of each number of nodes, one node less than it
// and all, and until when jobs from before wait then.
func TestHowManyNodesSettleAGeneration(t *testing.T) {
	for nodes, majority := range map[int]int{1: 1, 2: 2, 3: 2, 4: 3, 5: 3, 6: 4} {
		w := newWorld(t)
		for i := range nodes {
			w.node(fmt.Sprint("n", i), 1)
		}
		old := w.submit(1, 1)
		w.wait(1)
		w.raised()
		for i := range nodes {
			w.wait(1)
			w.accept(fmt.Sprint("n", nodes-1-i)) // not in the order of names
			r := w.s.v.Recovery()
			if r.Holds() != (i+1 < majority) {
				t.Fatalf("%d of %d nodes follow, and jobs wait for that: %t", i+1, nodes, r.Holds())
			}
			if i+1 != majority {
				continue
			}
			until := w.at
			if majority < nodes {
				until += w.leaseSpan()
			}
			if r.Settled != w.at || r.OldJobsAt != until || max(w.job(old).Eligible, w.at) != until {
				t.Errorf("%d nodes: settled at %d, jobs from before start at %d, this one at %d; it is %d, they should at %d",
					nodes, r.Settled, r.OldJobsAt, w.job(old).Eligible, w.at, until)
			}
		}
		r := w.s.v.Recovery()
		if settled := w.at - model.Instant(nodes-majority)*1000; r.Settled != settled || len(r.Accepted) != nodes ||
			!slices.IsSorted(r.Accepted) {
			t.Errorf("%d nodes: settled at %d, want %d; accepted %v", nodes, r.Settled, settled, r.Accepted)
		}
	}
	w := newWorld(t)
	w.wait(1)
	w.raised() // without nodes
	if r := w.s.v.Recovery(); r.Holds() || r.Settled != w.at || r.OldJobsAt != w.at {
		t.Errorf("a cluster without nodes waits for them: %+v", r)
	}
}

// TestWhichGenerationIsAccepted goes through what is refused, each by one thing that is wrong.
func TestWhichGenerationIsAccepted(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 1)
	_, err := w.apply(AcceptGeneration{Node: "n1", BootID: "b1"})
	w.refused(err, generation.ErrGeneration) // there is none yet
	for _, g := range []generation.Generation{{}, {Number: 1}, {Number: 0, ID: first.ID}, {Number: -1, ID: first.ID}} {
		_, err := w.apply(RaiseGeneration{Generation: g, Means: generation.MeansRestore})
		w.refused(err, generation.ErrGeneration)
	}
	w.raised()
	for _, c := range []struct {
		command AcceptGeneration
		want    error
	}{
		{AcceptGeneration{Node: "n2", BootID: "b1", Generation: first}, model.ErrNoNode},
		{AcceptGeneration{Node: "n1", BootID: "b2", Generation: first}, model.ErrOtherBoot},
		{AcceptGeneration{Node: "n1", BootID: "b1", Generation: generation.Generation{Number: 2, ID: first.ID}},
			generation.ErrGeneration},
		{AcceptGeneration{Node: "n1", BootID: "b1"}, generation.ErrGeneration},
	} {
		if _, err := w.apply(c.command); !errors.Is(err, c.want) || !w.s.v.Recovery().Holds() {
			t.Errorf("%+v: %v", c.command, err)
		}
	}
	before := w.s.v.NodeModified("n1")
	unknown := func(n int) func(*AcceptGeneration) { return func(c *AcceptGeneration) { c.Unknown = n } }
	w.accept("n1", unknown(3))
	if w.s.v.NodeModified("n1") <= before {
		t.Error("the node is not told that it was heard")
	}
	w.accept("n1", unknown(3)) // again: the answer was lost
	w.node("n2", 1)
	w.accept("n2", unknown(4))
	if got := w.s.v.Recovery().Unknown; got != 7 {
		t.Errorf("%d jobs are unknown, want 7", got)
	}
	second := generation.Generation{Number: 2, ID: "00000000000000cc"}
	w.must(RaiseGeneration{Generation: second, Means: generation.MeansRecover, Controller: "c2"})
	if r := w.s.v.Recovery(); len(r.Accepted) != 0 || r.Unknown != 0 || !r.Holds() || r.Controller != "c2" ||
		r.Raised.At != w.at {
		t.Errorf("the next generation begins with %+v", r)
	}
}

// TestWhichWorkersAreMissed has a node say which workers it lacks. Only those of the attempt in progress
// that are on this node are lost.
func TestWhichWorkersAreMissed(t *testing.T) {
	for name, c := range map[string]struct {
		attempt, worker int
		lost            bool
	}{
		"its worker": {1, 1, true}, "of another node": {1, 0, false}, "of another attempt": {2, 1, false},
		"below the first": {1, -1, false}, "behind the last": {1, 2, false},
	} {
		w := newWorld(t)
		w.node("n1", 1)
		w.node("n2", 1)
		id := w.running(1, []string{"n1", "n2"})
		w.raised()
		w.accept("n2", misses(id, c.attempt, c.worker))
		a := w.job(id).Attempts[0]
		if lost := a.Workers[1].State == model.WorkerFailed; lost != c.lost || lost != (a.Stop != nil) ||
			lost != (w.s.v.Recovery().RanOf(id).Attempt == 1) || a.Workers[0].State != model.WorkerRunning {
			t.Errorf("%s: %+v, known to have run: %+v", name, a.Workers, w.s.v.Recovery().RanOf(id))
		}
	}
}

// TestWhichJobsAreHeldAfterAGeneration: a job of which a node knows a later attempt, and no other. It is
// held by an admin whatever held it before, starts when that attempt's leases are over, and keeps no room.
func TestWhichJobsAreHeldAfterAGeneration(t *testing.T) {
	never := func(w *world) model.JobID { return w.submit(1, 1) }
	requeued := func(w *world) model.JobID { // after one attempt
		id := w.running(1, []string{"n1"})
		w.ok(w.control(model.VerbRequeue, 1000, false, id))
		w.report(id, 0, model.WorkerExited)
		return id
	}
	for name, c := range map[string]struct {
		job     func(*world) model.JobID
		attempt int
		held    bool
	}{
		"a later attempt":             {requeued, 2, true},
		"its own":                     {requeued, 1, false},
		"an earlier one":              {requeued, 0, false},
		"one of a job that never ran": {never, 1, true},
		"one of a job that its user holds": {func(w *world) model.JobID {
			return w.submit(1, 1, func(j *jobspec.Job) { j.Hold = true })
		}, 1, true},
		"one of a whole array": {func(w *world) model.JobID {
			return w.submit(1, 1, func(j *jobspec.Job) { j.Array = &jobspec.Array{Indices: "0-2"} })
		}, 1, false},
		"one of a job that runs": {func(w *world) model.JobID {
			return w.running(1, []string{"n1"})
		}, 2, false},
	} {
		w := newWorld(t)
		w.node("n1", 4)
		id := c.job(w)
		if j := w.job(id); j.StillToStart() && j.Hold == model.NotHeld {
			w.ok(w.plan(&Reserve{Job: id, Claims: []model.Claim{{Node: "n1",
				Resources: model.Vector{GPUs: 1000}}}}))
		}
		reserved := w.s.v.Reservation(id) != nil
		w.raised()
		w.wait(5)
		w.accept("n1", knows(id, c.attempt))
		j := w.job(id)
		if held := j.Hold == model.HeldByAdmin && j.Reason.Code == model.ReasonHeldAdmin; held != c.held {
			t.Errorf("%s: held %q, %+v", name, j.Hold, j.Reason)
		}
		if kept := w.s.v.Reservation(id) != nil; kept != (reserved && !c.held) {
			t.Errorf("%s: room is kept: %t", name, kept)
		}
		if !c.held {
			continue
		}
		if !strings.Contains(j.Reason.Text, fmt.Sprintf("attempt %d ran on node n1", c.attempt)) ||
			j.Eligible != w.at+w.leaseSpan() {
			t.Errorf("%s: it may start at %d, %q", name, j.Eligible, j.Reason.Text)
		}
		w.must(ControlJobs{Verb: model.VerbRelease, Targets: targets(id), Admin: true})
		w.at += w.leaseSpan() - 1
		w.refused(w.start(id, "n1"), model.ErrNotEligible)
		w.at++
		w.ok(w.start(id, "n1"))
		if got := w.job(id).Live().N; got != c.attempt+1 {
			t.Errorf("%s: the next attempt is %d", name, got)
		}
	}
}

// TestATaskThatRanAfterTheStateWasSaved is held alone of its array: its user's hold becomes an admin's, and
// the array keeps room as long as another task may start.
func TestATaskThatRanAfterTheStateWasSaved(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 4)
	id := w.submit(1, 1, func(j *jobspec.Job) { j.Array = &jobspec.Array{Indices: "0-1"} })
	w.ok(w.plan(&Reserve{Job: id, Claims: []model.Claim{{Node: "n1",
		Resources: model.Vector{GPUs: 1000}}}}))
	w.must(ControlJobs{Verb: model.VerbHold, Targets: []Target{{ID: id, Tasks: ranges.Span(1, 1)}}, By: 1000})
	w.raised()
	w.wait(3)
	w.accept("n1", knows(id+1, 1), knows(id+9, 1)) // the latter is not one of its tasks
	f := w.job(id).Children
	if !f.HeldAdmin.Has(1) || f.HeldAdmin.Has(2) || f.HeldUser.Has(1) || w.s.v.Reservation(id) == nil ||
		w.job(id).Eligible != w.at+w.leaseSpan() {
		t.Errorf("held by its user %v, by an admin %v, room kept %t, may start at %d", f.HeldUser, f.HeldAdmin,
			w.s.v.Reservation(id) != nil, w.job(id).Eligible)
	}
	w.accept("n1", knows(id+2, 1))
	if f := w.job(id).Children; !f.HeldAdmin.Has(2) || w.s.v.Reservation(id) != nil {
		t.Errorf("held by an admin %v, room kept %t", f.HeldAdmin, w.s.v.Reservation(id) != nil)
	}
}

// TestWhoWaitsForNodesThatHaveNotReported: jobs from before the generation, those that come back to the
// queue too. A later instant, a hold and another reason to wait stay.
func TestWhoWaitsForNodesThatHaveNotReported(t *testing.T) {
	w := newWorld(t)
	for _, n := range []string{"n1", "n2", "n3"} {
		w.node(n, 4)
	}
	plain := w.submit(1, 1)
	held := w.submit(1, 1, func(j *jobspec.Job) { j.Hold = true })
	failed := w.submit(1, 1, func(j *jobspec.Job) { j.Restart = &jobspec.Restart{Attempts: 1, Delay: 900, MaxDelay: 900} })
	w.ok(w.start(failed, "n1"))
	w.run(failed)
	w.report(failed, 0, model.WorkerExited, code(1))
	soon := w.submit(1, 1, func(j *jobspec.Job) { j.Restart = &jobspec.Restart{Attempts: 1} })
	w.ok(w.start(soon, "n2"))
	w.run(soon)
	w.report(soon, 0, model.WorkerExited, code(1))
	later := w.job(failed).Eligible
	runs, ran := w.running(1, []string{"n1"}), w.running(1, []string{"n1"})
	w.raised()
	w.accept("n1", knows(ran, 1))
	w.accept("n2")
	until := w.at + w.leaseSpan()
	if j := w.job(plain); j.Eligible != until || j.Reason.Code != model.ReasonBackoff || j.Reason.Until != until {
		t.Errorf("a job that waits: %d, %+v", j.Eligible, j.Reason)
	}
	if j := w.job(held); j.Eligible != until || j.Hold != model.HeldByUser || j.Reason.Code == model.ReasonBackoff {
		t.Errorf("a job that is held: %d, %+v", j.Eligible, j.Reason)
	}
	if j := w.job(failed); j.Eligible != later || j.Reason.Until != later {
		t.Errorf("a job that waits for longer: %d, %+v", j.Eligible, j.Reason)
	}
	if j := w.job(soon); j.Eligible != until || j.Reason.Code != model.ReasonBackoff || j.Reason.Until != until {
		t.Errorf("a job that waits for less: %d, %+v", j.Eligible, j.Reason)
	}
	again := func(id model.JobID) *model.Job {
		w.ok(w.control(model.VerbRequeue, 1000, false, id))
		w.report(id, 0, model.WorkerExited)
		return w.job(id)
	}
	w.wait(1)
	if j := again(runs); j.Hold != model.NotHeld || j.Eligible != until {
		t.Errorf("a job that comes back: held %q, %d", j.Hold, j.Eligible)
	}
	if j := again(ran); j.Hold != model.HeldByAdmin || j.Eligible != until {
		t.Errorf("a job that comes back, and whose attempt a node knows: held %q, %d", j.Hold, j.Eligible)
	}
	young := w.running(1, []string{"n2"})
	if j := again(young); j.Hold != model.NotHeld || j.Eligible != w.at {
		t.Errorf("a job of this generation that comes back: held %q, %d", j.Hold, j.Eligible)
	}
}
