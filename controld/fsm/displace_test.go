package fsm

import (
	"testing"

	"github.com/rota-hpc/rota/controld/model"
)

// TestWhoseRoomItIs: a job that made way for another is offered its room again first if the other does
// not wait any more, and only then. Its end names the job that it was stopped for.
func TestWhoseRoomItIs(t *testing.T) {
	for _, c := range []struct {
		name    string
		other   bool // stopped for another job
		cancels bool // which is cancelled before the room is free
		own     bool
	}{{"the other waits", true, false, false}, {"the other was cancelled", true, true, true},
		{"for no job", false, false, false}} {
		w := newWorld(t)
		w.node("n1", 8)
		run := w.running(1, []string{"n1"})
		var other model.JobID
		if c.other {
			other = w.submit(1, 8)
		}
		w.ok(w.plan(&StopJob{Job: run, Attempt: 1, Cause: model.CauseTE, For: other}))
		if c.cancels {
			w.ok(w.control(model.VerbCancel, alice.UID, false, other))
		}
		w.wait(5)
		w.report(run, 0, model.WorkerExited, code(143))
		j := w.job(run)
		if j.State != model.Pending || j.OwnRoomFirst != c.own || j.Reason.For != other || len(j.Displaced) != 1 {
			t.Errorf("%s: %s, its own room first %t, for job %d, displaced at %d", c.name, j.State, j.OwnRoomFirst, j.Reason.For,
				j.Displaced)
		}
		events := w.s.v.Events(w.index - 1)
		if len(events) == 0 || events[0].For != other {
			t.Errorf("%s: events %+v", c.name, events)
		}
	}
}
