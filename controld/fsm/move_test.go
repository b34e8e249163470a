package fsm

import (
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// move has workers of a job go on at other nodes, one each.
func (w *world) move(id model.JobID, expected int64, leave []int, nodes ...string) error {
	w.t.Helper()
	c := &MoveJob{Job: id, Attempt: w.job(id).Attempt, Leave: leave, Expected: expected}
	for _, n := range nodes {
		c.Join = append(c.Join, w.place(n, int(w.job(id).Request.Active.GPUs/1000)))
	}
	return w.plan(c)
}

// rate has a job report how fast it is, in steps in 1,000 s.
func (w *world) rate(id model.JobID, rate int64) {
	w.t.Helper()
	w.report(id, 0, model.WorkerRunning, func(r *model.WorkerReport) { r.Rate = rate })
}

// together allows several workers of a gang on one node.
func together(j *jobspec.Job) {
	j.Groups[0].MaxWorkersPerNode = 2
	j.Checkpoint = &jobspec.Checkpoint{}
}

// trials returns what was tried with the last attempt of a job.
func (w *world) trials(id model.JobID) []model.Trial {
	j := w.job(id)
	return j.Attempts[len(j.Attempts)-1].Trials
}

// TestGangMovesTogether: a gang on two nodes goes on with both workers on one. The room there is
// taken at once, that of the worker that stays is kept, and what the move has brought is measured.
func TestGangMovesTogether(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	w.node("n2", 8)
	id := w.running(4, []string{"n1", "n2"}, together)
	w.wait(60)
	w.rate(id, 1000)
	w.ok(w.move(id, 1400, []int{1}, "n1"))
	if n1, n2 := w.freeGPUs("n1"), w.freeGPUs("n2"); n1 != 0 || n2 != 4 {
		t.Fatalf("%d and %d GPUs are free", n1, n2)
	}
	w.refused(w.move(id, 0, []int{1}, "n2"), model.ErrStopping)
	w.report(id, 0, model.WorkerExited, code(85))
	if w.freeGPUs("n1") != 0 {
		t.Error("the room of a worker that stays is free")
	}
	w.wait(20)
	w.report(id, 1, model.WorkerExited, code(85))
	w.state(id, model.Configuring)
	w.on(id, "n1", "n1")
	if n2 := w.freeGPUs("n2"); n2 != 8 {
		t.Errorf("%d GPUs are free that it has left", n2)
	}
	w.run(id)
	w.wait(60)
	w.rate(id, 1500)
	tried := model.Trial{What: model.TrialMigrate, At: 61_000, Expected: 1400, Measured: 1500}
	if got := w.trials(id); len(got) != 1 || got[0] != tried {
		t.Errorf("what was tried: %+v, want %+v", got, tried)
	}
	if c := w.job(id).Counters; c != (model.Counters{Migrations: 1}) || w.job(id).OwnRoomFirst {
		t.Errorf("it counts as %+v", c)
	}
	var said []model.Trial
	for _, e := range w.s.v.Events(0) {
		if e.Type == model.EventTried || e.Type == model.EventMeasured {
			said = append(said, *e.Trial)
		}
	}
	if len(said) != 2 || said[0].Measured != 0 || said[1] != tried {
		t.Errorf("events say %+v", said)
	}
	known := w.s.v.Statistics()
	if apart, near := known.GangRate(w.job(id), 2), known.GangRate(w.job(id), 1); apart != 1000 || near != 1500 {
		t.Errorf("gangs like it do %d on two nodes and %d on one", apart, near)
	}
	if other := w.submit(2, 2, together); known.GangRate(w.job(other), 1) != 0 {
		t.Error("gangs of smaller workers are taken to be like it")
	}
	if n := known.MovedSince(60_999); n != 1 || known.MovedSince(61_000) != 0 {
		t.Errorf("%d moves are remembered", n)
	}
}

// TestMoveThatBringsNothing is remembered as such, unless it was for another reason.
func TestMoveThatBringsNothing(t *testing.T) {
	for expected, undone := range map[int64]bool{1400: true, 0: false} {
		w := newWorld(t)
		w.node("n1", 8)
		w.node("n2", 8)
		id := w.running(4, []string{"n1", "n2"}, together)
		w.rate(id, 1000)
		w.ok(w.move(id, expected, []int{0}, "n2"))
		w.report(id, 0, model.WorkerExited, code(85))
		w.report(id, 1, model.WorkerExited, code(85))
		w.on(id, "n2", "n2")
		w.run(id)
		w.rate(id, 1019)
		if got := w.trials(id); len(got) != 1 || got[0].Measured != 1019 || got[0].Undone != undone {
			t.Errorf("expected %d: %+v", expected, got)
		}
	}
}

// TestSuspendedJobMoves: it gives up its memory and goes on elsewhere at once.
func TestSuspendedJobMoves(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 4)
	w.node("n2", 4)
	id := w.running(4, []string{"n1"}, pauses, func(j *jobspec.Job) { j.Checkpoint = &jobspec.Checkpoint{} })
	w.wait(10)
	w.ok(w.suspend(id, model.CauseSlice, 0))
	w.refused(w.move(id, 0, []int{0}, "n2"), model.ErrSwitching)
	w.switched(id, 0)
	next := w.running(4, []string{"n1"})
	w.ok(w.move(id, 0, []int{0}, "n2"))
	w.state(id, model.Completing)
	w.wait(5)
	w.report(id, 0, model.WorkerExited, code(85))
	w.state(id, model.Configuring)
	w.on(id, "n2")
	w.run(id)
	w.report(next, 0, model.WorkerExited)
	_, i := w.s.v.Node("n1")
	if free := w.s.v.Grid().FreeResident(i); free.Memory != 256*jobspec.GiB {
		t.Errorf("%d bytes are free where it was", free.Memory)
	}
}

// TestMoveEndsOtherwise: a move that something stronger overtakes leaves no room behind.
func TestMoveEndsOtherwise(t *testing.T) {
	for what, want := range map[string]model.JobState{"cancelled": model.Cancelled, "its target lost": model.Pending,
		"completed": model.Completed} {
		w := newWorld(t)
		w.node("n1", 4)
		w.node("n2", 4)
		id := w.running(4, []string{"n1"})
		w.ok(w.move(id, 0, []int{0}, "n2"))
		exit := code(85)
		switch what {
		case "cancelled":
			w.ok(w.control(model.VerbCancel, 1000, false, id))
		case "its target lost":
			again := testNode("n2", 4)
			again.BootID = "b2"
			w.must(RegisterNode{Node: again})
		case "completed":
			exit = code(0)
		}
		w.report(id, 0, model.WorkerExited, exit)
		w.state(id, want)
		if n1, n2 := w.freeGPUs("n1"), w.freeGPUs("n2"); n1 != 4 || n2 != 4 {
			t.Errorf("%s: %d and %d GPUs are free", what, n1, n2)
		}
		if len(w.trials(id)) != 0 {
			t.Errorf("%s: %+v", what, w.trials(id))
		}
	}
}

// TestMovesThatAreRefused: what does not run, is elastic, or has no room does not move.
func TestMovesThatAreRefused(t *testing.T) {
	w := newWorld(t)
	for _, n := range []string{"n1", "n2", "n3"} {
		w.node(n, 4)
	}
	stretched := w.stretch(1, []string{"n3"}, elastic(1, 4))
	w.refused(w.move(stretched, 0, []int{0}, "n2"), model.ErrDoesNotMove)
	id := w.submit(1, 4)
	w.ok(w.start(id, "n1"))
	w.refused(w.move(id, 0, []int{0}, "n2"), model.ErrWrongState)
	w.run(id)
	w.refused(w.move(id, 0, nil, "n2"), model.ErrBadMove)
	w.refused(w.move(id, 0, []int{1}, "n2"), model.ErrBadMove)
	w.refused(w.move(id, 0, []int{0}), model.ErrBadMove)
	w.refused(w.move(id, -1, []int{0}, "n2"), model.ErrBadMove)
	w.refused(w.move(id, 0, []int{0}, "n3"), model.ErrWrongPlaces) // it has too few GPUs
	w.refused(w.plan(&MoveJob{Job: id, Attempt: 2}), model.ErrOldAttempt)
	w.must(Steer{What: "migration", On: true, By: "root"})
	w.refused(w.move(id, 0, []int{0}, "n2"), model.ErrPaused)
}
