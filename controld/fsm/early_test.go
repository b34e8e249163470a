package fsm

import (
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// hourly has an hour, and a signal ten minutes before its end.
func hourly(j *jobspec.Job) {
	j.TimeLimit, j.Checkpoint = 3600, &jobspec.Checkpoint{BeforeLimit: 600}
}

func (w *world) tell(id model.JobID) error {
	w.t.Helper()
	return w.plan(&EarlySignal{Job: id, Attempt: w.job(id).Attempt})
}

// TestAnAttemptIsToldOnce notices a signal that comes too soon, twice, unasked, or to a job that is
// being stopped. It also notices a new attempt that counts as told.
func TestAnAttemptIsToldOnce(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id, other := w.running(1, []string{"n1"}, hourly), w.running(1, []string{"n1"})
	w.wait(2999)
	w.refused(w.tell(id), model.ErrWrongState)
	w.wait(1)
	w.refused(w.tell(other), model.ErrWrongState)
	before := w.s.v.NodeModified("n1")
	w.ok(w.tell(id))
	w.state(id, model.Running)
	if a := w.job(id).Live(); a.Early != w.at || a.Stop != nil || w.s.v.NodeModified("n1") <= before {
		t.Fatalf("told at %d, now it is %d, stop %+v", a.Early, w.at, a.Stop)
	}
	w.refused(w.tell(id), model.ErrWrongState)
	w.report(id, 0, model.WorkerExited, code(85))
	w.state(id, model.Pending)
	if got := w.job(id).Counters; got != (model.Counters{Requeues: 1}) {
		t.Errorf("counters %+v", got)
	}
	w.ok(w.start(id, "n1"))
	w.run(id)
	if a := w.job(id).Live(); a.Early != 0 || a.N != 2 {
		t.Errorf("attempt %d was told at %d", a.N, a.Early)
	}
	w.wait(3000)
	w.ok(w.control(model.VerbCancel, 1000, false, id))
	w.refused(w.tell(id), model.ErrWrongState)
	w.report(id, 0, model.WorkerExited)
	w.state(id, model.Cancelled)
}

// TestAPausedAttemptIsNotTold: its clock stands still, and a job that has paused reads no notice.
func TestAPausedAttemptIsNotTold(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 1)
	id := w.running(1, []string{"n1"}, pauses, hourly)
	w.wait(2000)
	w.ok(w.suspend(id, model.CauseSlice, 0))
	w.wait(1001)
	w.refused(w.tell(id), model.ErrWrongState) // it is about to pause
	w.switched(id, 0)
	w.wait(5000)
	w.refused(w.tell(id), model.ErrWrongState)
	w.ok(w.resume(id))
	w.switched(id, 0)
	w.ok(w.tell(id))
	limit := w.job(id).Live().Started.At + 3600_000
	if got := limit - w.at; got != 599_000 {
		t.Errorf("it has %d ms left", got)
	}
}

// TestARequeueWinsAtTheLimit: a job that is being stopped at its time limit is started again when it
// is asked for, in the time that it has. At its deadline it ends.
func TestARequeueWinsAtTheLimit(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.running(1, []string{"n1"}, hourly)
	w.wait(3600)
	w.ok(w.plan(&StopJob{Job: id, Attempt: 1, Cause: model.CauseTimeout}))
	was := *w.job(id).Live().Stop
	w.wait(5)
	w.ok(w.control(model.VerbRequeue, 1000, false, id))
	w.ok(w.control(model.VerbRequeue, 1000, false, id))
	if s := w.job(id).Live().Stop; s.Cause != model.CauseRequeue || s.At != was.At || s.KillAt != was.KillAt ||
		s.Signal != was.Signal {
		t.Errorf("its stop was %+v and is %+v", was, *s)
	}
	w.refused(w.plan(&StopJob{Job: id, Attempt: 1, Cause: model.CauseTimeout}), model.ErrStopping)
	w.report(id, 0, model.WorkerExited, signal(9))
	w.state(id, model.Pending)
	w.cause(id, model.CauseRequeue)
	if got := w.job(id).Counters; got != (model.Counters{}) {
		t.Errorf("counted as its own: %+v", got)
	}

	dated, err := w.timed(0, 3600, func(j *jobspec.Job) { j.Checkpoint = &jobspec.Checkpoint{} })
	w.ok(err)
	w.ok(w.start(dated, "n1"))
	w.run(dated)
	w.wait(3600)
	w.ok(w.plan(&StopJob{Job: dated, Attempt: 1, Cause: model.CauseTimeout}))
	w.refused(w.control(model.VerbRequeue, 1000, false, dated), model.ErrStopping)
	w.report(dated, 0, model.WorkerExited, code(85))
	w.state(dated, model.TimedOut)
	if r := w.job(dated).Reason; r.Code != model.ReasonDeadline {
		t.Errorf("it ended for %+v", r)
	}
}

// TestAJobRequeuesItselfAtItsLimit: that counts as a request of its own, and is refused to a job that
// is never started again.
func TestAJobRequeuesItselfAtItsLimit(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.running(1, []string{"n1"}, hourly)
	w.wait(3600)
	w.ok(w.plan(&StopJob{Job: id, Attempt: 1, Cause: model.CauseTimeout}))
	ask := func(id model.JobID) error {
		return w.must(ControlJobs{Verb: model.VerbRequeue, Targets: targets(id), By: 1000,
			Own: true}).([]model.ControlResult)[0].Err
	}
	w.ok(ask(id))
	w.report(id, 0, model.WorkerExited, code(0))
	w.state(id, model.Pending)
	w.cause(id, model.CauseRequeue)
	if got := w.job(id).Counters; got.Requeues != 1 {
		t.Errorf("counted: %+v", got)
	}
	w.ok(w.start(id, "n1"))
	w.run(id)
	w.ok(ask(id)) // it has saved, and need not be told to
	if s := w.job(id).Live().Stop; s.Signal != "SIGTERM" || s.KillAt-s.At != 30_000 {
		t.Errorf("it is stopped by %+v", s)
	}
	once := w.running(2, []string{"n1"}, func(j *jobspec.Job) {
		j.Preemption = &jobspec.Preemption{Requeue: new(bool)}
	})
	w.refused(ask(once), model.ErrRunsOnce)
}

// TestARequestOfItsOwnOutlivesALostNode: a job that has asked to be started again is, by its own request,
// although one of its nodes is lost while it stops. A cancel ends it.
func TestARequestOfItsOwnOutlivesALostNode(t *testing.T) {
	for _, cancelled := range []bool{false, true} {
		w := newWorld(t)
		w.node("n1", 8)
		w.node("n2", 8)
		id := w.running(1, []string{"n1", "n2"}, func(j *jobspec.Job) { j.Groups[0].Success = "leader" })
		w.ok(w.must(ControlJobs{Verb: model.VerbRequeue, Targets: targets(id), By: 1000,
			Own: true}).([]model.ControlResult)[0].Err)
		n := testNode("n2", 8)
		n.BootID = "b2"
		w.must(RegisterNode{Node: n})
		if s := w.job(id).Live().Stop; s.Cause != model.CauseNodeLost || !s.Own {
			t.Fatalf("it is stopped by %+v", s)
		}
		if cancelled {
			w.ok(w.control(model.VerbCancel, 1000, false, id))
		}
		w.report(id, 0, model.WorkerExited, code(0))
		if cancelled {
			w.state(id, model.Cancelled)
			continue
		}
		w.state(id, model.Pending)
		w.cause(id, model.CauseRequeue)
		if got := w.job(id).Counters; got != (model.Counters{Requeues: 1}) {
			t.Errorf("counted: %+v", got)
		}
	}
}

// TestADeadlineIsAnnounced: a job is told of its deadline if that comes before its time limit.
func TestADeadlineIsAnnounced(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id, err := w.timed(0, 1800, func(j *jobspec.Job) { j.Checkpoint = &jobspec.Checkpoint{BeforeLimit: 600} })
	w.ok(err)
	w.ok(w.start(id, "n1"))
	w.run(id)
	due := w.job(id).Deadline - 600_000
	if got := w.job(id).EarlyAt(w.job(id).Live()); got != due {
		t.Fatalf("it is told at %d, want %d", got, due)
	}
	w.wait(jobspec.Seconds(due-w.at)/1000 - 1)
	w.refused(w.tell(id), model.ErrWrongState)
	w.wait(2)
	w.ok(w.tell(id))
}

// TestAGangAsksAsOne: at the limit every worker that did not succeed has to ask.
func TestAGangAsksAsOne(t *testing.T) {
	for name, c := range map[string]struct {
		second func(*model.WorkerReport)
		want   model.JobState
	}{
		"both ask": {code(85), model.Pending}, "one is done": {code(0), model.Pending},
		"one is killed": {signal(9), model.TimedOut}, "one fails": {code(1), model.TimedOut},
	} {
		w := newWorld(t)
		w.node("n1", 8)
		w.node("n2", 8)
		id := w.running(1, []string{"n1", "n2"}, hourly)
		w.wait(3600)
		w.ok(w.plan(&StopJob{Job: id, Attempt: 1, Cause: model.CauseTimeout}))
		w.report(id, 0, model.WorkerExited, code(85))
		w.report(id, 1, model.WorkerExited, c.second)
		if got := w.job(id).State; got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestAQueueBoundsRequests: a queue says how often its jobs may ask to be started again, and the job
// that is held says where that is written. Requests from outside and retries are not counted.
func TestAQueueBoundsRequests(t *testing.T) {
	w := newWorld(t)
	cfg, most := cluster.DefaultConfig(), 2
	q := cfg.Queues["default"]
	q.MaxRequeues = &most
	cfg.Queues["default"] = q
	w.must(SetConfig{Config: cfg})
	w.node("n1", 8)
	id := w.submit(1, 1, func(j *jobspec.Job) { j.RequeueExit, j.Restart = 85, &jobspec.Restart{Attempts: 1} })
	asks := func(n int) {
		w.ok(w.start(id, "n1"))
		w.run(id)
		w.report(id, 0, model.WorkerExited, code(n))
	}
	for range 3 {
		w.ok(w.start(id, "n1"))
		w.run(id)
		w.ok(w.control(model.VerbRequeue, 1000, false, id))
		w.report(id, 0, model.WorkerExited, code(85))
	}
	asks(85)
	asks(85)
	if j := w.job(id); j.Hold != model.NotHeld || len(j.Failures) > 0 || j.Counters.Requeues != 2 {
		t.Fatalf("hold %q, failures %v, counters %+v", j.Hold, j.Failures, j.Counters)
	}
	asks(85)
	j := w.job(id)
	if text := j.Reason.Text; j.Hold != model.HeldRequeue ||
		!strings.Contains(text, `3 times, and max_requeues of queue "default" allows 2`) {
		t.Errorf("hold %q: %s", j.Hold, text)
	}
}
