package fsm

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

func TestGangRunsToCompletion(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	w.node("n2", 8)
	id := w.submit(2, 8)
	w.ok(w.start(id, "n1", "n2"))
	w.state(id, model.Configuring)
	w.wait(1)
	w.report(id, 0, model.WorkerCreated)
	if w.job(id).Live().Released {
		t.Fatal("commands may start before every container exists")
	}
	before := w.s.v.NodeModified("n1")
	w.report(id, 1, model.WorkerCreated)
	if !w.job(id).Live().Released || w.s.v.NodeModified("n1") <= before {
		t.Fatal("the gang is complete, but its first node was not told")
	}
	w.report(id, 0, model.WorkerRunning)
	w.state(id, model.Configuring)
	w.report(id, 1, model.WorkerRunning)
	w.state(id, model.Running)
	w.wait(9)
	w.report(id, 0, model.WorkerExited)
	w.state(id, model.Running)
	w.wait(10)
	w.report(id, 1, model.WorkerExited)
	w.state(id, model.Completed)
	w.cause(id, model.CauseCompleted)
	want := model.Ledger{GPUMS: 8 * (10_000 + 20_000), CoreMS: 4 * (10_000 + 20_000)}
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
	var fit *model.FitError
	if err := w.start(id, "n1", "n2"); !errors.As(err, &fit) && !errors.Is(err, model.ErrWrongPlaces) {
		t.Fatalf("got %v", err)
	}
	err := w.plan(&StartJob{Job: id, Port: 20000, Places: []model.Place{
		{Node: "n1", GPUs: []int{0, 1, 2, 3, 4, 5, 6, 7}}, {Node: "n2", GPUs: []int{0, 1, 2, 3, 4, 5, 6, 7}},
	}})
	if !errors.As(err, &fit) || fit.Reason.Code != model.ReasonResources || fit.Reason.Node != "n2" {
		t.Fatalf("got %v", err)
	}
	w.state(id, model.Pending)
	if free := w.s.v.Grid().Free(0); free.GPUs != 8000 {
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
	place := func(node string, gpus ...int) model.Place { return model.Place{Node: node, GPUs: gpus} }
	for _, c := range []struct {
		name  string
		start StartJob
		want  error
	}{
		{"held", StartJob{Job: held, Places: []model.Place{place("n1", 1)}}, model.ErrNotEligible},
		{"running", StartJob{Job: run, Places: []model.Place{place("n1", 1)}}, model.ErrWrongState},
		{"unknown job", StartJob{Job: 99}, model.ErrNoJob},
		{"part of the gang", StartJob{Job: gang, Places: []model.Place{place("n1", 1)}}, model.ErrWrongPlaces},
		{"two on one node", StartJob{Job: gang, Port: 20001, Places: []model.Place{place("n1", 1), place("n1", 2)}},
			model.ErrWrongPlaces},
		{"too few GPUs", StartJob{Job: gang, Port: 20001, Places: []model.Place{place("n1"), place("n2", 1)}},
			model.ErrWrongPlaces},
		{"unknown node", StartJob{Job: gang, Port: 20001, Places: []model.Place{place("n9", 1), place("n2", 1)}},
			model.ErrNoNode},
		{"port in use", StartJob{Job: gang, Port: 20000, Places: []model.Place{place("n1", 1), place("n2", 1)}},
			model.ErrPort},
		{"port out of range", StartJob{Job: gang, Port: 80, Places: []model.Place{place("n1", 1), place("n2", 1)}},
			model.ErrPort},
		{"no port", StartJob{Job: gang, Places: []model.Place{place("n1", 1), place("n2", 1)}}, model.ErrPort},
	} {
		before := w.snapshot()
		if err := w.plan(&c.start); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
		if string(dropHead(before)) != string(dropHead(w.snapshot())) {
			t.Errorf("%s: a refused start changed the state", c.name)
		}
	}
	var fit *model.FitError
	for _, gpus := range [][]int{{0}, {8}, {-1}, {64}} {
		err := w.plan(&StartJob{Job: gang, Port: 20001,
			Places: []model.Place{place("n1", gpus...), place("n2", 1)}})
		if !errors.As(err, &fit) {
			t.Errorf("GPUs %v: got %v", gpus, err)
		}
	}
	if err := w.plan(nil); !errors.Is(err, model.ErrBadAction) {
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
	w.report(id, 1, model.WorkerExited, code(7))
	w.state(id, model.Completing)
	stop := w.job(id).Live().Stop
	if stop.Cause != model.CauseFailed || stop.Signal != "SIGTERM" || stop.KillAt != w.at+30_000 {
		t.Fatalf("stop is %+v", stop)
	}
	w.wait(1)
	w.report(id, 0, model.WorkerExited, signal(15))
	w.state(id, model.Failed)
	if j := w.job(id); j.ExitCode != 7 || j.Signal != 0 || j.Reason.Code != model.ReasonNonZeroExit {
		t.Fatalf("exit %d signal %d reason %+v: what the stop did must not count", j.ExitCode, j.Signal, j.Reason)
	}
}

func TestReportsOfOldAttemptsChangeNothing(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.running(1, []string{"n1"})
	w.ok(w.control(model.VerbRequeue, 1000, false, id))
	w.report(id, 0, model.WorkerExited, signal(15))
	w.state(id, model.Pending)
	w.ok(w.start(id, "n1"))
	before := dropHead(w.snapshot())
	for _, r := range []model.WorkerReport{
		{Job: id, Attempt: 1, State: model.WorkerExited, ExitCode: 1},
		{Job: id, Attempt: 3, State: model.WorkerRunning},
		{Job: id, Attempt: 2, Worker: 1, State: model.WorkerRunning},
		{Job: id, Attempt: 2, Worker: -1, State: model.WorkerRunning},
		{Job: id, Attempt: 2, State: model.WorkerAssigned},
		{Job: 77, Attempt: 1, State: model.WorkerRunning},
	} {
		w.must(NodeReport{Node: "n1", BootID: "b1", Workers: []model.WorkerReport{r}})
	}
	if string(before) != string(dropHead(w.snapshot())) {
		t.Fatal("a report that says nothing new changed the state")
	}
	_, err := w.apply(NodeReport{Node: "n1", BootID: "b0",
		Workers: []model.WorkerReport{{Job: id, Attempt: 2, State: model.WorkerRunning}}})
	w.refused(err, model.ErrOtherBoot)
	w.refusedRow(model.WorkerReport{Job: id, Attempt: 2, State: "dancing"}, model.ErrBadReport)
	w.state(id, model.Configuring)
}

// TestUsageIsKept shows that the usage of a worker is kept with its end. If a report has an impossible usage,
// the rest of the report counts.
func TestUsageIsKept(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.submit(1, 1)
	w.ok(w.start(id, "n1"))
	w.refusedRow(model.WorkerReport{Job: id, Attempt: 1, State: model.WorkerCreated, Usage: model.Usage{GPU: 1001}},
		model.ErrBadReport)
	used := model.Usage{CPUMS: 5, PeakGPUMemory: 7}
	w.report(id, 0, model.WorkerRunning, func(r *model.WorkerReport) { r.Usage = used }) // only that of the end counts
	if u := w.job(id).Attempts[0].Workers[0].Usage; u != nil {
		t.Errorf("while it runs: %+v", u)
	}
	w.report(id, 0, model.WorkerExited, func(r *model.WorkerReport) { r.Usage = used })
	if u := w.job(id).Attempts[0].Used(); u == nil || u.Usage != used {
		t.Errorf("used is %+v", u)
	}
}

func TestLaunchFailuresHaveTheirOwnLimit(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	w.node("n2", 8)
	id := w.submit(1, 1)
	for i, want := range []model.JobState{model.Pending, model.Pending, model.BootFailed} {
		node := []string{"n1", "n2", "n1"}[i]
		w.ok(w.start(id, node))
		w.report(id, 0, model.WorkerFailed, func(r *model.WorkerReport) { r.Message = "no such image" })
		w.state(id, want)
		w.cause(id, model.CauseLaunch)
		j := w.job(id)
		if want == model.Pending && (j.Eligible != w.at+model.Instant(5000<<i) || j.Reason.Code != model.ReasonBackoff) {
			t.Fatalf("failure %d: eligible at %d, now %d, reason %+v", i+1, j.Eligible, w.at, j.Reason)
		}
		if i == 0 && !slices.Equal(j.Exclude, []string{"n1"}) {
			t.Fatalf("avoids %v", j.Exclude)
		}
		if i == 1 && j.Exclude != nil {
			t.Fatalf("avoids %v: no node is left", j.Exclude)
		}
		if want == model.Pending {
			w.refused(w.start(id, node), model.ErrNotEligible)
		}
		w.wait(60)
	}
	j := w.job(id)
	if j.Reason != (model.Reason{Code: model.ReasonLaunchFailure, Text: "no such image"}) ||
		j.Counters != (model.Counters{LaunchFailures: 3}) {
		t.Fatalf("reason %+v counters %+v", j.Reason, j.Counters)
	}
}

func TestLaunchFailureTearsTheGangDown(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	w.node("n2", 8)
	id := w.submit(2, 1)
	w.ok(w.start(id, "n1", "n2"))
	w.report(id, 0, model.WorkerCreated)
	w.report(id, 1, model.WorkerFailed)
	w.state(id, model.Completing)
	w.report(id, 0, model.WorkerExited, signal(9))
	w.cause(id, model.CauseLaunch)
	w.state(id, model.Pending)
}

// TestALostShimIsTheSystemsFault: the job starts again, and no retry of its own is used. It notices a
// lost shim that counts as a failure of the job.
func TestALostShimIsTheSystemsFault(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.running(1, []string{"n1"})
	w.report(id, 0, model.WorkerFailed, func(r *model.WorkerReport) { r.Message = "its shim died" })
	w.state(id, model.Pending)
	w.cause(id, model.CauseNodeLost)
	if c := w.job(id).Counters; c.UserFailures != 0 || c.NodeLosses != 1 {
		t.Fatalf("%+v", c)
	}
}

const killedTail = "the kernel killed tail (process 7) for memory; the limit is 200MiB"

// outOfMemory checks the record of a job that has run out of memory. That is 0:125 as in Slurm, and
// the killed process, if its node has named it.
func (w *world) outOfMemory(id model.JobID) {
	w.t.Helper()
	j := w.s.View().Job(id)
	a := &j.Attempts[0]
	if a.Cause != model.CauseOOM {
		if a.Signal == model.SignalOOM || a.Killed() != "" {
			w.t.Errorf("it ended with %s: signal %d, %q", a.Cause, a.Signal, a.Killed())
		}
		return
	}
	text := a.Workers[0].Why
	ended := slices.ContainsFunc(w.s.View().Events(0), func(e model.Event) bool {
		return e.Type == model.EventEnded && e.Job == id && e.Cause == model.CauseOOM && e.Text == text
	})
	if j.ExitCode != 0 || j.Signal != 125 || a.ExitCode != 0 || a.Signal != 125 || a.Killed() != text || !ended ||
		j.Reason.Code != model.ReasonOOM || j.Reason.Text != text {
		w.t.Errorf("exit %d:%d, attempt %d:%d, killed %q, an event says it: %t, reason %+v, want %q", j.ExitCode, j.Signal,
			a.ExitCode, a.Signal, a.Killed(), ended, j.Reason, text)
	}
}

func TestEndsByCause(t *testing.T) {
	ckpt := func(j *jobspec.Job) { j.Checkpoint = &jobspec.Checkpoint{} }
	once := func(j *jobspec.Job) { j.Preemption = &jobspec.Preemption{Requeue: new(bool)} }
	asks := func(j *jobspec.Job) { j.RequeueExit = 85 }
	onceEarly := func(j *jobspec.Job) { once(j); j.Checkpoint = &jobspec.Checkpoint{BeforeLimit: 60} }
	lease := func(r *model.WorkerReport) { r.Lease, r.Signal = true, 15 }
	oom := func(r *model.WorkerReport) { r.OOM, r.Signal = true, 9 }
	for _, c := range []struct {
		name  string
		edit  func(*jobspec.Job)
		stop  model.Cause
		exit  func(*model.WorkerReport)
		state model.JobState
		cause model.Cause
		count model.Counters
	}{
		{"exit 0", nil, "", code(0), model.Completed, model.CauseCompleted, model.Counters{}},
		{"exit 3", nil, "", code(3), model.Failed, model.CauseFailed, model.Counters{UserFailures: 1}},
		{"out of memory", nil, "", oom, model.OutOfMemory, model.CauseOOM, model.Counters{UserFailures: 1}},
		{"out of memory, and the script goes on", nil, "", func(r *model.WorkerReport) { r.OOM, r.Why = true, killedTail },
			model.OutOfMemory, model.CauseOOM, model.Counters{UserFailures: 1}},
		{"85 unasked without a block", nil, "", code(85), model.Failed, model.CauseFailed, model.Counters{UserFailures: 1}},
		{"85 unasked with a block", ckpt, "", code(85), model.Pending, model.CauseRequeue, model.Counters{Requeues: 1}},
		{"own code", func(j *jobspec.Job) { j.Checkpoint = &jobspec.Checkpoint{ExitCode: 9} }, "", code(9), model.Pending,
			model.CauseRequeue, model.Counters{Requeues: 1}},
		{"85 when it has another code", func(j *jobspec.Job) { j.Checkpoint = &jobspec.Checkpoint{ExitCode: 9} }, "",
			code(85), model.Failed, model.CauseFailed, model.Counters{UserFailures: 1}},
		{"85 after a drain", nil, model.CauseDrain, code(85), model.Pending, model.CauseDrain, model.Counters{Migrations: 1}},
		{"killed for te", nil, model.CauseTE, signal(9), model.Pending, model.CauseTE, model.Counters{TE: 1}},
		{"reclaimed", nil, model.CauseReclaim, code(1), model.Pending, model.CauseReclaim, model.Counters{Reclaim: 1}},
		{"order", nil, model.CauseOrder, code(85), model.Pending, model.CauseOrder, model.Counters{Order: 1}},
		{"done when asked to go", nil, model.CauseTE, code(0), model.Completed, model.CauseCompleted, model.Counters{}},
		{"timeout", nil, model.CauseTimeout, signal(15), model.TimedOut, model.CauseTimeout, model.Counters{}},
		{"timeout and 85", ckpt, model.CauseTimeout, code(85), model.Pending, model.CauseRequeue,
			model.Counters{Requeues: 1}},
		{"timeout and another code", ckpt, model.CauseTimeout, code(84), model.TimedOut, model.CauseTimeout,
			model.Counters{}},
		{"timeout and 85 without a word of it", nil, model.CauseTimeout, code(85), model.TimedOut, model.CauseTimeout,
			model.Counters{}},
		{"85 of a script", asks, "", code(85), model.Pending, model.CauseRequeue, model.Counters{Requeues: 1}},
		{"timeout and 85 of a script", asks, model.CauseTimeout, code(85), model.Pending, model.CauseRequeue,
			model.Counters{Requeues: 1}},
		{"once, 85 and a signal before its limit", onceEarly, "", code(85), model.Failed, model.CauseFailed,
			model.Counters{UserFailures: 1}},
		{"timeout and 0", nil, model.CauseTimeout, code(0), model.TimedOut, model.CauseTimeout, model.Counters{}},
		{"cancelled", nil, model.CauseCancelled, code(0), model.Cancelled, model.CauseCancelled, model.Counters{}},
		{"cancelled and 85", ckpt, model.CauseCancelled, code(85), model.Cancelled, model.CauseCancelled, model.Counters{}},
		{"requeued by its owner", nil, model.CauseRequeue, code(0), model.Pending, model.CauseRequeue, model.Counters{}},
		{"once, killed for te", once, model.CauseTE, signal(9), model.Preempted, model.CauseTE, model.Counters{TE: 1}},
		{"once, reclaimed", once, model.CauseReclaim, code(1), model.Preempted, model.CauseReclaim,
			model.Counters{Reclaim: 1}},
		{"once, done when asked to go", once, model.CauseTE, code(0), model.Completed, model.CauseCompleted,
			model.Counters{}},
		{"once, requeued by its owner", once, model.CauseRequeue, code(0), model.Pending, model.CauseRequeue,
			model.Counters{}},
		{"once, lease", once, "", lease, model.NodeFailed, model.CauseLease, model.Counters{NodeLosses: 1}},
		{"lease", nil, "", lease, model.Pending, model.CauseLease, model.Counters{NodeLosses: 1}},
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
			case model.CauseCancelled:
				w.ok(w.control(model.VerbCancel, 1000, false, id))
			case model.CauseRequeue:
				w.ok(w.control(model.VerbRequeue, 1000, false, id))
			default:
				w.ok(w.plan(&StopJob{Job: id, Attempt: 1, Cause: c.stop}))
			}
			w.wait(2)
			w.report(id, 0, model.WorkerExited, c.exit)
			w.state(id, c.state)
			w.cause(id, c.cause)
			w.outOfMemory(id)
			if got := w.job(id).Counters; got != c.count {
				t.Fatalf("counters %+v, want %+v", got, c.count)
			}
		})
	}
}

// TestAJobRequeuesItself: a request from within its container counts as exit code 85 does, and one from
// outside counts nothing. One that makes room already is requeued by that.
func TestAJobRequeuesItself(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.submit(1, 1)
	ask := func(own bool) error {
		return w.must(ControlJobs{Verb: model.VerbRequeue, Targets: targets(id), By: 1000,
			Own: own}).([]model.ControlResult)[0].Err
	}
	requeue := func(own bool) {
		t.Helper()
		w.ok(w.start(id, "n1"))
		w.run(id)
		w.ok(ask(own))
		w.report(id, 0, model.WorkerExited, code(0))
	}
	requeue(false)
	if j := w.job(id); j.State != model.Pending || j.Counters.Requeues != 0 {
		t.Fatalf("requeued by its user: %s, %+v", j.State, j.Counters)
	}
	for range w.s.v.Config().Policy.MaxRequeues {
		requeue(true)
	}
	if j := w.job(id); j.State != model.Pending || j.Hold != model.NotHeld || j.Counters.Requeues != 16 {
		t.Fatalf("requeued by itself: %s %q, %+v", j.State, j.Hold, j.Counters)
	}
	w.ok(w.start(id, "n1"))
	w.run(id)
	w.ok(w.plan(&StopJob{Job: id, Attempt: w.job(id).Attempt, Cause: model.CauseDrain}))
	w.ok(ask(true)) // it makes room already, and starts again for that, however politely it ends
	w.refused(ask(false), model.ErrStopping)
	w.report(id, 0, model.WorkerExited, code(0))
	if j := w.job(id); j.State != model.Pending || j.Hold != model.NotHeld || j.Counters.Requeues != 16 {
		t.Fatalf("requeued by itself while it makes room: %s %q, %+v", j.State, j.Hold, j.Counters)
	}
	requeue(true)
	if j := w.job(id); j.Hold != model.HeldRequeue || j.Reason.Code != model.ReasonMaxRequeue {
		t.Fatalf("once more: hold %q reason %+v", j.Hold, j.Reason)
	}
}

func TestUnaskedRequeuesAreLimited(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.submit(1, 1, func(j *jobspec.Job) { j.Checkpoint = &jobspec.Checkpoint{} })
	for range 17 {
		w.ok(w.start(id, "n1"))
		w.run(id)
		w.report(id, 0, model.WorkerExited, code(85))
	}
	if j := w.job(id); j.Hold != model.HeldRequeue || j.Reason.Code != model.ReasonMaxRequeue || j.State != model.Pending {
		t.Fatalf("hold %q reason %+v", j.Hold, j.Reason)
	}
	w.refused(w.start(id, "n1"), model.ErrNotEligible)
	w.ok(w.control(model.VerbRelease, 1000, false, id))
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
		w.report(id, 0, model.WorkerExited, code(n))
	}
	fail(1)
	w.state(id, model.Pending)
	if j := w.job(id); j.Eligible != w.at+10_000 || !slices.Equal(j.Exclude, []string{"n1"}) ||
		j.Reason.Code != model.ReasonBackoff {
		t.Fatalf("eligible %d exclude %v reason %+v", j.Eligible, j.Exclude, j.Reason)
	}
	w.wait(10)
	fail(1)
	if got := w.job(id).Eligible; got != w.at+20_000 {
		t.Fatalf("eligible %d, want 20 s after %d", got, w.at)
	}
	w.wait(3601) // both failures leave the window
	fail(1)
	w.state(id, model.Pending)
	w.wait(10)
	fail(42)
	w.state(id, model.Failed)
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
	for _, want := range []model.JobState{model.Pending, model.Failed} {
		w.ok(w.start(id, "n1"))
		w.run(id)
		w.report(id, 0, model.WorkerExited, signal(9))
		w.state(id, want)
		w.wait(30)
	}
}

func TestLostNode(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	w.node("n2", 8)
	id := w.running(1, []string{"n1", "n2"})
	w.must(SetNodeState{Node: "n1", BootID: "b1", State: model.NodeDown})
	w.state(id, model.Running)
	end := &EndAttempt{Job: id, Attempt: 1, Cause: model.CauseNodeLost}
	w.wait(629)
	w.refused(w.plan(end), model.ErrLeaseRunning)
	w.wait(1)
	w.ok(w.plan(end))
	w.state(id, model.Completing)
	if free := w.s.v.Grid().Free(0).GPUs; free != 8000 {
		t.Fatalf("%d free on the lost node", free)
	}
	w.report(id, 1, model.WorkerExited, code(1))
	w.state(id, model.Pending)
	w.cause(id, model.CauseNodeLost)
	if c := w.job(id).Counters; c != (model.Counters{NodeLosses: 1}) {
		t.Fatalf("counters %+v: the loss of a node must not count against the user", c)
	}
	w.refused(w.plan(end), model.ErrOldAttempt)
}

func TestNodeReturnsBeforeTheLeaseIsOver(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.running(1, []string{"n1"})
	w.must(SetNodeState{Node: "n1", State: model.NodeDown, Reason: "silent"})
	w.wait(100)
	w.must(SetNodeState{Node: "n1", BootID: "b1", State: model.NodeUp})
	w.wait(10_000)
	w.refused(w.plan(&EndAttempt{Job: id, Attempt: 1, Cause: model.CauseNodeLost}), model.ErrLeaseRunning)
	w.report(id, 0, model.WorkerExited)
	w.state(id, model.Completed)
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
	w.state(single, model.Pending)
	w.cause(single, model.CauseNodeLost)
	w.state(gang, model.Completing)
	if got := w.s.v.Desired("n1"); len(got) != 0 {
		t.Fatalf("the node should still run %+v", got)
	}
	w.report(gang, 1, model.WorkerExited, signal(15))
	w.state(gang, model.Pending)
	_, err := w.apply(SetNodeState{Node: "n1", BootID: "b1", State: model.NodeDown})
	w.refused(err, model.ErrOtherBoot)
}

// TestAnotherMachineWaitsForTheLease registers other machines under the name of a node that runs a job. It
// notices that the job is lost although the first machine may go on to run it until its lease is over.
func TestAnotherMachineWaitsForTheLease(t *testing.T) {
	other := func(machine string) model.Node {
		n := testNode("n1", 8)
		n.BootID, n.Machine = "b2", machine
		return n
	}
	for name, machine := range map[string]string{"a clone": "m-clone", "a machine without a name": ""} {
		w := newWorld(t)
		w.node("n1", 8)
		id := w.running(1, []string{"n1"})
		again := RegisterNode{Node: other(machine)}
		refused := func(when string) {
			t.Helper()
			before := w.s.v.Nodes()[0]
			_, err := w.apply(again)
			w.refused(err, model.ErrOtherMachine)
			w.state(id, model.Running)
			if now := w.s.v.Nodes()[0]; now != before {
				t.Errorf("%s, %s: the node is %+v, %+v before", name, when, now, before)
			}
		}
		refused("while the node is up")
		w.must(SetNodeState{Node: "n1", BootID: "b1", State: model.NodeDown})
		refused("when it is down")
		w.must(SetNodeState{Node: "n1", BootID: "b1", State: model.NodeUp})
		w.must(SetNodeState{Node: "n1", BootID: "b1", State: model.NodeDown})
		w.wait(629)
		refused("before the lease is over")
		w.wait(1)
		w.ok(w.plan(&EndAttempt{Job: id, Attempt: 1, Cause: model.CauseNodeLost}))
		w.must(again)
		if n := w.s.v.Nodes()[0]; n.State != model.NodeUp || n.BootID != "b2" || n.Machine != machine {
			t.Errorf("%s: after the lease the node is %+v", name, n)
		}
		w.state(id, model.Pending)
	}
	w := newWorld(t)
	w.node("n1", 8)
	id := w.running(1, []string{"n1"})
	w.report(id, 0, model.WorkerExited)
	w.must(RegisterNode{Node: other("m-clone")}) // nothing runs there
	id = w.running(1, []string{"n1"})
	_, err := w.apply(RegisterNode{Node: testNode("n1", 8)}) // the first one is back, and another one has its place
	w.refused(err, model.ErrOtherMachine)
	w.state(id, model.Running)
}

// TestAMachineThatNobodyNamesIsNoReboot has a node without a name of its machine boot anew. It notices that
// two machines without names are taken for the same one.
func TestAMachineThatNobodyNamesIsNoReboot(t *testing.T) {
	w := newWorld(t)
	n := testNode("n1", 8)
	n.Machine = ""
	w.must(RegisterNode{Node: n})
	id := w.running(1, []string{"n1"})
	n.BootID = "b2"
	_, err := w.apply(RegisterNode{Node: n})
	w.refused(err, model.ErrOtherMachine)
	w.state(id, model.Running)
}

func TestNodeLossesAreLimited(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.submit(1, 1)
	for range 11 {
		w.ok(w.start(id, "n1"))
		w.report(id, 0, model.WorkerExited, func(r *model.WorkerReport) { r.Lease = true })
	}
	w.state(id, model.NodeFailed)
}

func TestDrain(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.submit(1, 1)
	w.must(SetNodeState{Node: "n1", State: model.NodeDrained, Reason: "disk"})
	var fit *model.FitError
	if err := w.start(id, "n1"); !errors.As(err, &fit) || fit.Reason.Code != model.ReasonNotAvail {
		t.Fatalf("got %v", err)
	}
	w.must(SetNodeState{Node: "n1", State: model.NodeDown})
	w.must(SetNodeState{Node: "n1", State: model.NodeUp})
	if n, _ := w.s.v.Node("n1"); n.State != model.NodeDrained {
		t.Fatalf("a drained node came back as %s", n.State)
	}
	w.must(SetNodeState{Node: "n1", State: model.NodeUp})
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
	w.refused(err, model.ErrBadInventory)
	n = testNode("n1", 4)
	n.GPUs[0].Healthy = false
	w.must(RegisterNode{Node: n})
	if got := w.s.v.Grid().FreeGPUs(0); got != 0b1110 {
		t.Fatalf("free GPUs %b", got)
	}
	w.report(id, 0, model.WorkerExited)
	if got := w.s.v.Grid().FreeGPUs(0); got != 0b1110 {
		t.Fatalf("free GPUs %b: a broken one went back to the pool", got)
	}
	n.Cores = 0
	_, err = w.apply(RegisterNode{Node: n})
	w.refused(err, model.ErrBadInventory)
}

func TestReservationKeepsFreedRoom(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	run := w.running(4, []string{"n1"})
	big, small := w.submit(1, 8), w.submit(1, 1)
	all := model.Vector{Cores: 4, Memory: 8 * jobspec.GiB, GPUs: 8000}
	w.ok(w.plan(&Reserve{Job: big, Claims: []model.Claim{{Node: "n1", Resources: all}},
		Until: w.at + 1000}))
	var fit *model.FitError
	if err := w.start(small, "n1"); !errors.As(err, &fit) || fit.Reason.Code != model.ReasonReservation {
		t.Fatalf("got %v", err)
	}
	w.report(run, 0, model.WorkerExited)
	if err := w.start(small, "n1"); !errors.As(err, &fit) || fit.Reason.Code != model.ReasonReservation {
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
	claim := []model.Claim{{Node: "n1", Resources: model.Vector{GPUs: 8000}}}
	w.ok(w.plan(&Reserve{Job: first, Claims: claim}))
	w.wait(1)
	w.ok(w.plan(&Reserve{Job: second, Claims: claim}))
	var fit *model.FitError
	if err := w.start(second, "n1"); !errors.As(err, &fit) || fit.Reason.Code != model.ReasonReservation {
		t.Fatalf("got %v", err)
	}
	w.ok(w.start(first, "n1"))
	w.refused(w.plan(&Reserve{Job: first, Claims: claim}), model.ErrWrongState)
	claim = []model.Claim{{Node: "n1", Resources: model.Vector{GPUs: 9000}}}
	w.refused(w.plan(&Reserve{Job: second, Claims: claim}), model.ErrBadClaim)
	w.ok(w.plan(&Unreserve{Job: second}))
	w.refused(w.plan(&Unreserve{Job: second}), model.ErrNoReservation)
}

func TestLostShimOfACommandThatMayHaveBegun(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.submit(1, 1)
	w.ok(w.start(id, "n1"))
	w.report(id, 0, model.WorkerFailed, func(r *model.WorkerReport) { r.Began = true }) // that it ran was never reported
	w.state(id, model.Pending)
	w.cause(id, model.CauseNodeLost)
}

func TestAShorterLeaseIsNoneForWhoNeverHeardOfIt(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.running(1, []string{"n1"})
	w.must(SetNodeState{Node: "n1", BootID: "b1", State: model.NodeDown})
	short := requeueing()
	short.LeaseMS, short.MarginMS = 6000, 1000
	w.must(SetConfig{Config: short})
	end := &EndAttempt{Job: id, Attempt: 1, Cause: model.CauseNodeLost}
	w.wait(10)
	w.refused(w.plan(end), model.ErrLeaseRunning)
	again, err := ReadSnapshot(bytes.NewReader(w.snapshot()))
	w.ok(err)
	n, _ := again.View().Node("n1")
	if got, want := again.View().LostAt(n), model.Instant(1000+630_000); got != want {
		t.Errorf("from a snapshot: lost at %d, want %d", got, want)
	}
	w.wait(620)
	w.ok(w.plan(end))
	w.state(id, model.Pending)
	w.must(SetNodeState{Node: "n1", BootID: "b1", State: model.NodeUp})
	w.ok(w.start(id, "n1"))
	w.must(SetNodeState{Node: "n1", BootID: "b1", State: model.NodeDown})
	w.wait(7)
	w.ok(w.plan(&EndAttempt{Job: id, Attempt: 2, Cause: model.CauseNodeLost})) // the old leases are all over
}
