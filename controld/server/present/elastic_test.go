package present

import (
	"fmt"
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

// stretched is a state with four nodes of one GPU each, and an elastic job of one to four workers
// in it.
type stretched struct {
	machine
	id model.JobID
}

func stretch(t *testing.T) *stretched {
	cfg := cluster.DefaultConfig()
	w := &stretched{machine: machine{t: t, s: fsm.New(cfg), at: 1}}
	for i := 1; i <= 4; i++ {
		w.apply(fsm.RegisterNode{Node: model.Node{Name: fmt.Sprint("n", i), BootID: "b", Cores: 8,
			Memory: 64 * jobspec.GiB,
			GPUs:   []model.GPU{{UUID: fmt.Sprint(i), Healthy: true}}}})
	}
	spec := &jobspec.Job{Name: "e", Groups: []jobspec.Group{{Elastic: &jobspec.Elastic{Min: 1, Max: 4},
		Tasks: []jobspec.Task{{
			Command: []string{"true"}, Resources: jobspec.Resources{Cores: 1, Memory: jobspec.GiB, GPUs: 1}}}}}}
	w.id = w.apply(fsm.SubmitJobs{Jobs: []*jobspec.Job{spec}}).([]model.JobID)[0]
	return w
}

func (w *stretched) start(nodes ...string) {
	w.t.Helper()
	c := &fsm.StartJob{Job: w.id}
	for _, n := range nodes {
		c.Places = append(c.Places, model.Place{Node: n, GPUs: []int{0}})
	}
	w.plan(c)
}

// resize has workers leave and join, and all exit.
func (w *stretched) resize(r fsm.ResizeJob) {
	w.t.Helper()
	w.plan(&r)
	w.says(map[bool]string{true: "its workers are saving and stopping, to continue as 2 to make room for job 2",
		false: "its workers are saving and stopping, to continue as 3"}[r.For != 0])
	for i, x := range w.s.View().Job(w.id).Live().Workers {
		w.apply(fsm.NodeReport{Node: x.Node, BootID: "b",
			Workers: []model.WorkerReport{{Job: w.id, Attempt: r.Attempt, Worker: i, State: model.WorkerExited,
				ExitCode: 85}}})
	}
}

func (w *stretched) says(want string) api.Job {
	w.t.Helper()
	v := w.s.View()
	out := Job(v, v.Job(w.id), model.Reason{}, telemetry.AttemptProgress{}, 1000)
	if out.Elastic == nil || out.Elastic.Text != want || out.Elastic.Min != 1 || out.Elastic.Max != 4 {
		w.t.Errorf("%+v, want %q", out.Elastic, want)
	}
	return out
}

// TestElasticJobsSayWhyTheyHaveTheirWorkers follows one through its life.
func TestElasticJobsSayWhyTheyHaveTheirWorkers(t *testing.T) {
	w := stretch(t)
	if out := w.says("it starts once 1 of its workers fit"); out.Elastic.Workers != 0 || out.Workers != 1 ||
		out.GPUs != 1 {
		t.Errorf("it waits as %+v", out)
	}
	w.start("n1", "n2", "n3", "n4")
	w.says("it started with its maximum")
	other := w.apply(fsm.SubmitJobs{Jobs: []*jobspec.Job{{Name: "o",
		Groups: []jobspec.Group{{Tasks: []jobspec.Task{{Command: []string{"true"}}}}}}}}).([]model.JobID)[0]
	w.resize(fsm.ResizeJob{Job: w.id, Attempt: 1, Leave: []int{1, 2}, For: other})
	out := w.says("it has shrunk from 4 to make room for job 2")
	if out.Elastic.Workers != 2 || out.GPUs != 2 || out.Resizes != 1 || !slices.Equal(out.Nodes, []string{"n1", "n4"}) {
		t.Errorf("after it has shrunk: %+v", out)
	}
	if a := out.Attempts; len(a) != 2 || a[0].Workers != 4 || a[0].Cause != model.CauseShrink || a[1].Workers != 2 {
		t.Errorf("attempts %+v", a)
	}
	v := w.s.View()
	alloc := Alloc(v, state.DesiredWorker{Job: v.Job(w.id), Worker: 1})
	if !slices.Equal(alloc.Nodes, []string{"n1", "n4"}) || alloc.Attempt != 2 || alloc.Restarts != 1 {
		t.Errorf("its second worker is told %+v", alloc)
	}
	w.resize(fsm.ResizeJob{Job: w.id, Attempt: 2, Join: []model.Place{{Node: "n2", GPUs: []int{0}}}})
	w.says("it has grown from 2 into free capacity")
	w.plan(&fsm.StopJob{Job: w.id, Attempt: 3, Cause: model.CauseOrder})
	for i, x := range w.s.View().Job(w.id).Live().Workers {
		w.apply(fsm.NodeReport{Node: x.Node, BootID: "b",
			Workers: []model.WorkerReport{{Job: w.id, Attempt: 3, Worker: i, State: model.WorkerExited, ExitCode: 85}}})
	}
	w.start("n3", "n4")
	w.says("it started with as many as fitted")
}
