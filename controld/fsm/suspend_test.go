package fsm

import (
	"errors"
	"slices"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// pauses has a job pause instead of being stopped.
func pauses(j *jobspec.Job) { j.Preemption = &jobspec.Preemption{Mode: jobspec.PreemptSuspend} }

func (w *world) suspend(id model.JobID, cause model.Cause, beneficiary model.JobID) error {
	w.t.Helper()
	return w.plan(&SuspendJob{Job: id, Attempt: w.job(id).Attempt, Cause: cause, For: beneficiary})
}

// resume has a suspended job go on with the lowest free GPUs of its nodes.
func (w *world) resume(id model.JobID) error {
	w.t.Helper()
	j := w.job(id)
	c := &ResumeJob{Job: id, Attempt: j.Attempt}
	for _, wk := range j.Live().Workers {
		c.GPUs = append(c.GPUs, w.place(wk.Node, int(j.Request.Active.GPUs/1000)).GPUs)
	}
	return w.plan(c)
}

// switched has workers of a job report that they have carried out its last switch.
func (w *world) switched(id model.JobID, workers ...int) {
	w.t.Helper()
	for _, i := range workers {
		n := w.job(id).Live().Switch.Number
		w.report(id, i, model.WorkerRunning, func(r *model.WorkerReport) { r.Switch = n })
	}
}

func (w *world) freeGPUs(node string) int64 {
	_, i := w.s.v.Node(node)
	return w.s.v.Grid().Free(i).GPUs / 1000
}

// TestGangPausesAsOne: a gang gives its GPUs back when the last worker has paused, and keeps its
// memory on both nodes. It goes on with other GPUs, as a whole. Its clock has stood still
// meanwhile.
func TestGangPausesAsOne(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	w.node("n2", 8)
	limited := func(j *jobspec.Job) { j.TimeLimit = 3600 }
	id := w.running(4, []string{"n1", "n2"}, pauses, limited)
	next := w.submit(1, 8)
	ends := w.s.v.LiveAttempt(id).Ends
	w.wait(60)
	before := w.s.v.NodeModified("n2")
	w.ok(w.suspend(id, model.CauseSlice, next))
	w.state(id, model.Running)
	if w.s.v.NodeModified("n2") <= before {
		t.Error("a node was not told")
	}
	w.refused(w.suspend(id, model.CauseSlice, next), model.ErrSwitching)
	w.refused(w.resume(id), model.ErrNotSuspended)
	w.switched(id, 0)
	w.state(id, model.Running)
	if w.freeGPUs("n1") != 4 {
		t.Error("a worker gave its GPUs back before the whole gang had paused")
	}
	w.wait(1)
	w.switched(id, 1)
	w.state(id, model.Suspended)
	if !w.s.View().AnySuspended() {
		t.Error("a view has no suspended attempt, so that no cycle would have it go on")
	}
	if n1, n2 := w.freeGPUs("n1"), w.freeGPUs("n2"); n1 != 8 || n2 != 8 {
		t.Errorf("%d and %d GPUs are free", n1, n2)
	}
	_, i := w.s.v.Node("n1")
	if kept := w.s.v.Grid().Capacity(i).Memory - w.s.v.Grid().FreeResident(i).Memory; kept != 8*jobspec.GiB {
		t.Errorf("it keeps %d bytes", kept)
	}
	if run := w.s.v.LiveAttempt(id); run.Ends != 0 || !run.Paused || run.Held.GPUs != 0 {
		t.Errorf("a suspended attempt is %+v", run)
	}
	w.ok(w.start(next, "n1"))
	w.wait(100)
	if err := w.resume(id); err == nil {
		t.Error("it went on where there is no room")
	}
	w.state(id, model.Suspended)
	w.run(next)
	w.report(next, 0, model.WorkerExited)
	w.wait(30)
	w.ok(w.resume(id))
	w.state(id, model.Running)
	w.refused(w.suspend(id, model.CauseSlice, 0), model.ErrSwitching)
	w.switched(id, 1, 0)
	if got := w.s.v.LiveAttempt(id).Ends; got != ends+130_000 {
		t.Errorf("its limit ends at %d instead of %d", got, ends+130_000)
	}
	w.wait(39)
	w.report(id, 0, model.WorkerExited)
	w.report(id, 1, model.WorkerExited)
	w.state(id, model.Completed)
	j := w.job(id)
	if j.Ledger.GPUMS != 8*100_000 || j.Ledger.SuspendedMS != 8*130_000 || j.Counters != (model.Counters{Suspensions: 1}) {
		t.Errorf("it was charged %+v, %+v", j.Ledger, j.Counters)
	}
}

// TestSuspendedInPlaceOfPreemption: it counts as one, and the attempt goes on.
func TestSuspendedInPlaceOfPreemption(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 4)
	id := w.running(4, []string{"n1"}, pauses)
	te := w.submit(1, 4, func(j *jobspec.Job) { j.Class, j.TimeLimit = jobspec.TE, 600 })
	w.ok(w.suspend(id, model.CauseTE, te))
	w.switched(id, 0)
	j := w.job(id)
	if j.Counters.TE != 1 || len(j.Displaced) != 1 || j.Attempt != 1 {
		t.Errorf("it counts as %+v, %v", j.Counters, j.Displaced)
	}
	w.ok(w.start(te, "n1"))
}

// TestSuspendedJobIsStopped: it ends like any other and gives its memory back.
func TestSuspendedJobIsStopped(t *testing.T) {
	for what, stop := range map[string]func(*world, model.JobID){
		"cancelled": func(w *world, id model.JobID) {
			w.ok(w.control(model.VerbCancel, 1000, false, id))
			w.state(id, model.Completing)
			w.refused(w.resume(id), model.ErrStopping)
			w.report(id, 0, model.WorkerExited, signal(15))
			w.state(id, model.Cancelled)
		},
		"its node lost": func(w *world, id model.JobID) {
			w.must(SetNodeState{Node: "n1", State: model.NodeDown})
			w.at += w.s.v.Config().LeaseSpan() + 1
			w.ok(w.plan(&EndAttempt{Job: id, Attempt: 1, Cause: model.CauseNodeLost}))
			w.state(id, model.Pending)
			w.must(SetNodeState{Node: "n1", State: model.NodeUp})
		},
		"killed": func(w *world, id model.JobID) {
			w.report(id, 0, model.WorkerExited, signal(9))
			w.state(id, model.Failed)
		},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			w.node("n1", 4)
			id := w.running(4, []string{"n1"}, pauses)
			w.wait(10)
			w.ok(w.suspend(id, model.CauseSlice, 0))
			w.switched(id, 0)
			w.wait(20)
			stop(w, id)
			_, i := w.s.v.Node("n1")
			if free := w.s.v.Grid().FreeResident(i); free.Memory != 256*jobspec.GiB || w.freeGPUs("n1") != 4 {
				t.Errorf("%+v is free", free)
			}
			if l := w.job(id).Ledger; l.GPUMS != 4*10_000 || l.SuspendedMS == 0 {
				t.Errorf("it was charged %+v", l)
			}
		})
	}
}

// TestSuspendedGangIsStopped: when a worker of a suspended gang dies, the gang ends for that
// reason, and the ledger has no time after the pause.
func TestSuspendedGangIsStopped(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 4)
	w.node("n2", 4)
	id := w.running(2, []string{"n1", "n2"}, pauses)
	w.wait(10)
	w.ok(w.suspend(id, model.CauseSlice, 0))
	w.switched(id, 0, 1)
	w.wait(20)
	w.report(id, 1, model.WorkerExited, signal(9))
	w.wait(3)
	w.report(id, 0, model.WorkerExited, signal(15))
	w.state(id, model.Failed)
	j := w.job(id)
	if j.Ledger.GPUMS != 4*10_000 || j.Ledger.SuspendedMS != 2*20_000+2*23_000 {
		t.Errorf("it was charged %+v", j.Ledger)
	}
	if got := j.Attempts[0].Signal; got != 9 {
		t.Errorf("it ended by signal %d, want 9", got)
	}
	if w.freeGPUs("n1") != 4 || w.freeGPUs("n2") != 4 {
		t.Error("it did not give its room back")
	}
}

// TestGoesOnOnDrainedNode: a drained node gets no new job, and a job that is suspended there goes
// on.
func TestGoesOnOnDrainedNode(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 4)
	id := w.running(2, []string{"n1"}, pauses)
	w.ok(w.suspend(id, model.CauseSlice, 0))
	w.switched(id, 0)
	w.must(SetNodeState{Node: "n1", State: model.NodeDrained})
	if err := w.start(w.submit(1, 1), "n1"); err == nil {
		t.Error("a drained node got a new job")
	}
	w.ok(w.resume(id))
	w.switched(id, 0)
	w.state(id, model.Running)
}

// TestLateSuspensionIsTakenBack: a job that does not reach a pause point keeps what it holds and is
// not told to pause again. Its word that it has paused comes too late.
func TestLateSuspensionIsTakenBack(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 4)
	w.node("n2", 4)
	id := w.running(2, []string{"n1", "n2"}, pauses)
	w.ok(w.suspend(id, model.CauseSlice, 0))
	w.switched(id, 0)
	w.wait(model.PauseLimit/1000 - 1)
	w.refused(w.plan(&ResumeJob{Job: id, Attempt: 1}), model.ErrNotSuspended)
	w.wait(1)
	w.ok(w.plan(&ResumeJob{Job: id, Attempt: 1}))
	w.report(id, 1, model.WorkerRunning, func(r *model.WorkerReport) { r.Switch = 1 })
	w.state(id, model.Running)
	if w.freeGPUs("n1") != 2 || w.s.v.CanSuspend(w.job(id)) {
		t.Errorf("%d GPUs are free; it can be suspended: %t", w.freeGPUs("n1"), w.s.v.CanSuspend(w.job(id)))
	}
	w.switched(id, 0, 1)
	w.refused(w.suspend(id, model.CauseSlice, 0), model.ErrCannotSuspend)
	w.wait(10)
	w.report(id, 0, model.WorkerExited)
	w.report(id, 1, model.WorkerExited)
	if l := w.job(id).Ledger; l.GPUMS != 4*70_000 || l.SuspendedMS != 0 {
		t.Errorf("it was charged %+v", l)
	}
}

// TestAJobThatCannotPauseSaysSo: a node that cannot have a worker pause is not waited for: the job
// goes on, and is not told to pause again. Reports about an earlier order change nothing.
func TestAJobThatCannotPauseSaysSo(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 4)
	w.node("n2", 4)
	id := w.running(2, []string{"n1", "n2"}, pauses)
	unpaused := func(worker, number int) {
		w.report(id, worker, model.WorkerRunning, func(r *model.WorkerReport) { r.Switch, r.Unpaused = number, "it is busy" })
	}
	w.ok(w.suspend(id, model.CauseSlice, 0))
	w.switched(id, 0)
	unpaused(1, 1)
	w.state(id, model.Running)
	if a := w.job(id).Live(); a.Switch.Number != 2 || !a.Late() || w.freeGPUs("n2") != 2 {
		t.Errorf("%+v, %d GPUs are free", *a.Switch, w.freeGPUs("n2"))
	}
	unpaused(1, 1)
	unpaused(1, 2)
	if n := w.job(id).Live().Switch.Number; n != 2 {
		t.Errorf("it was told %d times", n)
	}
	w.switched(id, 0, 1)
	w.refused(w.suspend(id, model.CauseSlice, 0), model.ErrCannotSuspend)
	var said []string
	for _, e := range w.s.v.Events(0) {
		if e.Job == id && e.Type == model.EventResuming {
			said = append(said, e.Text)
		}
	}
	if !slices.Equal(said, []string{"it is busy"}) {
		t.Errorf("events say %q", said)
	}
}

// TestAPinnedJobGoesOnWithItsGPUs: where programs cannot exchange GPUs, a suspended job takes no
// others.
func TestAPinnedJobGoesOnWithItsGPUs(t *testing.T) {
	w := newWorld(t)
	n := testNode("n1", 4)
	n.PinsGPUs = true
	w.must(RegisterNode{Node: n})
	id := w.running(2, []string{"n1"}, pauses)
	w.ok(w.suspend(id, model.CauseSlice, 0))
	w.switched(id, 0)
	if had := w.job(id).Live().Workers[0].Had; !slices.Equal(had, []int{0, 1}) {
		t.Errorf("it had GPUs %v", had)
	}
	w.refused(w.plan(&ResumeJob{Job: id, Attempt: 1, GPUs: [][]int{{2, 3}}}), model.ErrWrongPlaces)
	other := w.running(1, []string{"n1"}) // has GPU 0
	var why *model.FitError
	if err := w.plan(&ResumeJob{Job: id, Attempt: 1, GPUs: [][]int{{0, 1}}}); !errors.As(err, &why) {
		t.Errorf("to go on with the GPU of another job: %v", err)
	}
	w.report(other, 0, model.WorkerExited)
	w.ok(w.plan(&ResumeJob{Job: id, Attempt: 1, GPUs: [][]int{{0, 1}}}))
	if wk := w.job(id).Live().Workers[0]; !slices.Equal(wk.GPUs, []int{0, 1}) || wk.Had != nil {
		t.Errorf("%+v", wk)
	}
}

// TestSwitchesThatAreRefused: what cannot pause is not told to, and late word changes nothing.
func TestSwitchesThatAreRefused(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	plain := w.running(1, []string{"n1"})
	w.refused(w.suspend(plain, model.CauseSlice, 0), model.ErrCannotSuspend)
	id := w.running(1, []string{"n1"}, pauses)
	w.refused(w.suspend(id, model.CauseDrain, 0), model.ErrBadCause)
	w.refused(w.suspend(id, model.CauseSlice, plain), model.ErrNotWanted)
	w.refused(w.plan(&SuspendJob{Job: id, Attempt: 2, Cause: model.CauseSlice}), model.ErrOldAttempt)
	w.ok(w.suspend(id, model.CauseSlice, 0))
	w.report(id, 0, model.WorkerRunning, func(r *model.WorkerReport) { r.Switch = 2 })
	w.state(id, model.Running)
	w.switched(id, 0)
	w.refused(w.plan(&ResumeJob{Job: id, Attempt: 1}), model.ErrWrongPlaces)
	w.refused(w.plan(&ResumeJob{Job: id, Attempt: 1, GPUs: [][]int{{3, 4}}}), model.ErrWrongPlaces)
	var why *model.FitError
	if err := w.plan(&ResumeJob{Job: id, Attempt: 1, GPUs: [][]int{{0}}}); !errors.As(err, &why) {
		t.Errorf("to go on with the GPU of another job: %v", err)
	}
	w.must(Steer{What: "slicing", On: true, By: "root"})
	w.ok(w.resume(id))
	w.refused(w.suspend(id, model.CauseSlice, 0), model.ErrPaused)
	w.switched(id, 0)
	var said []model.EventType
	for _, e := range w.s.v.Events(0) {
		if e.Job == id && e.Cause == model.CauseSlice {
			said = append(said, e.Type)
		}
	}
	if want := []model.EventType{model.EventSuspending, model.EventSuspended, model.EventResuming,
		model.EventContinued}; !slices.Equal(said, want) {
		t.Errorf("events %v, want %v", said, want)
	}
}

// TestOnlyNodesThatCanSuspendDo: a gang is suspended only if all its nodes can do it. A suspended
// gang still resumes after a node has lost that ability.
func TestOnlyNodesThatCanSuspendDo(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 4)
	unable := testNode("n2", 4)
	unable.Suspends = false
	w.must(RegisterNode{Node: unable})
	gang := w.running(2, []string{"n1", "n2"}, pauses)
	w.refused(w.suspend(gang, model.CauseSlice, 0), model.ErrCannotSuspend)
	unable.Suspends = true
	w.must(RegisterNode{Node: unable})
	w.ok(w.suspend(gang, model.CauseSlice, 0))
	w.switched(gang, 0, 1)
	unable.Suspends = false
	w.must(RegisterNode{Node: unable})
	w.ok(w.resume(gang))
	w.switched(gang, 0, 1)
	w.state(gang, model.Running)
	if w.s.v.CanSuspend(w.job(gang)) || !w.s.v.AnySuspends() {
		t.Error("what nodes can do is not what they announced last")
	}
}

// TestViewsKnowWhatIsSuspended: a view that is kept says the same as the state did then.
func TestViewsKnowWhatIsSuspended(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 4)
	id := w.running(1, []string{"n1"}, pauses)
	w.ok(w.suspend(id, model.CauseSlice, 0))
	w.switched(id, 0)
	before := w.s.View()
	w.ok(w.resume(id))
	if !before.AnySuspended() || w.s.View().AnySuspended() {
		t.Error("a view does not know whether any attempt is suspended")
	}
}
