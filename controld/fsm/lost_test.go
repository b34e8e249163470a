package fsm

import (
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// saves gives a job a checkpoint block. The job saves its state every so many seconds, or with 0
// only when it is asked to leave.
func saves(every jobspec.Seconds) func(*jobspec.Job) {
	return func(j *jobspec.Job) { j.Checkpoint = &jobspec.Checkpoint{Path: "state", Interval: every} }
}

// graces gives a job a grace period of a minute.
func graces(j *jobspec.Job) { j.Preemption = &jobspec.Preemption{GracePeriod: 60} }

// TestWhatLeavingCosts is about jobs with 2 GPUs. They run for 100 s, are asked to leave, take 10 s
// for that, and need 7 s to begin again. Lost work is counted in seconds of one GPU.
func TestWhatLeavingCosts(t *testing.T) {
	kill := signal(9)
	for _, c := range []struct {
		name  string
		cause model.Cause
		edit  func(*jobspec.Job)
		exit  func(*model.WorkerReport)
		work  int64 // that is known to be lost when it is asked to leave
		lost  int64 // of work in the end
	}{
		{"it never saves", model.CauseTE, graces, code(143), 200, 200},
		{"it saves every half minute, and is killed", model.CauseReclaim, saves(30), kill, 20, 20},
		{"it saves every half minute, and once more", model.CauseReclaim, saves(30), code(85), 20, 0},
		{"it saves when asked", model.CauseOrder, saves(0), code(85), 0, 0},
		{"it is killed while it saves", model.CauseOrder, saves(0), kill, 0, 200},
		{"it says that it has saved", model.CauseTE, graces, code(85), 200, 0},
		{"its node is drained", model.CauseDrain, saves(30), code(85), 20, 0},
	} {
		w := newWorld(t)
		w.node("n1", 8)
		run := w.running(2, []string{"n1"}, graces, c.edit)
		var other model.JobID
		if c.cause != model.CauseDrain {
			other = w.submit(1, 8, func(j *jobspec.Job) { j.Account = "vision" })
		}
		w.wait(100)
		w.ok(w.plan(&StopJob{Job: run, Attempt: 1, Cause: c.cause, For: other}))
		whose := [2]string{}
		if other != 0 {
			whose = [2]string{"alice", "vision"}
		}
		told := func(kind model.EventType, lost int64) {
			t.Helper()
			e, got := w.s.v.Events(w.index - 1)[0], model.Leave{}
			if e.Leave != nil {
				got = *e.Leave
			}
			if want := (model.Leave{User: whose[0], Account: whose[1], Lost: lost * 1000}); e.Type != kind ||
				e.Cause != c.cause || e.For != other || got != want {
				t.Errorf("%s: event %+v with %+v; want %s, for job %d, with %+v", c.name, e, got, kind, other, want)
			}
		}
		told(model.EventStopping, c.work)
		if got := w.job(run).ShownState(w.at); got != model.Checkpointing {
			t.Errorf("%s: in its grace it is shown as %s", c.name, got)
		}
		if got := w.job(run).ShownState(w.at.After(60)); got != model.Completing {
			t.Errorf("%s: after its grace it is shown as %s", c.name, got)
		}
		w.wait(10)
		w.report(run, 0, model.WorkerExited, c.exit)
		told(model.EventEnded, c.lost+20)

		w.wait(30)
		w.ok(w.start(run, "n1"))
		w.wait(7)
		w.run(run)
		want := model.Lost{Work: c.lost * 1000, Grace: 20_000, Restart: 14_000}
		if got := w.job(run).LostBy(0, w.at); got != want {
			t.Errorf("%s: lost %+v, want %+v", c.name, got, want)
		}
	}
}

// TestWhatResizingCosts tells of an elastic job of which all workers restart because one leaves.
func TestWhatResizingCosts(t *testing.T) {
	w := elasticWorld(t)
	id := w.stretch(1, []string{"n1", "n2", "n3"}, elastic(1, 4), saves(60))
	other := w.submit(1, 4)
	w.wait(90)
	w.ok(w.plan(&ResizeJob{Job: id, Attempt: 1, Leave: []int{2}, For: other}))
	w.leaves(id, 0)
	w.wait(5)
	w.leaves(id, 1, 2)
	w.wait(2)
	w.run(id)
	want := model.Lost{Grace: 15_000, Restart: 4_000}
	if got := w.job(id).LostBy(0, w.at); got != want {
		t.Errorf("lost %+v, want %+v: it has saved, and held three GPUs for 5 s and two for 2 s", got, want)
	}
	if s := w.job(id).Attempts[0].Stop; s.For != other || s.ForUser != "alice" {
		t.Errorf("it shrank for %+v", s)
	}
}

// TestWhatMovingASuspendedJobCosts: it holds no GPUs after it was asked to leave.
func TestWhatMovingASuspendedJobCosts(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 4)
	w.node("n2", 4)
	id := w.running(4, []string{"n1"}, pauses, saves(0))
	w.wait(10)
	w.ok(w.suspend(id, model.CauseSlice, 0))
	w.switched(id, 0)
	w.ok(w.move(id, 0, []int{0}, "n2"))
	w.wait(5)
	w.leaves(id, 0)
	w.wait(2)
	w.run(id)
	want := model.Lost{Restart: 8_000}
	if got := w.job(id).LostBy(0, w.at); got != want {
		t.Errorf("lost %+v, want %+v", got, want)
	}
}

// TestWhatOthersCauseCosts: a job that ends by itself, or by its own fault, has not left for
// another one. A lost node costs the work that was not saved there.
func TestWhatOthersCauseCosts(t *testing.T) {
	for _, c := range []struct {
		name string
		exit func(*model.WorkerReport)
		want model.Lost
	}{
		{"completed", code(0), model.Lost{}},
		{"failed", code(1), model.Lost{}},
		{"the shim was lost", func(r *model.WorkerReport) { r.State = model.WorkerFailed }, model.Lost{Work: 20_000}},
	} {
		w := newWorld(t)
		w.node("n1", 8)
		run := w.running(2, []string{"n1"}, saves(30))
		w.wait(100)
		w.report(run, 0, model.WorkerExited, c.exit)
		if got := w.job(run).LostBy(0, w.at); got != c.want {
			t.Errorf("%s: lost %+v, want %+v", c.name, got, c.want)
		}
	}
}
