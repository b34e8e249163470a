package fsm

import (
	"errors"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// profiled has the node of a job say what it has measured while the job had its GPU for itself.
func (w *world) profiled(id model.JobID, utilisation int64, memory jobspec.Bytes, rate int64) {
	w.t.Helper()
	w.report(id, 0, model.WorkerRunning, func(r *model.WorkerReport) {
		r.Profile = &model.Profile{Utilisation: utilisation, Memory: memory, Rate: rate}
	})
}

// together has the node say how fast a job is beside others.
func (w *world) together(id model.JobID, rate int64) {
	w.t.Helper()
	number := w.job(id).Live().PackingNumber()
	w.report(id, 0, model.WorkerRunning, func(r *model.WorkerReport) {
		r.Packed = &model.PackedRate{Number: number, Rate: rate}
	})
}

func (w *world) pack(id, host model.JobID, expected int64) error {
	w.t.Helper()
	return w.plan(&PackJob{Job: id, Attempt: w.job(id).Attempt, Host: host,
		HostAttempt: w.job(host).Attempt, Expected: expected})
}

// pair returns two jobs on a node with one GPU: one that runs, and one that is suspended. Each has
// a profile.
func (w *world) pair() (host, guest model.JobID) {
	w.t.Helper()
	w.node("n1", 1)
	guest = w.running(1, []string{"n1"}, pauses)
	w.profiled(guest, 300, 20*jobspec.GiB, 2000)
	w.wait(60)
	w.ok(w.suspend(guest, model.CauseSlice, 0))
	w.switched(guest, 0)
	host = w.running(1, []string{"n1"}, pauses)
	w.profiled(host, 400, 30*jobspec.GiB, 1000)
	return host, guest
}

func (w *world) share(id model.JobID) int64 {
	if p := w.job(id).Live().Packing; p != nil {
		return p.Share
	}
	return 0
}

// TestTwoJobsStayTogether: they get half of the GPU each, and what each is charged is what it held.
// They stay because together they are faster than in turns.
func TestTwoJobsStayTogether(t *testing.T) {
	w := newWorld(t)
	host, guest := w.pair()
	w.wait(10)
	w.ok(w.pack(guest, host, 1400))
	if w.share(host) != 500 || w.share(guest) != 500 || w.freeGPUs("n1") != 0 {
		t.Errorf("shares %d and %d", w.share(host), w.share(guest))
	}
	w.switched(guest, 0)
	w.wait(30)
	w.together(host, 700)
	if n := len(w.job(guest).Live().Trials); n != 0 {
		t.Errorf("%d trials before both were measured", n)
	}
	w.together(guest, 1200)
	want := model.Trial{What: model.TrialPack, With: host, At: w.s.v.At(), Expected: 1400, Measured: 1300}
	if got := w.job(guest).Live().Trials; len(got) != 1 || got[0] != want {
		t.Errorf("trials %+v, want %+v", got, want)
	}
	if a, b := w.job(host).Live(), w.job(guest).Live(); a.SetOf() != host || b.SetOf() != host {
		t.Errorf("sets %d and %d", a.SetOf(), b.SetOf())
	}
	w.wait(10)
	w.report(host, 0, model.WorkerExited)
	w.state(host, model.Completed)
	if got := w.job(host).Ledger.GPUMS; got != 10_000+40_000/2 {
		t.Errorf("the host was charged %d ms", got)
	}
	if w.share(guest) != 0 {
		t.Errorf("the guest has %d of a GPU that it has for itself", w.share(guest))
	}
	w.wait(5)
	w.report(guest, 0, model.WorkerExited)
	if got := w.job(guest).Ledger.GPUMS; got != 60_000+40_000/2+5_000 {
		t.Errorf("the guest was charged %d ms", got)
	}
}

// TestWhatBringsNothingIsUndone: the guest may leave, keeps no set, and is not put there again.
func TestWhatBringsNothingIsUndone(t *testing.T) {
	w := newWorld(t)
	host, guest := w.pair()
	w.ok(w.pack(guest, host, 1400))
	w.refused(w.suspend(guest, model.CausePack, 0), model.ErrSwitching)
	w.switched(guest, 0)
	w.together(host, 500)
	w.together(guest, 1000)
	tr := w.job(guest).Live().Trials
	if len(tr) != 1 || !tr[0].Undone || tr[0].Measured != 1000 {
		t.Errorf("trials %+v", tr)
	}
	w.ok(w.suspend(guest, model.CausePack, 0))
	w.switched(guest, 0)
	if w.share(host) != 0 || w.job(guest).State != model.Suspended || w.job(guest).Live().SetOf() != 0 {
		t.Errorf("after that %+v, %+v", w.job(host).Live().Packing, w.job(guest).Live().Packing)
	}
	w.refused(w.pack(guest, host, 1400), model.ErrTriedBefore)
	w.wait(24*3600 + 1)
	w.ok(w.pack(guest, host, 1400))
}

// TestTrialIsCutShort: if the host ends before both are measured, nothing was found out. The guest
// has the GPU for itself and belongs to no set, and the pair may try again.
func TestTrialIsCutShort(t *testing.T) {
	w := newWorld(t)
	host, guest := w.pair()
	w.ok(w.pack(guest, host, 1400))
	w.switched(guest, 0)
	w.together(host, 500)
	w.ok(w.suspend(host, model.CauseSlice, 0))
	w.switched(host, 0)
	a := w.job(guest).Live()
	if len(a.Trials) != 0 || a.OnTrial() || a.SetOf() != 0 || w.share(guest) != 0 {
		t.Errorf("trials %+v, packing %+v", a.Trials, a.Packing)
	}
	w.ok(w.pack(host, guest, 1400))
}

// TestTrialThatIsNeverMeasured: if no rate comes within twice the time that it takes, the pair is not
// tried again within the memory of that.
func TestTrialThatIsNeverMeasured(t *testing.T) {
	w := newWorld(t)
	host, guest := w.pair()
	w.ok(w.pack(guest, host, 1400))
	w.switched(guest, 0)
	w.together(host, 500)
	w.wait(model.TrialMS / 1000)
	w.ok(w.suspend(guest, model.CausePack, 0))
	w.switched(guest, 0)
	want := model.Trial{What: model.TrialPack, With: host, At: w.s.v.At(), Expected: 1400, Undone: true}
	if got := w.job(guest).Live().Trials; len(got) != 1 || got[0] != want {
		t.Errorf("trials %+v, want %+v", got, want)
	}
	w.refused(w.pack(guest, host, 1400), model.ErrTriedBefore)
}

// TestLateJobSharesWithNone: it would take no turns with those on its GPU.
func TestLateJobSharesWithNone(t *testing.T) {
	w := newWorld(t)
	host, guest := w.pair()
	w.ok(w.suspend(host, model.CauseSlice, 0))
	w.wait(model.PauseLimit / 1000)
	w.ok(w.plan(&ResumeJob{Job: host, Attempt: 1}))
	w.switched(host, 0)
	w.refused(w.pack(guest, host, 1400), model.ErrCannotPack)
}

// TestSetOfAnEarlierAttempt: a job that was first on a GPU, left and came back begins a set of its
// own. Those that stayed from the first one are not in it.
func TestSetOfAnEarlierAttempt(t *testing.T) {
	w := newWorld(t)
	host, guest := w.pair()
	w.ok(w.pack(guest, host, 1400))
	w.switched(guest, 0)
	w.together(host, 800)
	w.together(guest, 1800)
	w.ok(w.control(model.VerbRequeue, 1000, false, host))
	w.report(host, 0, model.WorkerExited, signal(15))
	if w.job(guest).Live().SetOf() != host {
		t.Fatal("the guest is in no set")
	}
	w.ok(w.suspend(guest, model.CauseSlice, 0))
	w.switched(guest, 0)
	third := w.running(1, []string{"n1"}, pauses)
	w.profiled(third, 100, 10*jobspec.GiB, 1000)
	w.ok(w.suspend(third, model.CauseSlice, 0))
	w.switched(third, 0)
	w.wait(3600)
	w.ok(w.start(host, "n1"))
	w.run(host)
	w.profiled(host, 400, 30*jobspec.GiB, 1000)
	w.ok(w.pack(third, host, 1400))
	if a, b := w.job(third).Live().SetOf(), w.job(guest).Live().SetOf(); a != host || b != 0 {
		t.Errorf("the third job is in set %d and the guest in set %d", a, b)
	}
}

// TestJobsThatMayNotShare: what is not known is not guessed, and memory must fit.
func TestJobsThatMayNotShare(t *testing.T) {
	w := newWorld(t)
	w.node("n2", 2)
	host, guest := w.pair()
	large := w.running(1, []string{"n2"}, pauses)
	w.profiled(large, 100, 51*jobspec.GiB, 10)
	w.ok(w.suspend(large, model.CauseSlice, 0))
	w.switched(large, 0)
	small := w.running(1, []string{"n2"}, pauses)
	w.profiled(small, 100, 30*jobspec.GiB, 10)
	w.refused(w.pack(large, small, 1400), model.ErrCannotPack)
	w.report(small, 0, model.WorkerExited)
	w.ok(w.control(model.VerbCancel, 1000, false, large))
	w.report(large, 0, model.WorkerExited)
	other := w.running(1, []string{"n2"}, pauses)
	wide := w.running(1, []string{"n2"})
	w.refused(w.pack(guest, other, 1400), model.ErrCannotPack)
	w.refused(w.pack(guest, wide, 1400), model.ErrCannotPack)
	w.refused(w.pack(host, other, 1400), model.ErrNotSuspended)
	w.ok(w.suspend(other, model.CauseSlice, 0))
	w.switched(other, 0)
	third := w.running(1, []string{"n2"}, pauses)
	w.profiled(third, 100, 70*jobspec.GiB, 10)
	w.refused(w.pack(other, third, 1400), model.ErrNoProfile)
	w.refused(w.pack(guest, guest, 1400), model.ErrSwitching)
	w.refused(w.pack(guest, host, 0), model.ErrCannotPack) // they have not been together
	w.refused(w.pack(guest, host, -1), model.ErrCannotPack)
	w.refused(w.plan(&PackJob{Job: guest, Attempt: 7, Host: host, HostAttempt: 1}), model.ErrOldAttempt)
	for what, p := range map[string]*model.Profile{
		"more than all": {Utilisation: 1001, Memory: 1, Rate: 1}, "less than nothing": {Utilisation: -1, Memory: 1, Rate: 1},
		"no memory": {Utilisation: 1, Memory: -1, Rate: 1}, "too fast": {Utilisation: 1, Memory: 1, Rate: 1 << 60},
	} {
		rows, err := w.apply(NodeReport{Node: "n2", BootID: "b1", Workers: []model.WorkerReport{{Job: third, Attempt: 1,
			State: model.WorkerRunning, Profile: p}}})
		if refused, _ := rows.(RefusedRows); err != nil || len(refused) != 1 || !errors.Is(refused[0], model.ErrBadReport) {
			t.Errorf("%s: %v, %v", what, rows, err)
		}
	}
}
