package present

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/sched"
	"github.com/rota-hpc/rota/controld/telemetry"
	"github.com/rota-hpc/rota/jobspec"
)

// A worker of a gang of several groups is told its own group's nodes and request, its own port, and
// where all groups are.
func TestAllocOfParts(t *testing.T) {
	s := fsm.New(cluster.DefaultConfig())
	index := uint64(0)
	apply := func(c fsm.Command) any {
		index++
		result, err := s.Apply(index, fsm.Entry{Stamp: model.Stamp{At: 1000, Wall: 1000}, Command: c})
		if err != nil {
			t.Fatalf("%s: %v", c.Kind(), err)
		}
		return result
	}
	for i := 1; i <= 2; i++ {
		n := model.Node{Name: fmt.Sprint("n", i), Addr: fmt.Sprintf("10.0.0.%d:9", i), BootID: "b", Cores: 8,
			Memory: 64 * jobspec.GiB, PortMin: 100, PortMax: 110}
		for g := range 2 {
			n.GPUs = append(n.GPUs, model.GPU{UUID: fmt.Sprint(i, g), Healthy: true})
		}
		apply(fsm.RegisterNode{Node: n})
	}
	group := func(name string, count, gpus, cores int) jobspec.Group {
		return jobspec.Group{Name: name, Count: count, Tasks: []jobspec.Task{{
			Command: []string{"true"}, Resources: jobspec.Resources{Cores: cores, GPUs: gpus, Memory: jobspec.GiB},
		}}}
	}
	spec := &jobspec.Job{Name: "tf", GangScope: "job",
		Groups: []jobspec.Group{group("ps", 1, 0, 1), group("worker", 2, 2, 3)}}
	spec.Groups[0].Tasks[0].Launch = &jobspec.Launch{Type: jobspec.LaunchSteps}
	owner := model.Identity{UID: 1, User: "ada"}
	id := apply(fsm.SubmitJobs{Owner: owner, Jobs: []*jobspec.Job{spec}}).([]model.JobID)[0]
	plan, _ := sched.Cycle(s.View(), 1000, s.View().Config().Policy)
	for _, err := range apply(plan).([]error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	v := s.View()
	j := v.Job(id)
	got := Alloc(v, state.DesiredWorker{Job: j, Worker: 2})
	workers := j.Live().Workers
	want := []api.GroupHosts{
		{Group: "ps", Nodes: []string{"n1"}, Addrs: []string{"10.0.0.1"}, Ports: []int{workers[0].Port},
			Has: []model.Vector{{Cores: 1, Memory: jobspec.GiB}}},
		{Group: "worker", Nodes: []string{"n1", "n2"}, Addrs: []string{"10.0.0.1", "10.0.0.2"},
			Ports: []int{workers[1].Port, workers[2].Port}},
	}
	if !reflect.DeepEqual(got.Hosts, want) {
		t.Errorf("hosts are %+v, want %+v", got.Hosts, want)
	}
	if got.Group != 1 || got.GroupWorker != 1 || got.Worker != 2 || !reflect.DeepEqual(got.Nodes, []string{"n1", "n2"}) ||
		got.Port != workers[2].Port {
		t.Errorf("its place is %+v", got)
	}
	if got.Request.Active.Cores != 3 || got.Request.Active.GPUs != 2000 || len(got.GPUs) != 2 ||
		got.MasterAddr != "10.0.0.1" || got.MasterPort == 0 {
		t.Errorf("its room and its meeting are %+v", got)
	}
	components := []api.Component{{Workers: 1, Cores: 1, Memory: jobspec.GiB},
		{Workers: 2, Cores: 6, Memory: 2 * jobspec.GiB, GPUs: 4}}
	if shown := Job(v, j, model.Reason{}, telemetry.AttemptProgress{}, 1000); !reflect.DeepEqual(shown.Components,
		components) {
		t.Errorf("its components are shown as %+v", shown.Components)
	}
	first := Alloc(v, state.DesiredWorker{Job: j, Worker: 0})
	if first.Group != 0 || !reflect.DeepEqual(first.Nodes, []string{"n1"}) || first.Request.Active.GPUs != 0 ||
		first.Port == first.MasterPort || first.Port == 0 {
		t.Errorf("the first worker is told %+v", first)
	}
}

// An element is told its own parameters and how many there are, and nothing that only the others
// need.
func TestAllocOfElement(t *testing.T) {
	s := fsm.New(cluster.DefaultConfig())
	apply := func(index uint64, c fsm.Command) {
		t.Helper()
		if _, err := s.Apply(index, fsm.Entry{Stamp: model.Stamp{At: 1000}, Command: c}); err != nil {
			t.Fatalf("%s: %v", c.Kind(), err)
		}
	}
	spec := &jobspec.Job{Name: "sweep", Groups: []jobspec.Group{{Tasks: []jobspec.Task{{Command: []string{"true"}}}}}}
	spec.Array = &jobspec.Array{Columns: []string{"lr", "seed"}}
	for i := range 1000 {
		spec.Array.Rows = append(spec.Array.Rows, []string{fmt.Sprint("0.", i), fmt.Sprint(i)})
	}
	spec.Default()
	apply(1, fsm.RegisterNode{Node: model.Node{Name: "n1", BootID: "b", Cores: 8, Memory: 64 * jobspec.GiB}})
	apply(2, fsm.SubmitJobs{Owner: model.Identity{UID: 1, User: "u1"}, Jobs: []*jobspec.Job{spec}})
	apply(3, fsm.CommitPlan{Actions: []fsm.Action{&fsm.StartJob{Job: 1, TaskNumber: 8,
		Places: []model.Place{{Node: "n1"}}}}})
	v := s.View()
	got := Alloc(v, state.DesiredWorker{Job: v.Job(9)})
	want := map[string]string{"lr": "0.7", "seed": "7"}
	if p := got.Array; p == nil || *p.Index != 7 || p.Size != 1000 || p.Job != 1 || !reflect.DeepEqual(p.Params, want) {
		t.Errorf("its place is %+v", got.Array)
	}
	if len(got.Spec.Array.Rows) != 0 || len(v.Job(1).Spec.Array.Rows) != 1000 {
		t.Errorf("%d rows are sent, %d are kept", len(got.Spec.Array.Rows), len(v.Job(1).Spec.Array.Rows))
	}
}

// TestAllocOfWholeNodes: workers that have a node for themselves divide all its cores and memory, in
// their limits and in what their leading task is told, on each node what it has.
func TestAllocOfWholeNodes(t *testing.T) {
	m := fsm.New(cluster.DefaultConfig())
	apply := func(index uint64, c fsm.Command) {
		t.Helper()
		if _, err := m.Apply(index, fsm.Entry{Stamp: model.Stamp{At: 1000}, Command: c}); err != nil {
			t.Fatalf("%s: %v", c.Kind(), err)
		}
	}
	task := func(name string, cores int) jobspec.Task {
		return jobspec.Task{Name: name, Command: []string{"true"}, Resources: jobspec.Resources{Cores: cores}}
	}
	helper := task("helper", 1)
	helper.Lifecycle = &jobspec.Lifecycle{Hook: "prestart", Sidecar: true}
	spec := &jobspec.Job{Name: "whole", Groups: []jobspec.Group{{Count: 3, MaxWorkersPerNode: 2, Exclusive: true,
		Tasks: []jobspec.Task{helper, task("main", 2)}}}}
	spec.Default()
	if got := spec.Groups[0].Tasks[1].Resources.Memory; got != 4*jobspec.GiB {
		t.Errorf("a node needs %v for a task that gets all of its memory", got)
	}
	apply(1, fsm.RegisterNode{Node: model.Node{Name: "n1", BootID: "b", Cores: 17, Memory: 64 * jobspec.GiB}})
	apply(2, fsm.RegisterNode{Node: model.Node{Name: "n2", BootID: "b", Cores: 6, Memory: 40 * jobspec.GiB}})
	apply(3, fsm.SubmitJobs{Owner: model.Identity{UID: 1, User: "u1"}, Jobs: []*jobspec.Job{spec}})
	apply(4, fsm.CommitPlan{Actions: []fsm.Action{&fsm.StartJob{Job: 1,
		Places: []model.Place{{Node: "n1"}, {Node: "n1"}, {Node: "n2"}}}}})
	v := m.View()
	for worker, want := range []struct {
		cores            int64
		memory, shm, tmp jobspec.Bytes
	}{{9, 32, 14, 14}, {8, 32, 14, 14}, {6, 40, 18, 18}} {
		got := Alloc(v, state.DesiredWorker{Job: v.Job(1), Worker: worker})
		r := got.Request
		if r.Active.Cores != want.cores || r.Active.Memory != want.memory*jobspec.GiB ||
			r.Resident.Memory != r.Active.Memory {
			t.Errorf("worker %d holds %+v, want %+v", worker, r, want)
		}
		tasks := got.Spec.Groups[0].Tasks
		if main := tasks[1].Resources; int64(main.Cores) != want.cores-1 || main.Memory != (want.memory-4)*jobspec.GiB ||
			main.Shm != want.shm*jobspec.GiB || main.Tmp != want.tmp*jobspec.GiB {
			t.Errorf("the main task of worker %d is told %+v, want %+v", worker, main, want)
		}
		if tasks[0].Resources.Cores != 1 || tasks[0].Resources.Memory != 4*jobspec.GiB {
			t.Errorf("the sidecar of worker %d is told %+v", worker, tasks[0].Resources)
		}
	}
	if kept := v.Job(1).Spec.Groups[0].Tasks[1].Resources; kept.Cores != 2 || kept.Memory != 4*jobspec.GiB {
		t.Errorf("the job's own specification became %+v", kept)
	}
}

func TestLeaseGraceEndsWithinTheMargin(t *testing.T) {
	for margin, want := range map[int64]int64{30_000: 10_000, 12_000: 6_000, 1_000: 500, 0: 1} {
		if got := leaseGrace(&cluster.Config{MarginMS: margin}); got != want {
			t.Errorf("margin %d ms: %d, want %d", margin, got, want)
		}
	}
}

// TestCapacity notices a job that has its nodes for itself and is shown with what it has asked for, or with
// a node's cores once for each worker there.
func TestCapacity(t *testing.T) {
	ask := model.Request{Active: model.VectorOf(1, int64(jobspec.GiB), 2000)}
	node := model.VectorOf(8, int64(64*jobspec.GiB), 4000)
	at := func(name string, whole model.Vector) model.Worker {
		w := model.Worker{Whole: whole}
		w.Node = name
		return w
	}
	shared := []model.Worker{at("a", model.Vector{}), at("b", model.Vector{})}
	whole := []model.Worker{at("a", node), at("a", node), at("b", node)}
	for name, c := range map[string]struct {
		state   model.JobState
		workers []model.Worker
		want    model.Vector
	}{
		"pending":         {model.Pending, whole, model.VectorOf(3, int64(3*jobspec.GiB), 6000)},
		"on shared nodes": {model.Running, shared, model.VectorOf(2, int64(2*jobspec.GiB), 4000)},
		"on whole nodes":  {model.Running, whole, model.VectorOf(16, int64(128*jobspec.GiB), 6000)},
		"ended":           {model.Completed, whole, model.VectorOf(16, int64(128*jobspec.GiB), 6000)},
	} {
		j := &model.Job{Spec: &jobspec.Job{}, State: c.state, Request: ask, Workers: len(c.workers),
			Attempts: []model.Attempt{{N: 1, Workers: c.workers}}}
		if got := capacity(j); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
