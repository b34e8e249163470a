package present

import (
	"testing"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/telemetry"
	"github.com/rota-hpc/rota/jobspec"
)

// TestResizedWhileItRuns: a job that is resized while it runs is charged each GPU second once, says
// why it has its workers, and its nodes are told by which resize a worker has joined.
func TestResizedWhileItRuns(t *testing.T) {
	w := stretch(t)
	spec := *w.s.View().Job(w.id).Spec
	spec.Groups = []jobspec.Group{spec.Groups[0]}
	spec.Groups[0].Elastic = &jobspec.Elastic{Min: 1, Max: 4, Resize: jobspec.ResizeSignal}
	ids := w.apply(fsm.SubmitJobs{Jobs: []*jobspec.Job{&spec,
		{Name: "o", Groups: []jobspec.Group{{Tasks: []jobspec.Task{{Command: []string{"true"}}}}}}}}).([]model.JobID)
	id, other := ids[0], ids[1]
	w.id = id
	report := func(worker int, state model.WorkerState) {
		t.Helper()
		x := w.s.View().Job(id).Live().Workers[worker]
		w.apply(fsm.NodeReport{Node: x.Node, BootID: "b", Workers: []model.WorkerReport{{Job: id, Attempt: 1,
			Worker: worker, State: state, Joined: x.Joined, ExitCode: 85}}})
	}
	shows := func(charged int64, text string) {
		t.Helper()
		j := Job(w.s.View(), w.s.View().Job(id), model.Reason{}, telemetry.AttemptProgress{}, w.wall())
		if j.GPUSeconds != charged || j.Elastic.Text != text {
			t.Errorf("charged %d GPU seconds, want %d; it says %q, want %q", j.GPUSeconds, charged, j.Elastic.Text, text)
		}
	}
	w.start("n1", "n2", "n3")
	for _, state := range []model.WorkerState{model.WorkerCreated, model.WorkerRunning} {
		for i := range 3 {
			report(i, state)
		}
	}
	w.at += 100
	shows(300, "it started with as many as fitted")
	w.plan(&fsm.ResizeJob{Job: id, Attempt: 1, Leave: []int{1, 2}, For: other})
	shows(300, "it shrinks to 1 while it runs to make room for job 3")
	w.at += 10
	report(2, model.WorkerExited)
	w.at += 10
	report(1, model.WorkerExited)
	w.at += 30
	shows(100+50+110+120, "it has shrunk to 1 while it ran")
	w.plan(&fsm.ResizeJob{Job: id, Attempt: 1, Join: []model.Place{{Node: "n4", GPUs: []int{0}}}})
	w.at += 20
	shows(380+2*20, "it grows from 1 into free capacity while it runs")
	v := w.s.View()
	if told := Alloc(v, state.DesiredWorker{Job: v.Job(id), Worker: 1}); told.Joined != 2 {
		t.Errorf("the node is told that the worker has joined by resize %d, want 2", told.Joined)
	}
	report(1, model.WorkerCreated)
	report(1, model.WorkerRunning)
	shows(420, "it has grown from 1 into free capacity")
}
