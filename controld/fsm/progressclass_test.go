package fsm

import (
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/convergence"
)

func class(c convergence.Class) func(*model.WorkerReport) {
	return func(r *model.WorkerReport) { r.Class = c }
}

// TestProgressClass: an attempt keeps the class that worker 0 reports and when it came to it, and
// only a change is an event. The next attempt begins without one.
func TestProgressClass(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	w.node("n2", 8)
	id := w.running(4, []string{"n1", "n2"}, pauses)
	said := func() (texts []string) {
		for _, e := range w.s.v.Events(0) {
			if e.Type == model.EventClass && e.Job == id && e.Attempt == w.job(id).Attempt {
				texts = append(texts, e.Text)
			}
		}
		return texts
	}
	w.report(id, 0, model.WorkerRunning, class(convergence.Progressing))
	w.wait(30)
	w.report(id, 0, model.WorkerRunning, class(convergence.Watching))
	at, before := w.at, w.job(id)
	w.wait(30)
	w.report(id, 0, model.WorkerRunning, class(convergence.Watching))
	w.report(id, 1, model.WorkerRunning, class(convergence.Converged))
	w.must(NodeReport{Node: "n2", BootID: "b1", Workers: []model.WorkerReport{
		{Job: id, Attempt: 1, State: model.WorkerRunning, Class: convergence.Converged}}})
	if w.job(id) != before {
		t.Error("a class that is known, of another worker or from another node, changed the job")
	}
	w.refusedRow(model.WorkerReport{Job: id, Attempt: 1, State: model.WorkerRunning, Class: "finished"}, model.ErrBadClass)
	if a := w.job(id).Live(); a.Class != convergence.Watching || a.ClassSince != at {
		t.Errorf("it is %q since %d, want watching since %d", a.Class, a.ClassSince, at)
	}
	if got := said(); len(got) != 2 || got[0] != "progressing, unknown before" ||
		got[1] != "watching, progressing before" {
		t.Errorf("events: %q", got)
	}

	// while it is suspended its clock stands still
	w.ok(w.suspend(id, model.CauseSlice, 0))
	w.switched(id, 0, 1)
	w.wait(50)
	w.ok(w.resume(id))
	if a := w.job(id).Live(); a.ClassSince != at+50_000 {
		t.Errorf("after 50 s of suspension it is watching since %d, want %d", a.ClassSince, at+50_000)
	}
	w.switched(id, 0, 1)
	w.ok(w.plan(&StopJob{Job: id, Attempt: 1, Cause: model.CauseMigrate}))
	w.report(id, 0, model.WorkerRunning, class(convergence.Converged))
	if a := w.job(id).Live(); a.Class != convergence.Watching {
		t.Error("an attempt that is being stopped took another class")
	}
	for i := range 2 {
		w.report(id, i, model.WorkerExited, code(jobspec.DefaultCheckpointExitCode))
	}
	w.ok(w.start(id, "n1", "n2"))
	if a := w.job(id).Live(); a.Class != "" || a.ClassSince != 0 || len(said()) != 0 {
		t.Errorf("the next attempt is %q since %d", a.Class, a.ClassSince)
	}
}

// TestRoomForAMovingJob: room may be kept for a job that is told to move, before it waits. The job
// begins there, and the reservation ends with any other end of the job.
func TestRoomForAMovingJob(t *testing.T) {
	moving := func(t *testing.T) (*world, model.JobID) {
		w := newWorld(t)
		w.node("n1", 4)
		w.node("n2", 4)
		id := w.running(4, []string{"n1"}, pauses)
		keep := &Reserve{Job: id, Until: w.at + 600_000,
			Claims: []model.Claim{{Node: "n2", Resources: w.job(id).Request.Active}}}
		w.refused(w.plan(keep), model.ErrWrongState)
		w.ok(w.plan(&StopJob{Job: id, Attempt: 1, Cause: model.CauseMigrate}))
		w.ok(w.plan(keep))
		return w, id
	}
	t.Run("it moves", func(t *testing.T) {
		w, id := moving(t)
		w.report(id, 0, model.WorkerExited, code(jobspec.DefaultCheckpointExitCode))
		w.state(id, model.Pending)
		if w.s.v.Reservation(id) == nil {
			t.Error("nothing is kept for it")
		}
		w.ok(w.start(id, "n2"))
		if w.s.v.Reservation(id) != nil || w.job(id).Counters.Migrations != 1 {
			t.Error("it has begun, and room is still kept for it; or it has not moved")
		}
	})
	for what, end := range map[string]func(*world, model.JobID){
		"it is done": func(w *world, id model.JobID) {
			w.report(id, 0, model.WorkerExited)
			w.state(id, model.Completed)
		},
		"it is cancelled": func(w *world, id model.JobID) {
			w.ok(w.control(model.VerbCancel, 1000, false, id))
			w.report(id, 0, model.WorkerExited, signal(15))
			w.state(id, model.Cancelled)
		},
		"it is held": func(w *world, id model.JobID) {
			w.report(id, 0, model.WorkerExited, code(jobspec.DefaultCheckpointExitCode))
			w.ok(w.control(model.VerbHold, 1000, false, id))
		},
	} {
		t.Run(what, func(t *testing.T) {
			w, id := moving(t)
			end(w, id)
			if w.s.v.Reservation(id) != nil {
				t.Error("room is kept for it")
			}
		})
	}
}
