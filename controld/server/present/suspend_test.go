package present

import (
	"reflect"
	"slices"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/telemetry"
	"github.com/rota-hpc/rota/jobspec"
)

// turning is a state with node n1 of four GPUs, on which jobs take turns. See [machine].
type turning struct{ machine }

func turns(t *testing.T) *turning {
	w := &turning{machine{t: t, s: fsm.New(cluster.DefaultConfig()), at: 100}}
	n := model.Node{Name: "n1", BootID: "b", Cores: 64, Memory: 64 * jobspec.GiB, Suspends: true}
	for i := range 4 {
		n.GPUs = append(n.GPUs, model.GPU{UUID: string(rune('a' + i)), Healthy: true, Memory: 80 * jobspec.GiB})
	}
	w.apply(fsm.RegisterNode{Node: n})
	return w
}

func (w *turning) submit(gpus int) model.JobID {
	w.t.Helper()
	spec := &jobspec.Job{Name: "j", Preemption: &jobspec.Preemption{Mode: jobspec.PreemptSuspend},
		Groups: []jobspec.Group{{Tasks: []jobspec.Task{{Command: []string{"true"},
			Resources: jobspec.Resources{Cores: 1, Memory: 2 * jobspec.GiB, GPUs: gpus}}}}}}
	return w.apply(fsm.SubmitJobs{Jobs: []*jobspec.Job{spec}}).([]model.JobID)[0]
}

func (w *turning) start(id model.JobID, gpus ...int) {
	w.t.Helper()
	w.plan(&fsm.StartJob{Job: id, Places: []model.Place{{Node: "n1", GPUs: gpus}}})
	w.report(id, model.WorkerRunning)
}

func (w *turning) report(id model.JobID, to model.WorkerState) {
	w.t.Helper()
	r := model.WorkerReport{Job: id, Attempt: 1, State: to}
	if s := w.s.View().Job(id).Live().Switch; s != nil {
		r.Switch = s.Number
	}
	w.apply(fsm.NodeReport{Node: "n1", BootID: "b", Workers: []model.WorkerReport{r}})
}

// suspend has a job pause for another one.
func (w *turning) suspend(id, next model.JobID) {
	w.t.Helper()
	w.plan(&fsm.SuspendJob{Job: id, Attempt: 1, Cause: model.CauseSlice, For: next})
	if got := w.job(id); got.Code != model.Running || !reflect.DeepEqual(got.Flags, []string{"suspending"}) ||
		got.Attempts[0].Suspension == nil || got.Attempts[0].Suspension.Since != nil {
		w.t.Errorf("a job that is to pause is shown as %s %v, %+v", got.Code, got.Flags, got.Attempts[0].Suspension)
	}
	w.report(id, model.WorkerRunning)
}

// job is a job as it is shown.
func (w *turning) job(id model.JobID) api.Job {
	v := w.s.View()
	j := v.Job(id)
	return Job(v, j, j.Reason, telemetry.AttemptProgress{}, w.wall())
}

// TestTimeStandsStillWhileSuspended: a job of two GPUs runs for 60 s, is suspended for 100 s and
// runs for 40 s more. Its run time and GPU hours are those of 100 s, at any time; how long it was
// suspended is apart.
func TestTimeStandsStillWhileSuspended(t *testing.T) {
	w := turns(t)
	id, next := w.submit(2), w.submit(4)
	w.start(id, 0, 1)
	shown := func(what string, code model.JobState, elapsed jobspec.Seconds, charged, suspended, gpus int64) {
		t.Helper()
		j := w.job(id)
		if j.Code != code || j.Elapsed != elapsed || j.GPUSeconds != charged || j.SuspendedGPUSeconds != gpus ||
			j.Attempts[0].SuspendedSeconds != suspended {
			t.Errorf("%s: %s, ran %d s, charged %d GPU s, suspended %d s, %d GPU s", what, j.Code, j.Elapsed,
				j.GPUSeconds, j.Attempts[0].SuspendedSeconds, j.SuspendedGPUSeconds)
		}
	}
	w.at += 60
	shown("it runs", model.Running, 60, 120, 0, 0)
	w.suspend(id, next)
	w.start(next, 0, 1, 2, 3)
	w.at += 70
	shown("it is suspended", model.Suspended, 60, 120, 70, 140)
	since := w.wall() - 70_000
	if s := w.job(id).Attempts[0].Suspension; s == nil || *s.Since != *api.At(since) || s.For != next ||
		s.Cause != model.CauseSlice {
		t.Errorf("it is suspended as %+v", s)
	}
	w.at += 30
	w.report(next, model.WorkerExited)
	w.plan(&fsm.ResumeJob{Job: id, Attempt: 1, GPUs: [][]int{{2, 3}}})
	if got := w.job(id).Flags; !reflect.DeepEqual(got, []string{"resuming"}) {
		t.Errorf("a job that is to go on has the flags %v", got)
	}
	w.report(id, model.WorkerRunning)
	w.at += 40
	shown("it goes on", model.Running, 100, 200, 100, 200)
	w.report(id, model.WorkerExited)
	w.at += 1000
	shown("it has ended", model.Completed, 100, 200, 100, 200)
	if j := w.job(id); j.Suspensions != 1 || j.Attempts[0].Suspension != nil || len(j.Flags) > 0 {
		t.Errorf("after its end: %+v", j)
	}
	j := w.s.View().Job(id)
	if past := Job(nil, j, j.Reason, telemetry.AttemptProgress{}, j.Ended.Wall); past.Elapsed != 100 ||
		past.GPUSeconds != 200 ||
		past.SuspendedGPUSeconds != 200 || past.Attempts[0].SuspendedSeconds != 100 {
		t.Errorf("in the history: %+v", past)
	}
}

// TestUsage shows what a job has used, in the units of users.
func TestUsage(t *testing.T) {
	if got := Usage(nil); got != nil {
		t.Errorf("nothing is known: %+v", got)
	}
	var sum model.UsageSum
	sum.Add(&model.Usage{CPUMS: 1500, SystemMS: 250, PeakCores: 2500, PeakMemory: 3, GPU: 714, PeakGPU: 996, GPUMemory: 4,
		PeakGPUMemory: 5}, 1)
	sum.Add(&model.Usage{PeakMemory: 2}, 0)
	got := Usage(&sum)
	if want := (api.Usage{CPUSeconds: 1.5, SystemSeconds: 0.25, PeakCores: 2.5, PeakMemory: 3, Memory: 5, Workers: 2,
		GPUUtil: 71, PeakGPUUtil: 100, GPUMemory: 4, PeakGPUMemory: 5}); *got != want || got.OfExtern() != nil {
		t.Errorf("got %+v", got)
	}
	sum = model.UsageSum{}
	beside := func(cpu, system int64, peak jobspec.Bytes) *api.Usage {
		sum.Add(&model.Usage{CPUMS: 9000, SystemMS: 900, ExternCPUMS: cpu, ExternSystemMS: system, ExternMemory: peak}, 0)
		return Usage(&sum).OfExtern()
	}
	if got, want := beside(500, 125, 7), (api.Usage{CPUSeconds: 0.5, SystemSeconds: 0.125, PeakMemory: 7, Memory: 7,
		Workers: 1}); *got != want {
		t.Errorf("beside one worker %+v", got)
	}
	if got, want := beside(250, 125, 5), (api.Usage{CPUSeconds: 0.75, SystemSeconds: 0.25, PeakMemory: 7,
		Workers: 2}); *got != want {
		t.Errorf("beside two workers %+v", got)
	}
}

// TestCancelledWhileSuspended: its run time ends when it was suspended.
func TestCancelledWhileSuspended(t *testing.T) {
	w := turns(t)
	id, next := w.submit(2), w.submit(4)
	w.start(id, 0, 1)
	w.at += 60
	w.suspend(id, next)
	w.at += 30
	w.apply(fsm.ControlJobs{Targets: []fsm.Target{{ID: id}}, Verb: model.VerbCancel})
	w.at += 10
	w.report(id, model.WorkerExited)
	w.at += 1000
	if j := w.job(id); j.Code != model.Cancelled || j.Elapsed != 60 || j.GPUSeconds != 120 ||
		j.Attempts[0].SuspendedSeconds != 40 || j.SuspendedGPUSeconds != 80 || j.Attempts[0].Suspension != nil {
		t.Errorf("%s, ran %d s, charged %d GPU s, suspended %d s, %d GPU s", j.Code, j.Elapsed, j.GPUSeconds,
			j.Attempts[0].SuspendedSeconds, j.SuspendedGPUSeconds)
	}
}

// TestJobsOnOneGPU: each is charged the part of the GPU that it has, while it runs and when it has
// ended. The GPU is used once.
func TestJobsOnOneGPU(t *testing.T) {
	w := turns(t)
	a, b := w.submit(1), w.submit(1)
	w.start(a, 0)
	w.start(b, 1)
	profile := &model.Profile{Utilisation: 300, Memory: jobspec.GiB, Rate: 1000}
	for _, id := range []model.JobID{a, b} {
		w.apply(fsm.NodeReport{Node: "n1", BootID: "b", Workers: []model.WorkerReport{{Job: id, Attempt: 1,
			State: model.WorkerRunning, Profile: profile}}})
	}
	w.at += 60
	w.suspend(b, 0)
	w.plan(&fsm.PackJob{Job: b, Attempt: 1, Host: a, HostAttempt: 1, Expected: 1200})
	w.report(b, model.WorkerRunning)
	want := []api.Trial{{What: model.TrialPack, With: a, ExpectedGain: 1200}}
	if got := w.job(b).Attempts[0].Trials; !reflect.DeepEqual(got, want) {
		t.Errorf("what is being tried: %+v, want %+v", got, want)
	}
	alloc := Alloc(w.s.View(), desired(w.s.View(), b))
	if alloc.Packing == nil || *alloc.Packing != (api.Packing{Share: 500, Number: 1}) || alloc.Switch == nil ||
		*alloc.Switch != (api.Switch{Number: 2, Cause: model.CauseSlice}) {
		t.Errorf("the node is told %+v, %+v", alloc.Packing, alloc.Switch)
	}
	w.at += 40
	charged := func(what string, wantA, wantB int64) {
		t.Helper()
		if gotA, gotB := w.job(a).GPUSeconds, w.job(b).GPUSeconds; gotA != wantA || gotB != wantB {
			t.Errorf("%s: charged %d and %d GPU seconds, want %d and %d", what, gotA, gotB, wantA, wantB)
		}
	}
	charged("together", 80, 80)
	n, i := w.s.View().Node("n1")
	if out := Node(w.s.View(), n, i); out.GPUsUsed != 1 || !reflect.DeepEqual(out.GPUs[0].Jobs, []model.JobID{a, b}) ||
		out.Load != 250 || out.Height != 1 {
		t.Errorf("the node: %+v", out)
	}
	w.report(b, model.WorkerExited)
	charged("one has ended", 80, 80)
	w.at += 20
	charged("alone again", 100, 80)
	w.report(a, model.WorkerExited)
	charged("both have ended", 100, 80)
}

// TestHeightOfANode: suspended jobs count, and keep their memory; the widest job is the node's
// affinity.
func TestHeightOfANode(t *testing.T) {
	w := turns(t)
	node := func() api.Node {
		n, i := w.s.View().Node("n1")
		return Node(w.s.View(), n, i)
	}
	if n := node(); n.Height != 0 || n.Load != 0 || n.Affinity != 0 || n.Suspended != nil || Shares(w.s.View()) {
		t.Errorf("an empty node: %+v", n)
	}
	a, b, c := w.submit(2), w.submit(1), w.submit(4)
	w.start(a, 0, 1)
	if n := node(); n.Height != 1 || n.Load != 500 || n.Affinity != 2 {
		t.Errorf("with a job of two GPUs: %+v", n)
	}
	w.start(b, 2)
	w.suspend(a, c)
	w.suspend(b, c)
	w.start(c, 0, 1, 2, 3)
	n := node()
	if n.Height != 2 || n.Load != 1750 || n.Affinity != 4 || n.GPUsUsed != 4 || n.MemoryUsed != 6*jobspec.GiB {
		t.Errorf("with three jobs: %+v", n)
	}
	want := []api.SuspendedJob{{Job: a, Memory: 2 * jobspec.GiB}, {Job: b, Memory: 2 * jobspec.GiB}}
	if !reflect.DeepEqual(n.Suspended, want) || !Shares(w.s.View()) {
		t.Errorf("suspended there: %+v, want %+v", n.Suspended, want)
	}
}

// TestWhatWasTried is shown with a job and in events.
func TestWhatWasTried(t *testing.T) {
	w := turns(t)
	id := w.submit(1)
	w.start(id, 0)
	j := *w.s.View().Job(id)
	j.Attempts = []model.Attempt{j.Attempts[0]}
	pack := model.Trial{What: model.TrialPack, With: 9, Expected: 1400, Measured: 870, Undone: true}
	j.Attempts[0].Trials = []model.Trial{pack, {What: model.TrialMigrate, Expected: 1120}}
	got := Job(w.s.View(), &j, j.Reason, telemetry.AttemptProgress{}, w.wall()).Attempts[0].Trials
	want := []api.Trial{{What: model.TrialPack, With: 9, ExpectedGain: 1400, MeasuredGain: 870, Undone: true},
		{What: model.TrialMigrate, ExpectedGain: 1120}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	e := Event(&model.Event{Type: model.EventMeasured, Job: id, Trial: &pack})
	if e.What != model.TrialPack || e.With != 9 || e.ExpectedGain != 1400 || e.MeasuredGain != 870 || !e.Undone {
		t.Errorf("the event is %+v", e)
	}
}

// TestHoldersOfAGPU: a GPU of which several jobs have parts lists each of them once, and is used
// once.
func TestHoldersOfAGPU(t *testing.T) {
	var gpu api.NodeGPU
	for i, id := range []model.JobID{7, 7, 8, 7, 8, 9} {
		if first := addHolder(&gpu, id); first != (i == 0) {
			t.Errorf("worker %d, of job %d, is the first: %t", i, id, first)
		}
		if i <= 1 && gpu.Jobs != nil {
			t.Errorf("a GPU of one job has the list %v", gpu.Jobs)
		}
	}
	if gpu.Job != 7 || !reflect.DeepEqual(gpu.Jobs, []model.JobID{7, 8, 9}) {
		t.Errorf("got %+v", gpu)
	}
}

// desired is what the node of a job has to know of it.
func desired(v *state.View, id model.JobID) state.DesiredWorker {
	all := v.Desired("n1")
	return all[slices.IndexFunc(all, func(d state.DesiredWorker) bool { return d.Job.ID == id })]
}
