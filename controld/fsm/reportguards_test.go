package fsm

import (
	"errors"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/model/generation"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/convergence"
)

// TestWhatCanBeMeasured gives each figure of a row the values next to its bounds.
func TestWhatCanBeMeasured(t *testing.T) {
	profile := func(p model.Profile) model.WorkerReport { return model.WorkerReport{Profile: &p} }
	for _, c := range []struct {
		row  model.WorkerReport
		want bool
	}{
		{model.WorkerReport{}, true},
		{model.WorkerReport{Rate: -1}, false}, {model.WorkerReport{Rate: model.MaxRate}, true},
		{model.WorkerReport{Rate: model.MaxRate + 1}, false},
		{model.WorkerReport{TookMS: -1}, false}, {model.WorkerReport{TookMS: 1}, true},
		{model.WorkerReport{Packed: &model.PackedRate{Rate: -1}}, false},
		{model.WorkerReport{Packed: &model.PackedRate{Rate: model.MaxRate}}, true},
		{model.WorkerReport{Packed: &model.PackedRate{Rate: model.MaxRate + 1}}, false},
		{profile(model.Profile{Utilisation: -1}), false}, {profile(model.Profile{Utilisation: 1000}), true},
		{profile(model.Profile{Utilisation: 1001}), false}, {profile(model.Profile{Memory: -1}), false},
		{profile(model.Profile{Rate: -1}), false}, {profile(model.Profile{Rate: model.MaxRate}), true},
		{profile(model.Profile{Rate: model.MaxRate + 1}), false},
		{model.WorkerReport{Usage: model.Usage{CPUMS: -1}}, false},
	} {
		c.row.State, c.row.Class = model.WorkerExited, convergence.Watching
		if got := measurable(&c.row); got != c.want {
			t.Errorf("%+v can be measured: %t", c.row, got)
		}
		r, err := credible(&c.row)
		bare := r.Rate == 0 && r.TookMS == 0 && r.Packed == nil && r.Profile == nil && r.Usage == (model.Usage{})
		if (err == nil) != c.want || !c.want && (!bare || !errors.Is(err, model.ErrBadReport)) || r.Class != c.row.Class {
			t.Errorf("%+v is taken as %+v, %v", c.row, r, err)
		}
	}
}

// TestWhichRowIsOfAWorker: that of its attempt, of its number, of its node, and of the time when it joined.
func TestWhichRowIsOfAWorker(t *testing.T) {
	for _, c := range []struct {
		node string
		row  model.WorkerReport
		want bool
	}{
		{"n1", model.WorkerReport{Attempt: 1}, true}, {"n2", model.WorkerReport{Attempt: 1, Worker: 1}, true},
		{"n1", model.WorkerReport{Attempt: 1, Worker: 1}, false}, {"n1", model.WorkerReport{Attempt: 2}, false},
		{"n1", model.WorkerReport{Attempt: 1, Worker: -1}, false}, {"n2", model.WorkerReport{Attempt: 1, Worker: 2}, false},
		{"n1", model.WorkerReport{Attempt: 1, Joined: 1}, false},
	} {
		w := newWorld(t)
		w.node("n1", 8)
		w.node("n2", 8)
		c.row.Job, c.row.State = w.running(1, []string{"n1", "n2"}), model.WorkerExited
		w.must(NodeReport{Node: c.node, BootID: "b1", Workers: []model.WorkerReport{c.row}})
		for i, x := range w.job(c.row.Job).Attempts[0].Workers {
			if got := x.State.Final(); got != (c.want && i == c.row.Worker) {
				t.Errorf("%s, %+v: worker %d has ended: %t", c.node, c.row, i, got)
			}
		}
	}
}

// TestWhenAWorkerHasStarted: once it runs, has exited after it was executed, or has begun to be launched. One
// that never was executed and could not hear the signal of its attempt's stop ends by that.
func TestWhenAWorkerHasStarted(t *testing.T) {
	edit := func(unbegun, own, lease, began bool) func(*model.WorkerReport) {
		return func(r *model.WorkerReport) {
			r.Unbegun, r.Own, r.Lease, r.Began, r.ExitCode = unbegun, own, lease, began, 3
		}
	}
	for _, c := range []struct {
		name    string
		stopped bool
		state   model.WorkerState
		edit    func(*model.WorkerReport)
		started bool
		code    int
		signal  int
	}{
		{"runs", false, model.WorkerRunning, func(*model.WorkerReport) {}, true, 0, 0},
		{"made", false, model.WorkerCreated, func(*model.WorkerReport) {}, false, 0, 0},
		{"exited", false, model.WorkerExited, edit(false, false, false, false), true, 3, 0},
		{"never executed", false, model.WorkerExited, edit(true, false, false, false), false, 3, 0},
		{"failed", false, model.WorkerFailed, edit(false, false, false, false), false, 3, 0},
		{"failed after it began", false, model.WorkerFailed, edit(false, false, false, true), true, 3, 0},
		{"stopped", true, model.WorkerExited, edit(false, false, false, false), true, 3, 0},
		{"stopped, never executed", true, model.WorkerExited, edit(true, false, false, false), false, 0, 15},
		{"stopped, ended by itself", true, model.WorkerExited, edit(true, true, false, false), false, 3, 0},
		{"stopped by its lease", true, model.WorkerExited, edit(true, false, true, false), false, 3, 0},
	} {
		w := newWorld(t)
		w.node("n1", 8)
		id := w.submit(1, 1)
		w.ok(w.start(id, "n1"))
		if c.stopped {
			w.ok(w.control(model.VerbCancel, 1000, false, id))
		}
		w.wait(4)
		w.report(id, 0, c.state, c.edit)
		got := w.job(id).Attempts[0].Workers[0]
		if (got.Started == w.at) != c.started || !c.started && got.Started != 0 || got.ExitCode != c.code ||
			got.Signal != c.signal {
			t.Errorf("%s: started at %d, now is %d; exit %d:%d", c.name, got.Started, w.at, got.ExitCode, got.Signal)
		}
		if c.state == model.WorkerRunning {
			w.wait(1)
			w.report(id, 0, model.WorkerExited)
			if again := w.job(id).Attempts[0].Workers[0].Started; again != got.Started {
				t.Errorf("%s: it started at %d, and now at %d", c.name, got.Started, again)
			}
		}
	}
}

// TestWhenAPortIsTaken: of a worker that could not be launched, and at a port that it was given.
func TestWhenAPortIsTaken(t *testing.T) {
	for name, c := range map[string]struct {
		state model.WorkerState
		began bool
		off   int // from the port that it was given
		want  bool
	}{
		"taken": {model.WorkerFailed, false, 0, true}, "it exited": {model.WorkerExited, false, 0, false},
		"it began": {model.WorkerFailed, true, 0, false}, "another port": {model.WorkerFailed, false, 1, false},
	} {
		w := newWorld(t)
		w.node("n1", 8)
		id := w.submit(1, 1)
		w.ok(w.start(id, "n1"))
		port := w.job(id).Live().MasterPort
		w.report(id, 0, c.state, func(r *model.WorkerReport) { r.Began, r.PortTaken = c.began, port+c.off })
		if got := w.job(id).Attempts[0].Workers[0].PortTaken; got != c.want ||
			(len(w.s.v.Nodes()[0].PortsTaken) == 1) != c.want {
			t.Errorf("%s: %t, of the node %v", name, got, w.s.v.Nodes()[0].PortsTaken)
		}
	}
}

// TestWhichClassIsNoted: one that is new, of worker 0, while it runs and is not stopped.
func TestWhichClassIsNoted(t *testing.T) {
	for name, c := range map[string]struct {
		worker int
		class  convergence.Class
		runs   bool
		stop   bool
		want   convergence.Class
	}{
		"a new one": {0, convergence.Watching, true, false, convergence.Watching}, "none": {0, "", true, false, ""},
		"of another worker": {1, convergence.Watching, true, false, ""},
		"before it runs":    {0, convergence.Watching, false, false, ""},
		"while it stops":    {0, convergence.Watching, true, true, ""},
	} {
		w := newWorld(t)
		w.node("n1", 8)
		w.node("n2", 8)
		id := w.submit(2, 1)
		w.ok(w.start(id, "n1", "n2"))
		state := model.WorkerCreated
		if c.runs {
			w.run(id)
			state = model.WorkerRunning
		}
		if c.stop {
			w.ok(w.control(model.VerbCancel, 1000, false, id))
		}
		w.wait(3)
		w.report(id, c.worker, state, class(c.class))
		a := w.job(id).Live()
		if a.Class != c.want || (a.ClassSince != 0) != (c.want != "") {
			t.Errorf("%s: it is %q since %d", name, a.Class, a.ClassSince)
		}
	}
}

// TestHowOftenAJobIsStartedAgain counts lost nodes, failed launches and its own requests up to their limits,
// one less and one more.
func TestHowOftenAJobIsStartedAgain(t *testing.T) {
	lease := func(r *model.WorkerReport) { r.Lease = true }
	policy := cluster.DefaultConfig().Policy
	for name, c := range map[string]struct {
		most  int // ends after which it is started again
		state model.WorkerState
		edit  func(*model.WorkerReport)
		last  model.JobState
		hold  model.Hold
	}{
		"lost nodes": {policy.MaxNodeLosses, model.WorkerExited, lease, model.NodeFailed, model.NotHeld},
		"failed launches": {policy.MaxLaunchFails - 1, model.WorkerFailed, func(*model.WorkerReport) {},
			model.BootFailed, model.NotHeld},
	} {
		w := newWorld(t)
		w.node("n1", 8)
		id := w.submit(1, 1)
		for i := range c.most + 1 {
			w.at = max(w.at, w.job(id).Eligible)
			w.ok(w.start(id, "n1"))
			w.report(id, 0, c.state, c.edit)
			if again := w.job(id).State == model.Pending && w.job(id).Hold == model.NotHeld; again != (i < c.most) {
				t.Errorf("%s: after %d of them it is %s, held %q", name, i+1, w.job(id).State, w.job(id).Hold)
				break
			}
		}
		if j := w.job(id); j.State != c.last || j.Hold != c.hold {
			t.Errorf("%s: it is %s in the end", name, j.State)
		}
	}
}

// TestAConfirmationWithoutAReason names its operator alone. One while a generation is not settled is refused.
func TestAConfirmationWithoutAReason(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 4)
	w.node("n2", 4)
	w.down("n1", "n2")
	w.must(ConfirmDead{Nodes: []string{"n2"}, By: "root"})
	if got := w.s.v.Nodes()[1].Reason; got != "confirmed dead by root" {
		t.Errorf("the node is down: %q", got)
	}
	if got := w.s.v.Nodes()[0].Reason; got != "silent" {
		t.Errorf("the other node is down: %q", got)
	}
	w.raised()
	_, err := w.apply(ConfirmDead{Nodes: []string{"n1"}, By: "root"})
	w.refused(err, generation.ErrUnsettled)
}

// TestWhenALeaseIsOver ends an attempt one moment before the lease of its node is over, at its end,
// and after the node was down, up and down again.
func TestWhenALeaseIsOver(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.running(1, []string{"n1"}, func(j *jobspec.Job) { j.OnNodeLost = jobspec.NodeLossRequeue })
	end := &EndAttempt{Job: id, Attempt: 1, Cause: model.CauseNodeLost}
	w.at += 10 * w.leaseSpan()
	w.refused(w.plan(end), model.ErrLeaseRunning) // the node is up
	w.down("n1")
	w.at += w.leaseSpan() - 1
	w.refused(w.plan(end), model.ErrLeaseRunning)
	w.must(SetNodeState{Node: "n1", State: model.NodeUp})
	w.at++
	w.refused(w.plan(end), model.ErrLeaseRunning)
	w.down("n1")
	w.at += w.leaseSpan() - 1
	w.refused(w.plan(end), model.ErrLeaseRunning)
	w.at++
	for _, cause := range []model.Cause{model.CauseLease, model.CauseTE, ""} {
		w.refused(w.plan(&EndAttempt{Job: id, Attempt: 1, Cause: cause}), model.ErrBadCause)
	}
	w.ok(w.plan(end))
	w.state(id, model.Pending)
}
