package cluster

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/rota-hpc/rota/jobspec"
)

func TestGangRunsToCompletion(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	w.node("n2", 8)
	id := w.submit(2, 8)
	w.ok(w.start(id, "n1", "n2"))
	w.state(id, Configuring)
	w.wait(1)
	w.report(id, 0, WorkerCreated)
	if w.job(id).Live().Released {
		t.Fatal("commands may start before every container exists")
	}
	before := w.s.v.NodeModified("n1")
	w.report(id, 1, WorkerCreated)
	if !w.job(id).Live().Released || w.s.v.NodeModified("n1") <= before {
		t.Fatal("the gang is complete, but its first node was not told")
	}
	w.report(id, 0, WorkerRunning)
	w.state(id, Configuring)
	w.report(id, 1, WorkerRunning)
	w.state(id, Running)
	w.wait(9)
	w.report(id, 0, WorkerExited)
	w.state(id, Running)
	w.wait(10)
	w.report(id, 1, WorkerExited)
	w.state(id, Completed)
	w.cause(id, CauseCompleted)
	want := Ledger{GPUMS: 8 * (10_000 + 20_000), CoreMS: 4 * (10_000 + 20_000)}
	if got := w.job(id).Ledger; got != want {
		t.Fatalf("charged %+v, want %+v", got, want)
	}
	if got := w.s.View().Finished(0); len(got) != 1 || got[0].ID != id || got[0].Seq != 1 {
		t.Fatalf("finished: %+v", got)
	}
}

func TestGangIsPlacedWholeOrNotAtAll(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	w.node("n2", 8)
	w.running(2, []string{"n2"})
	id := w.submit(2, 8)
	var fit *FitError
	if err := w.start(id, "n1", "n2"); !errors.As(err, &fit) && !errors.Is(err, ErrWrongPlaces) {
		t.Fatalf("got %v", err)
	}
	err := w.plan(Action{Start: &StartJob{Job: id, Port: 20000, Places: []Place{
		{Node: "n1", GPUs: []int{0, 1, 2, 3, 4, 5, 6, 7}}, {Node: "n2", GPUs: []int{0, 1, 2, 3, 4, 5, 6, 7}},
	}}})
	if !errors.As(err, &fit) || fit.Reason.Code != ReasonResources || fit.Reason.Node != "n2" {
		t.Fatalf("got %v", err)
	}
	w.state(id, Pending)
	if free := w.s.v.grid.Free(0); free.GPUs != 8000 {
		t.Fatalf("node n1 has %+v free after a refused start", free)
	}
}

func TestStartIsRefused(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	w.node("n2", 8)
	held := w.submit(1, 1, func(j *jobspec.Job) { j.Hold = true })
	gang := w.submit(2, 1)
	run := w.running(1, []string{"n1"})
	place := func(node string, gpus ...int) Place { return Place{Node: node, GPUs: gpus} }
	for _, c := range []struct {
		name  string
		start StartJob
		want  error
	}{
		{"held", StartJob{Job: held, Places: []Place{place("n1", 1)}}, ErrNotEligible},
		{"running", StartJob{Job: run, Places: []Place{place("n1", 1)}}, ErrWrongState},
		{"unknown job", StartJob{Job: 99}, ErrNoJob},
		{"part of the gang", StartJob{Job: gang, Places: []Place{place("n1", 1)}}, ErrWrongPlaces},
		{"two on one node", StartJob{Job: gang, Port: 20001, Places: []Place{place("n1", 1), place("n1", 2)}}, ErrWrongPlaces},
		{"too few GPUs", StartJob{Job: gang, Port: 20001, Places: []Place{place("n1"), place("n2", 1)}}, ErrWrongPlaces},
		{"unknown node", StartJob{Job: gang, Port: 20001, Places: []Place{place("n9", 1), place("n2", 1)}}, ErrNoNode},
		{"port in use", StartJob{Job: gang, Port: 20000, Places: []Place{place("n1", 1), place("n2", 1)}}, ErrPort},
		{"port out of range", StartJob{Job: gang, Port: 80, Places: []Place{place("n1", 1), place("n2", 1)}}, ErrPort},
		{"no port", StartJob{Job: gang, Places: []Place{place("n1", 1), place("n2", 1)}}, ErrPort},
	} {
		before := w.snapshot()
		if err := w.plan(Action{Start: &c.start}); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
		if string(dropHead(before)) != string(dropHead(w.snapshot())) {
			t.Errorf("%s: a refused start changed the state", c.name)
		}
	}
	var fit *FitError
	for _, gpus := range [][]int{{0}, {8}, {-1}, {64}} {
		err := w.plan(Action{Start: &StartJob{Job: gang, Port: 20001, Places: []Place{place("n1", gpus...), place("n2", 1)}}})
		if !errors.As(err, &fit) {
			t.Errorf("GPUs %v: got %v", gpus, err)
		}
	}
	if err := w.plan(Action{}); !errors.Is(err, ErrBadAction) {
		t.Errorf("empty action: got %v", err)
	}
}

// dropHead cuts off the line that has the index.
func dropHead(snapshot []byte) []byte { return snapshot[slices.Index(snapshot, '\n'):] }

func TestFailureStopsTheRestOfTheGang(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	w.node("n2", 8)
	id := w.running(1, []string{"n1", "n2"})
	w.report(id, 1, WorkerExited, code(7))
	w.state(id, Completing)
	stop := w.job(id).Live().Stop
	if stop.Cause != CauseFailed || stop.Signal != "SIGTERM" || stop.KillAt != w.at+30_000 {
		t.Fatalf("stop is %+v", stop)
	}
	w.wait(1)
	w.report(id, 0, WorkerExited, signal(15))
	w.state(id, Failed)
	if j := w.job(id); j.ExitCode != 7 || j.Signal != 0 || j.Reason.Code != ReasonNonZeroExit {
		t.Fatalf("exit %d signal %d reason %+v: what the stop did must not count", j.ExitCode, j.Signal, j.Reason)
	}
}

func TestReportsOfOldAttemptsChangeNothing(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.running(1, []string{"n1"})
	w.ok(w.control(VerbRequeue, 1000, false, id))
	w.report(id, 0, WorkerExited, signal(15))
	w.state(id, Pending)
	w.ok(w.start(id, "n1"))
	before := dropHead(w.snapshot())
	for _, r := range []WorkerReport{
		{Job: id, Attempt: 1, State: WorkerExited, ExitCode: 1},
		{Job: id, Attempt: 3, State: WorkerRunning},
		{Job: id, Attempt: 2, Worker: 1, State: WorkerRunning},
		{Job: id, Attempt: 2, Worker: -1, State: WorkerRunning},
		{Job: id, Attempt: 2, State: WorkerAssigned},
		{Job: 77, Attempt: 1, State: WorkerRunning},
	} {
		w.must(NodeReport{Node: "n1", BootID: "b1", Workers: []WorkerReport{r}})
	}
	if string(before) != string(dropHead(w.snapshot())) {
		t.Fatal("a report that says nothing new changed the state")
	}
	_, err := w.apply(NodeReport{Node: "n1", BootID: "b0", Workers: []WorkerReport{{Job: id, Attempt: 2, State: WorkerRunning}}})
	w.refused(err, ErrOtherBoot)
	_, err = w.apply(NodeReport{Node: "n1", BootID: "b1", Workers: []WorkerReport{{Job: id, Attempt: 2, State: "dancing"}}})
	w.refused(err, ErrBadReport)
	w.state(id, Configuring)
}

func TestLaunchFailuresHaveTheirOwnLimit(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	w.node("n2", 8)
	id := w.submit(1, 1)
	for i, want := range []JobState{Pending, Pending, BootFailed} {
		node := []string{"n1", "n2", "n1"}[i]
		w.ok(w.start(id, node))
		w.report(id, 0, WorkerFailed, func(r *WorkerReport) { r.Message = "no such image" })
		w.state(id, want)
		w.cause(id, CauseLaunch)
		j := w.job(id)
		if want == Pending && (j.Eligible != w.at+Instant(5000<<i) || j.Reason.Code != ReasonBackoff) {
			t.Fatalf("failure %d: eligible at %d, now %d, reason %+v", i+1, j.Eligible, w.at, j.Reason)
		}
		if i == 0 && !slices.Equal(j.Exclude, []string{"n1"}) {
			t.Fatalf("avoids %v", j.Exclude)
		}
		if i == 1 && j.Exclude != nil {
			t.Fatalf("avoids %v: no node is left", j.Exclude)
		}
		if want == Pending {
			w.refused(w.start(id, node), ErrNotEligible)
		}
		w.wait(60)
	}
	j := w.job(id)
	if j.Reason != (Reason{Code: ReasonLaunchFailure, Text: "no such image"}) || j.Counters != (Counters{LaunchFailures: 3}) {
		t.Fatalf("reason %+v counters %+v", j.Reason, j.Counters)
	}
}

func TestLaunchFailureTearsTheGangDown(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	w.node("n2", 8)
	id := w.submit(2, 1)
	w.ok(w.start(id, "n1", "n2"))
	w.report(id, 0, WorkerCreated)
	w.report(id, 1, WorkerFailed)
	w.state(id, Completing)
	w.report(id, 0, WorkerExited, signal(9))
	w.cause(id, CauseLaunch)
	w.state(id, Pending)
}

func TestLostShimIsAFailure(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.running(1, []string{"n1"})
	w.report(id, 0, WorkerFailed, func(r *WorkerReport) { r.Message = "its shim died" })
	w.state(id, Failed)
	if j := w.job(id); j.Signal != 9 || j.Reason.Text != "its shim died" {
		t.Fatalf("signal %d reason %+v", j.Signal, j.Reason)
	}
}

func TestEndsByCause(t *testing.T) {
	ckpt := func(j *jobspec.Job) { j.Checkpoint = &jobspec.Checkpoint{} }
	lease := func(r *WorkerReport) { r.Lease, r.Signal = true, 15 }
	oom := func(r *WorkerReport) { r.OOM, r.Signal = true, 9 }
	for _, c := range []struct {
		name  string
		edit  func(*jobspec.Job)
		stop  Cause
		exit  func(*WorkerReport)
		state JobState
		cause Cause
		count Counters
	}{
		{"exit 0", nil, "", code(0), Completed, CauseCompleted, Counters{}},
		{"exit 3", nil, "", code(3), Failed, CauseFailed, Counters{UserFailures: 1}},
		{"out of memory", nil, "", oom, OutOfMemory, CauseOOM, Counters{UserFailures: 1}},
		{"85 unasked without a block", nil, "", code(85), Failed, CauseFailed, Counters{UserFailures: 1}},
		{"85 unasked with a block", ckpt, "", code(85), Pending, CauseRequeue, Counters{Requeues: 1}},
		{"own code", func(j *jobspec.Job) { j.Checkpoint = &jobspec.Checkpoint{ExitCode: 9} }, "", code(9), Pending, CauseRequeue, Counters{Requeues: 1}},
		{"85 when it has another code", func(j *jobspec.Job) { j.Checkpoint = &jobspec.Checkpoint{ExitCode: 9} }, "", code(85), Failed, CauseFailed, Counters{UserFailures: 1}},
		{"85 after a drain", nil, CauseDrain, code(85), Pending, CauseDrain, Counters{Migrations: 1}},
		{"killed for te", nil, CauseTE, signal(9), Pending, CauseTE, Counters{TE: 1}},
		{"reclaimed", nil, CauseReclaim, code(1), Pending, CauseReclaim, Counters{Reclaim: 1}},
		{"order", nil, CauseOrder, code(85), Pending, CauseOrder, Counters{Order: 1}},
		{"done when asked to go", nil, CauseTE, code(0), Completed, CauseCompleted, Counters{}},
		{"timeout", nil, CauseTimeout, signal(15), TimedOut, CauseTimeout, Counters{}},
		{"timeout and 85", ckpt, CauseTimeout, code(85), TimedOut, CauseTimeout, Counters{}},
		{"timeout and 0", nil, CauseTimeout, code(0), TimedOut, CauseTimeout, Counters{}},
		{"cancelled", nil, CauseCancelled, code(0), Cancelled, CauseCancelled, Counters{}},
		{"cancelled and 85", ckpt, CauseCancelled, code(85), Cancelled, CauseCancelled, Counters{}},
		{"requeued by its owner", nil, CauseRequeue, code(0), Pending, CauseRequeue, Counters{}},
		{"lease", nil, "", lease, Pending, CauseLease, Counters{NodeLosses: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.node("n1", 8)
			var edits []func(*jobspec.Job)
			if c.edit != nil {
				edits = append(edits, c.edit)
			}
			id := w.running(1, []string{"n1"}, edits...)
			switch c.stop {
			case "":
			case CauseCancelled:
				w.ok(w.control(VerbCancel, 1000, false, id))
			case CauseRequeue:
				w.ok(w.control(VerbRequeue, 1000, false, id))
			default:
				w.ok(w.plan(Action{Stop: &StopJob{Job: id, Attempt: 1, Cause: c.stop}}))
			}
			w.wait(2)
			w.report(id, 0, WorkerExited, c.exit)
			w.state(id, c.state)
			w.cause(id, c.cause)
			if got := w.job(id).Counters; got != c.count {
				t.Fatalf("counters %+v, want %+v", got, c.count)
			}
		})
	}
}

func TestUnaskedRequeuesAreLimited(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.submit(1, 1, func(j *jobspec.Job) { j.Checkpoint = &jobspec.Checkpoint{} })
	for range 17 {
		w.ok(w.start(id, "n1"))
		w.run(id)
		w.report(id, 0, WorkerExited, code(85))
	}
	if j := w.job(id); j.Hold != HeldRequeue || j.Reason.Code != ReasonMaxRequeue || j.State != Pending {
		t.Fatalf("hold %q reason %+v", j.Hold, j.Reason)
	}
	w.refused(w.start(id, "n1"), ErrNotEligible)
	w.ok(w.control(VerbRelease, 1000, false, id))
	w.ok(w.start(id, "n1"))
}

func TestRestartBlock(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	w.node("n2", 8)
	id := w.submit(1, 1, func(j *jobspec.Job) {
		j.Restart = &jobspec.Restart{Attempts: 2, Delay: 10, Window: 3600, NoRetryOnExit: []int{42}}
	})
	fail := func(n int) {
		w.ok(w.start(id, "n1"))
		w.run(id)
		w.report(id, 0, WorkerExited, code(n))
	}
	fail(1)
	w.state(id, Pending)
	if j := w.job(id); j.Eligible != w.at+10_000 || !slices.Equal(j.Exclude, []string{"n1"}) || j.Reason.Code != ReasonBackoff {
		t.Fatalf("eligible %d exclude %v reason %+v", j.Eligible, j.Exclude, j.Reason)
	}
	w.wait(10)
	fail(1)
	if got := w.job(id).Eligible; got != w.at+20_000 {
		t.Fatalf("eligible %d, want 20 s after %d", got, w.at)
	}
	w.wait(3601) // both failures leave the window
	fail(1)
	w.state(id, Pending)
	w.wait(10)
	fail(42)
	w.state(id, Failed)
	if j := w.job(id); j.ExitCode != 42 || j.Counters.UserFailures != 4 {
		t.Fatalf("exit %d counters %+v", j.ExitCode, j.Counters)
	}
}

func TestRetriesRunOut(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.submit(1, 1, func(j *jobspec.Job) {
		j.Restart = &jobspec.Restart{Attempts: 1, Backoff: "constant", RetryOnExit: []int{137}}
	})
	for _, want := range []JobState{Pending, Failed} {
		w.ok(w.start(id, "n1"))
		w.run(id)
		w.report(id, 0, WorkerExited, signal(9))
		w.state(id, want)
		w.wait(30)
	}
}

func TestLostNode(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	w.node("n2", 8)
	id := w.running(1, []string{"n1", "n2"})
	w.must(SetNodeState{Node: "n1", BootID: "b1", State: NodeDown})
	w.state(id, Running)
	end := Action{End: &EndAttempt{Job: id, Attempt: 1, Cause: CauseNodeLost}}
	w.wait(629)
	w.refused(w.plan(end), ErrLeaseRunning)
	w.wait(1)
	w.ok(w.plan(end))
	w.state(id, Completing)
	if free := w.s.v.grid.Free(0).GPUs; free != 8000 {
		t.Fatalf("%d free on the lost node", free)
	}
	w.report(id, 1, WorkerExited, code(1))
	w.state(id, Pending)
	w.cause(id, CauseNodeLost)
	if c := w.job(id).Counters; c != (Counters{NodeLosses: 1}) {
		t.Fatalf("counters %+v: the loss of a node must not count against the user", c)
	}
	w.refused(w.plan(end), ErrOldAttempt)
}

func TestNodeReturnsBeforeTheLeaseIsOver(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.running(1, []string{"n1"})
	w.must(SetNodeState{Node: "n1", State: NodeDown, Reason: "silent"})
	w.wait(100)
	w.must(SetNodeState{Node: "n1", BootID: "b1", State: NodeUp})
	w.wait(10_000)
	w.refused(w.plan(Action{End: &EndAttempt{Job: id, Attempt: 1, Cause: CauseNodeLost}}), ErrLeaseRunning)
	w.report(id, 0, WorkerExited)
	w.state(id, Completed)
}

func TestRebootLosesWorkersAtOnce(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	w.node("n2", 8)
	single := w.running(1, []string{"n1"})
	gang := w.running(1, []string{"n1", "n2"})
	n := testNode("n1", 8)
	n.BootID = "b2"
	w.must(RegisterNode{Node: n})
	w.state(single, Pending)
	w.cause(single, CauseNodeLost)
	w.state(gang, Completing)
	if got := w.s.v.Desired("n1"); len(got) != 0 {
		t.Fatalf("the node should still run %+v", got)
	}
	w.report(gang, 1, WorkerExited, signal(15))
	w.state(gang, Pending)
	_, err := w.apply(SetNodeState{Node: "n1", BootID: "b1", State: NodeDown})
	w.refused(err, ErrOtherBoot)
}

func TestNodeLossesAreLimited(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.submit(1, 1)
	for range 11 {
		w.ok(w.start(id, "n1"))
		w.report(id, 0, WorkerExited, func(r *WorkerReport) { r.Lease = true })
	}
	w.state(id, NodeFailed)
}

func TestDrain(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.submit(1, 1)
	w.must(SetNodeState{Node: "n1", State: NodeDrained, Reason: "disk"})
	var fit *FitError
	if err := w.start(id, "n1"); !errors.As(err, &fit) || fit.Reason.Code != ReasonNotAvail {
		t.Fatalf("got %v", err)
	}
	w.must(SetNodeState{Node: "n1", State: NodeDown})
	w.must(SetNodeState{Node: "n1", State: NodeUp})
	if n, _ := w.s.v.Node("n1"); n.State != NodeDrained {
		t.Fatalf("a drained node came back as %s", n.State)
	}
	w.must(SetNodeState{Node: "n1", State: NodeUp})
	w.ok(w.start(id, "n1"))
}

func TestInventoryOfGPUsInUse(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 2)
	id := w.submit(1, 1)
	w.ok(w.start(id, "n1"))
	n := testNode("n1", 1)
	n.GPUs[0].UUID = "other"
	_, err := w.apply(RegisterNode{Node: n})
	w.refused(err, ErrBadInventory)
	n = testNode("n1", 4)
	n.GPUs[0].Healthy = false
	w.must(RegisterNode{Node: n})
	if got := w.s.v.grid.FreeGPUs(0); got != 0b1110 {
		t.Fatalf("free GPUs %b", got)
	}
	w.report(id, 0, WorkerExited)
	if got := w.s.v.grid.FreeGPUs(0); got != 0b1110 {
		t.Fatalf("free GPUs %b: a broken one went back to the pool", got)
	}
	n.Cores = 0
	_, err = w.apply(RegisterNode{Node: n})
	w.refused(err, ErrBadInventory)
}

func TestReservationKeepsFreedRoom(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	run := w.running(4, []string{"n1"})
	big, small := w.submit(1, 8), w.submit(1, 1)
	all := Vector{Cores: 4, Memory: 8 * jobspec.GiB, GPUs: 8000}
	w.ok(w.plan(Action{Reserve: &Reservation{Job: big, Claims: []Claim{{Node: "n1", Room: all}}, Until: w.at + 1000}}))
	var fit *FitError
	if err := w.start(small, "n1"); !errors.As(err, &fit) || fit.Reason.Code != ReasonReservation {
		t.Fatalf("got %v", err)
	}
	w.report(run, 0, WorkerExited)
	if err := w.start(small, "n1"); !errors.As(err, &fit) || fit.Reason.Code != ReasonReservation {
		t.Fatalf("freed room went to another job: %v", err)
	}
	w.ok(w.start(big, "n1"))
	if got := w.s.v.Reservations(); len(got) != 0 {
		t.Fatalf("left over: %+v", got)
	}
}

func TestEarlierReservationGoesFirst(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	first, second := w.submit(1, 8), w.submit(1, 8)
	claim := []Claim{{Node: "n1", Room: Vector{GPUs: 8000}}}
	w.ok(w.plan(Action{Reserve: &Reservation{Job: first, Claims: claim}}))
	w.wait(1)
	w.ok(w.plan(Action{Reserve: &Reservation{Job: second, Claims: claim}}))
	var fit *FitError
	if err := w.start(second, "n1"); !errors.As(err, &fit) || fit.Reason.Code != ReasonReservation {
		t.Fatalf("got %v", err)
	}
	w.ok(w.start(first, "n1"))
	w.refused(w.plan(Action{Reserve: &Reservation{Job: first, Claims: claim}}), ErrWrongState)
	claim = []Claim{{Node: "n1", Room: Vector{GPUs: 9000}}}
	w.refused(w.plan(Action{Reserve: &Reservation{Job: second, Claims: claim}}), ErrBadClaim)
	w.ok(w.plan(Action{Unreserve: &second}))
	w.refused(w.plan(Action{Unreserve: &second}), ErrNoReservation)
}

func TestLostShimOfACommandThatMayHaveBegun(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.submit(1, 1)
	w.ok(w.start(id, "n1"))
	w.report(id, 0, WorkerFailed, func(r *WorkerReport) { r.Began = true }) // that it ran was never reported
	w.state(id, Failed)
	w.cause(id, CauseFailed)
}

func TestAShorterLeaseIsNoneForWhoNeverHeardOfIt(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.running(1, []string{"n1"})
	w.must(SetNodeState{Node: "n1", BootID: "b1", State: NodeDown})
	short := DefaultConfig()
	short.LeaseMS, short.MarginMS = 6000, 1000
	w.must(SetConfig{Config: short})
	end := Action{End: &EndAttempt{Job: id, Attempt: 1, Cause: CauseNodeLost}}
	w.wait(10)
	w.refused(w.plan(end), ErrLeaseRunning)
	again, err := ReadSnapshot(bytes.NewReader(w.snapshot()))
	w.ok(err)
	n, _ := again.View().Node("n1")
	if got, want := again.View().LostAt(n), Instant(1000+630_000); got != want {
		t.Errorf("from a snapshot: lost at %d, want %d", got, want)
	}
	w.wait(620)
	w.ok(w.plan(end))
	w.state(id, Pending)
	w.must(SetNodeState{Node: "n1", BootID: "b1", State: NodeUp})
	w.ok(w.start(id, "n1"))
	w.must(SetNodeState{Node: "n1", BootID: "b1", State: NodeDown})
	w.wait(7)
	w.ok(w.plan(Action{End: &EndAttempt{Job: id, Attempt: 2, Cause: CauseNodeLost}})) // the old leases are all over
}
