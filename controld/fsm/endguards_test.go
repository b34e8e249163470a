package fsm

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// summary says in one line what a job has come to, with times as far as they are from now.
func (w *world) summary(id model.JobID) string {
	j := w.job(id)
	since := func(at model.Instant) string {
		if at == 0 {
			return "-"
		}
		return fmt.Sprint(int64(at - w.at))
	}
	var b strings.Builder
	fmt.Fprintf(&b,
		"%s hold %q why %s %q for %d until %s; eligible %s started %s ended %s; exit %d:%d; counters %+v; ledger %+v; "+
			"own room %t bypassed %d displaced %d exclude %v pruned %t by %d seq %d;", j.State, j.Hold, j.Reason.Code,
		j.Reason.Text,
		j.Reason.For, since(j.Reason.Until), since(j.Eligible), since(j.Started.At), since(j.Ended.At), j.ExitCode,
		j.Signal, j.Counters,
		j.Ledger, j.OwnRoomFirst, j.Bypassed, len(j.Displaced), j.Exclude, j.Pruned, j.CancelledBy, j.Seq)
	for _, a := range j.Attempts {
		fmt.Fprintf(&b, " attempt %d %s %s %d:%d assigned %s started %s ended %s", a.N, a.Cause, a.Rule, a.ExitCode, a.Signal,
			since(a.Assigned.At), since(a.Started.At), since(a.Ended.At))
		if s := a.Stop; s != nil {
			fmt.Fprintf(&b, " stop %s at %s kill %s %s for %d %s/%s by %q %q own %t", s.Cause, since(s.At), since(s.KillAt),
				s.Signal,
				s.For, s.ForUser, s.ForAccount, s.By, s.Reason, s.Own)
		}
		for _, x := range a.Workers {
			fmt.Fprintf(&b, " worker %s on %s %v started %s ended %s %d:%d", x.State, x.Node, x.GPUs, since(x.Started),
				since(x.Ended), x.ExitCode, x.Signal)
		}
	}
	for _, e := range w.s.v.Events(w.index - 1) {
		fmt.Fprintf(&b, " event %s job %d cause %s for %d %q", e.Type, e.Job, e.Cause, e.For, e.Text)
	}
	return b.String()
}

// TestHowJobsEnd ends an attempt in each way and begins the next one. It compares the job after
// each of the two with testdata/ends.txt: everything that is kept for the next attempt, and
// everything that must not be. The times are not round.
func TestHowJobsEnd(t *testing.T) {
	retries := func(j *jobspec.Job) { j.Restart = &jobspec.Restart{Attempts: 2, Delay: 17} }
	stop := func(cause model.Cause) func(*world, model.JobID, model.JobID) {
		return func(w *world, id, other model.JobID) {
			w.ok(w.plan(&StopJob{Job: id, Attempt: 1, Cause: cause, For: other}))
		}
	}
	none := func(*world, model.JobID, model.JobID) {}
	var got bytes.Buffer
	for _, c := range []struct {
		name string
		edit func(*jobspec.Job)
		stop func(w *world, id, other model.JobID)
		exit func(*model.WorkerReport)
	}{
		{"exits", retries, none, code(0)},
		{"exits with 3", func(*jobspec.Job) {}, none, code(3)},
		{"exits with 3, and is tried again", retries, none, code(3)},
		{"ends by a signal", func(*jobspec.Job) {}, none, signal(11)},
		{"is killed for memory", retries, none, func(r *model.WorkerReport) { r.OOM, r.Signal = true, 9 }},
		{"asks for another attempt", retries, none, code(85)},
		{"is not launched", retries, none, func(r *model.WorkerReport) {
			r.State, r.Message = model.WorkerFailed,
				"no image"
		}},
		{"can never be launched", retries, none, func(r *model.WorkerReport) {
			r.State, r.Message, r.Final = model.WorkerFailed, "no image", true
		}},
		{"loses its lease", retries, none, func(r *model.WorkerReport) { r.Lease, r.Signal = true, 9 }},
		{"makes room", graces, stop(model.CauseTE), signal(15)},
		{"makes room, and is done", graces, stop(model.CauseReclaim), code(0)},
		{"makes room, and has saved", saves(30), stop(model.CauseOrder), code(85)},
		{"is drained", graces, func(w *world, id, _ model.JobID) { stop(model.CauseDrain)(w, id, 0) }, signal(15)},
		{"moves", graces, func(w *world, id, _ model.JobID) { stop(model.CauseMigrate)(w, id, 0) }, signal(15)},
		{"runs out of time", graces, func(w *world, id, _ model.JobID) { stop(model.CauseTimeout)(w, id, 0) }, signal(15)},
		{"is cancelled", graces, func(w *world, id, _ model.JobID) { w.ok(w.control(model.VerbCancel, 1000, false, id)) },
			signal(15)},
		{"is requeued", graces, func(w *world, id, _ model.JobID) { w.ok(w.control(model.VerbRequeue, 7, true, id)) },
			signal(15)},
		{"is requeued at its limit", graces, func(w *world, id, _ model.JobID) {
			stop(model.CauseTimeout)(w, id, 0)
			w.at += 777
			w.ok(w.control(model.VerbRequeue, 7, true, id))
		}, signal(15)},
		{"is cancelled while it makes room", graces, func(w *world, id, other model.JobID) {
			stop(model.CauseTE)(w, id, other)
			w.at += 777
			w.ok(w.control(model.VerbCancel, 1000, false, id))
		}, signal(15)},
		{"runs once, and makes room", func(j *jobspec.Job) { j.Preemption = &jobspec.Preemption{Requeue: new(bool)} },
			stop(model.CauseTE), signal(15)},
		{"loses its node", graces, func(w *world, id, _ model.JobID) {
			w.down("n1")
			w.at += w.leaseSpan()
			w.ok(w.plan(lost(id)))
			w.node("n1", 8)
		}, nil},
		{"is on a node that boots", graces, func(w *world, _, _ model.JobID) {
			n := testNode("n1", 8)
			n.BootID = "b2"
			w.must(RegisterNode{Node: n})
		}, nil},
	} {
		w := newWorld(t)
		w.node("n1", 8)
		w.node("n2", 8)
		w.at += 1234
		id := w.submit(1, 3, c.edit)
		w.at += 567
		w.ok(w.start(id, "n1"))
		if strings.Contains(c.name, "launched") {
			w.report(id, 0, model.WorkerCreated)
		} else {
			w.run(id)
		}
		other := w.submit(1, 8, func(j *jobspec.Job) { j.Account = "vision" })
		w.at += 98_765
		c.stop(w, id, other)
		if c.exit != nil {
			w.at += 4321
			w.report(id, 0, model.WorkerExited, c.exit)
		}
		fmt.Fprintf(&got, "%s\n\t%s\n", c.name, w.summary(id))
		if j := w.job(id); j.State == model.Pending && j.Hold == model.NotHeld {
			w.at = max(w.at, j.Eligible) + 11
			w.ok(w.start(id, "n2"))
			fmt.Fprintf(&got, "\t%s\n", w.summary(id))
		}
	}
	file := filepath.Join("testdata", "ends.txt")
	if *update {
		if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	wanted := strings.Split(string(want), "\n")
	for i, line := range strings.Split(got.String(), "\n") {
		if i >= len(wanted) || line != wanted[i] {
			t.Fatalf("line %d is\n%s\nwant\n%s", i+1, line, wanted[min(i, len(wanted)-1)])
		}
	}
}

// TestALeaseEndsToTheMillisecond: at its end and the margin after it, not a millisecond before; for a plan and for the
// leader's word.
func TestALeaseEndsToTheMillisecond(t *testing.T) {
	for _, early := range []bool{true, false} {
		w := newWorld(t)
		w.node("n1", 4)
		id := w.running(1, []string{"n1"})
		w.at += 333
		w.down("n1")
		w.at += w.leaseSpan()
		if early {
			w.at--
		}
		if err := w.plan(lost(id)); errors.Is(err, model.ErrLeaseRunning) != early || !early && err != nil {
			t.Errorf("early %t: %v", early, err)
		}
		w, id = witnessed(t)
		w.at += 333
		w.down("n1")
		n, _ := w.s.v.Node("n1")
		w.at = w.s.v.LostAt(n)
		if early {
			w.at--
		}
		_, err := w.apply(DeclareLost{Node: "n1", BootID: "b1", Newest: 1})
		if errors.Is(err, model.ErrLeaseRunning) != early || !early && (err != nil || w.plan(lost(id)) != nil) {
			t.Errorf("early %t, by the leader's word: %v", early, err)
		}
	}
	w := newWorld(t) // of a gang only the workers on lost nodes are
	w.node("n1", 4)
	w.node("n2", 4)
	gang := w.running(1, []string{"n1", "n2"})
	w.down("n1")
	w.at += w.leaseSpan()
	w.must(SetNodeState{Node: "n1", State: model.NodeUp})
	w.refused(w.plan(lost(gang)), model.ErrLeaseRunning) // it was heard of again
	w.down("n1")
	w.refused(w.plan(lost(gang)), model.ErrLeaseRunning) // and is silent anew
	w.at += w.leaseSpan()
	w.ok(w.plan(lost(gang)))
	if a := w.job(gang).Live(); a == nil || !a.Workers[0].State.Final() || a.Workers[1].State.Final() {
		t.Errorf("after the loss of one of two nodes: %+v", a)
	}
	w.refused(w.plan(lost(gang)), model.ErrLeaseRunning) // what it had there is lost already
}

// TestWhichAttemptAnActionIsFor: every action on an attempt is refused for another one, and for no job.
func TestWhichAttemptAnActionIsFor(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.running(1, []string{"n1"}, pauses)
	waiting := w.submit(1, 8)
	for name, act := range map[string]func(model.JobID, int) Action{
		"stop": func(id model.JobID, n int) Action {
			return &StopJob{Job: id, Attempt: n, Cause: model.CauseDrain}
		},
		"end": func(id model.JobID, n int) Action {
			return &EndAttempt{Job: id, Attempt: n, Cause: model.CauseNodeLost}
		},
		"suspend": func(id model.JobID, n int) Action {
			return &SuspendJob{Job: id, Attempt: n, Cause: model.CauseSlice}
		},
		"resume": func(id model.JobID, n int) Action { return &ResumeJob{Job: id, Attempt: n} },
		"resize": func(id model.JobID, n int) Action { return &ResizeJob{Job: id, Attempt: n} },
		"move":   func(id model.JobID, n int) Action { return &MoveJob{Job: id, Attempt: n} },
		"early":  func(id model.JobID, n int) Action { return &EarlySignal{Job: id, Attempt: n} },
		"pack": func(id model.JobID, n int) Action {
			return &PackJob{Job: id, Attempt: n, Host: 1, HostAttempt: 1}
		},
		"pack beside": func(id model.JobID, n int) Action {
			return &PackJob{Job: 1, Attempt: 1, Host: id, HostAttempt: n}
		},
	} {
		for _, c := range []struct {
			id   model.JobID
			n    int
			want error
		}{{99, 1, model.ErrNoJob}, {id, 0, model.ErrOldAttempt}, {id, 2, model.ErrOldAttempt}, {waiting, 0,
			model.ErrOldAttempt}} {
			if err := w.plan(act(c.id, c.n)); !errors.Is(err, c.want) {
				t.Errorf("%s, job %d attempt %d: %v, want %v", name, c.id, c.n, err, c.want)
			}
		}
	}
	for name, c := range map[string]struct {
		act  Action
		want error
	}{
		"start of no job":        {&StartJob{Job: 99}, model.ErrNoJob},
		"start of one that runs": {&StartJob{Job: id}, model.ErrWrongState},
		"give up no job":         {&GiveUp{Job: 99}, model.ErrNoJob},
		"give up one that runs":  {&GiveUp{Job: id}, model.ErrWrongState},
		"give up one in time":    {&GiveUp{Job: waiting}, model.ErrNotPastDue},
		"reserve for no job":     {&Reserve{Job: 99}, model.ErrNoJob},
		"unreserve":              {&Unreserve{Job: waiting}, model.ErrNoReservation},
		"nothing":                {nil, model.ErrBadAction},
		"two":                    {(&storedAction{Settle: true, GiveUp: ptr(waiting)}).action(), model.ErrBadAction},
		"settle":                 {&Settle{}, nil},
	} {
		if err := w.plan(c.act); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// TestAReservationOutlivesItsNode: a reservation stays while its node is down, drained and up
// again. The job starts there when the node may get work.
func TestAReservationOutlivesItsNode(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 4)
	w.node("n2", 4)
	id := w.submit(1, 4)
	w.at += 333
	w.ok(w.plan(&Reserve{Job: id, Claims: []model.Claim{{Node: "n1",
		Resources: model.Vector{GPUs: 4000}}},
		Until: w.at + 5000, Guaranteed: true, Leftover: true, ForPreemptor: true}))
	kept := *w.s.v.Reservation(id)
	if kept.At != w.at || kept.Until != w.at+5000 || !kept.Guaranteed || !kept.Leftover || !kept.ForPreemptor {
		t.Errorf("kept from %d until %d, now is %d", kept.At, kept.Until, w.at)
	}
	for _, s := range []model.NodeState{model.NodeDown, model.NodeUp, model.NodeDrained, model.NodeDown, model.NodeUp,
		model.NodeUp} {
		w.wait(1)
		w.must(SetNodeState{Node: "n1", State: s, Reason: "why"})
		r := w.s.v.Reservation(id)
		if r == nil || r.At != kept.At || r.Until != kept.Until || len(r.Claims) != 1 || r.Claims[0].Node != "n1" {
			t.Fatalf("while n1 is %s: %+v", s, r)
		}
	}
	w.ok(w.plan(&Reserve{Job: id, Claims: []model.Claim{{Node: "n2",
		Resources: model.Vector{GPUs: 4000}}}}))
	if r := w.s.v.Reservation(id); r.At != kept.At || r.Claims[0].Node != "n2" || len(w.s.v.Reservations()) != 1 {
		t.Errorf("it loses its rank: %+v", r)
	}
	w.must(SetNodeState{Node: "n1", State: model.NodeDrained, Reason: "why"})
	var fit *model.FitError
	if err := w.start(id, "n1"); !errors.As(err, &fit) {
		t.Errorf("a drained node gets a job: %v", err)
	}
	w.ok(w.start(id, "n2"))
	if w.s.v.Reservation(id) != nil {
		t.Error("what was kept stays kept after the start")
	}
}

// TestALedgerOfTwoPauses counts both.
func TestALedgerOfTwoPauses(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 4)
	id := w.running(3, []string{"n1"}, pauses)
	for i, gone := range []model.Instant{1234, 777} {
		w.at += 5001
		w.ok(w.suspend(id, model.CauseSlice, 0))
		w.switched(id, 0)
		w.at += gone
		w.ok(w.resume(id))
		w.switched(id, 0)
		total := []int64{1234, 1234 + 777}[i]
		j := w.job(id)
		if a := j.Live(); j.Ledger.SuspendedMS != 3*total || a.Switch.Total != total || a.Workers[0].SuspendedMS != total ||
			a.Switch.Number != 2*(i+1) || int(j.Counters.Suspensions) != i+1 {
			t.Errorf("after pause %d: %+v, %+v, %+v", i+1, j.Ledger, a.Switch, a.Workers[0])
		}
	}
	w.at += 5001
	w.report(id, 0, model.WorkerExited)
	if l := w.job(id).Ledger; l.GPUMS != 3*15_003 || l.CoreMS != 4*15_003 {
		t.Errorf("it was charged %+v", l)
	}
}

// TestWhatAnArraySaysOnceItRuns: why it waited is not said any more, unless it is held.
func TestWhatAnArraySaysOnceItRuns(t *testing.T) {
	for _, held := range []bool{false, true} {
		w := newWorld(t)
		w.node("n1", 4)
		id := w.submit(1, 1, func(j *jobspec.Job) {
			j.Array, j.Begin = &jobspec.Array{Indices: "0-2"}, w.clock(60)
		})
		if r := w.job(id).Reason; r.Code != model.ReasonBegin || r.Until != w.job(id).Eligible {
			t.Fatalf("before its begin it waits for %+v", r)
		}
		w.wait(60)
		w.ok(w.make(id, 1, "n1"))
		if r := w.job(id).Reason; r != (model.Reason{}) {
			t.Errorf("while a task runs it waits for %+v", r)
		}
		if held {
			w.ok(w.control(model.VerbHold, 1000, false, id))
			w.run(id + 1)
			if j := w.job(id); j.Hold != model.HeldByUser || j.Reason.Code != model.ReasonHeldUser {
				t.Errorf("it is held %q: %+v", j.Hold, j.Reason)
			}
		}
	}
}
