package fsm

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// Equal conditions have one text, whatever their order and level.
func TestWhereIsCanonical(t *testing.T) {
	a := jobspec.Constraint{Attribute: "node.cores", Operator: ">=", Value: "8"}
	b := jobspec.Constraint{Attribute: "node.label.rack", Operator: "in", Values: []string{"b", "a", "b"}}
	b2 := jobspec.Constraint{Attribute: "${node.label.rack}", Operator: "in", Values: []string{"a", "b"}}
	one := &jobspec.Job{Constraints: []jobspec.Constraint{a, b}, Features: []string{"ib"}, Nodes: []string{"n[1-3]"}}
	two := &jobspec.Job{Constraints: []jobspec.Constraint{b2}, Features: []string{"ib", "ib"}, Nodes: []string{"n[1-3]"}}
	first, second := model.WhereOf(one, &jobspec.Group{}),
		model.WhereOf(two, &jobspec.Group{Constraints: []jobspec.Constraint{a}})
	if first != second || strings.Count(first, "\n") != 3 {
		t.Errorf("got\n%s\nand\n%s", first, second)
	}
	if model.WhereOf(&jobspec.Job{}, &jobspec.Group{}) != "" || model.PreferOf(&jobspec.Job{}, &jobspec.Group{}) != "" {
		t.Error("nothing is said, but it has a text")
	}
	saved := model.WhereOf(&jobspec.Job{Checkpoint: &jobspec.Checkpoint{Criu: true}}, &jobspec.Group{})
	if asked := model.WhereOf(&jobspec.Job{Features: []string{"criu"}}, &jobspec.Group{}); saved != asked {
		t.Errorf("a job that is saved by CRIU runs on nodes with\n%s\nand not with\n%s", saved, asked)
	}
	if model.WhereOf(&jobspec.Job{Checkpoint: &jobspec.Checkpoint{}}, &jobspec.Group{}) != "" {
		t.Error("a job that saves its own state needs no CRIU")
	}
}

// whereJob asks for nodes in a random way.
func whereJob(r *rand.Rand) *jobspec.Job {
	spec := testSpec(1+r.IntN(2), r.IntN(2))
	label := jobspec.Constraint{Attribute: "node.label.rack", Value: fmt.Sprint(r.IntN(3))}
	cores := jobspec.Constraint{Attribute: "node.cores", Operator: ">", Value: fmt.Sprint(r.IntN(40))}
	switch r.IntN(5) {
	case 0:
		spec.Constraints = []jobspec.Constraint{label}
	case 1:
		spec.Groups[0].Constraints = []jobspec.Constraint{cores, label}
	case 2:
		spec.Affinities = []jobspec.Affinity{{Constraint: cores, Weight: 5}, {Constraint: label, Weight: -7}}
	case 3:
		spec.Nodes = []string{fmt.Sprintf("n[%d-%d]", r.IntN(3), 3+r.IntN(4))}
	}
	spec.Groups[0].Exclusive = r.IntN(4) == 0
	if r.IntN(4) == 0 {
		spec.GangScope = model.GangScopeJob
		spec.Groups[0].Name = "a"
		b := spec.Groups[0]
		b.Name, b.Count, b.Constraints = "b", 1+r.IntN(2), []jobspec.Constraint{cores}
		spec.Groups = append(spec.Groups, b)
	}
	return spec
}

// Nodes come, change and go down while jobs with conditions wait, run and end. Every invariant
// holds after each step, also in forks and in restored states. A job never runs on a node that does
// not match.
func TestWhereFollowsNodes(t *testing.T) {
	for _, seed := range seeds() {
		r := rand.New(rand.NewPCG(seed, 7))
		w := newWorld(t)
		refused, started := 0, 0
		for range 600 {
			w.wait(1)
			switch n := r.IntN(10); {
			case n < 2:
				node := testNode(fmt.Sprintf("n%d", r.IntN(8)), 4)
				node.Cores, node.PortMax = int64(32+r.IntN(3)*8), 20100
				node.Labels = map[string]string{"rack": fmt.Sprint(r.IntN(3))}
				_, _ = w.apply(RegisterNode{Node: node})
			case n < 5:
				_, _ = w.apply(SubmitJobs{Owner: alice, Jobs: []*jobspec.Job{whereJob(r)}})
			case n < 8:
				if err, tried := w.startAnywhere(r); err != nil {
					refused++
				} else if tried {
					started++
				}
			default:
				w.endSome(r)
			}
		}
		if started < 20 || refused < 20 {
			t.Errorf("seed %d: %d started and %d refused prove too little", seed, started, refused)
		}
		copied, err := ReadSnapshot(strings.NewReader(string(w.snapshot())))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if bad := copied.Check(); bad != nil {
			t.Fatalf("seed %d: read back: %v", seed, bad)
		}
		if bad := Fork(w.s.View()).Check(); bad != nil {
			t.Fatalf("seed %d: fork: %v", seed, bad)
		}
	}
}

// startAnywhere tries to start a waiting job on random nodes, and says whether there was one.
func (w *world) startAnywhere(r *rand.Rand) (error, bool) {
	var waiting []*model.Job
	for g := range w.s.View().QueueGroups() {
		waiting = append(waiting, g.Jobs...)
	}
	nodes := w.s.View().Nodes()
	if len(waiting) == 0 || len(nodes) == 0 {
		return nil, false
	}
	slices.SortFunc(waiting, func(a, b *model.Job) int { return int(a.ID - b.ID) })
	j := waiting[r.IntN(len(waiting))]
	c, taken := &StartJob{Job: j.ID}, map[string][]int{}
	for i := range j.Workers {
		n := nodes[r.IntN(len(nodes))]
		place := w.place(n.Name, int(j.RequestOf(i).Active.GPUs/1000))
		if len(j.Parts) > 0 {
			place.Port, _ = w.s.View().FreePort(n.Name, taken[n.Name]...)
			taken[n.Name] = append(taken[n.Name], place.Port)
		}
		c.Places = append(c.Places, place)
	}
	c.Port, _ = w.s.View().FreePort(c.Places[0].Node, taken[c.Places[0].Node]...)
	result, _ := w.apply(CommitPlan{Actions: []Action{c}})
	if err := result.([]error)[0]; err != nil {
		return err, true
	}
	shapes := append([]model.Shape{model.ShapeOf(j)}, model.MoreParts(j)...)
	for i, p := range c.Places {
		part, _ := j.PartOf(i)
		_, at := w.s.View().Node(p.Node)
		if nodes := w.s.View().EligibleNodes(shapes[part].Constraints); nodes != nil && nodes[at/64]&(1<<(at%64)) == 0 {
			w.t.Fatalf("job %d worker %d runs on %s, which it does not want: %s", j.ID, i, p.Node, shapes[part].Constraints)
		}
	}
	return nil, true
}

// endSome ends some workers of a random job.
func (w *world) endSome(r *rand.Rand) {
	var live []*model.Job
	for j := range w.s.View().Live() {
		live = append(live, j)
	}
	if len(live) == 0 {
		return
	}
	j := live[r.IntN(len(live))]
	for i := range j.Live().Workers {
		if a := w.job(j.ID).Live(); a != nil && !a.Workers[i].State.Final() && r.IntN(3) > 0 {
			w.report(j.ID, i, model.WorkerExited)
		}
	}
}

// A worker that has its node for itself is charged for all of it, once for several workers, until
// the last has left.
func TestWholeNodeIsCharged(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 4)
	spec := testSpec(2, 1)
	spec.Groups[0].Exclusive, spec.Groups[0].MaxWorkersPerNode = true, 2
	id := w.must(SubmitJobs{Owner: alice, Jobs: []*jobspec.Job{spec}}).([]model.JobID)[0]
	other := w.submit(1, 1)
	w.ok(w.plan(&StartJob{Job: id, Port: 20000, Places: []model.Place{{Node: "n1", GPUs: []int{0}},
		{Node: "n1", GPUs: []int{1}}}}))
	if err := w.start(other, "n1"); err == nil {
		t.Fatal("another job got in")
	}
	w.wait(10)
	w.report(id, 0, model.WorkerExited)
	if err := w.start(other, "n1"); err == nil {
		t.Fatal("another job got in while one worker was left")
	}
	w.wait(20)
	w.report(id, 1, model.WorkerExited)
	if got, want := w.job(id).Ledger, (model.Ledger{GPUMS: 30_000 * 4, CoreMS: 30_000 * 32}); got != want {
		t.Errorf("charged %+v, want %+v", got, want)
	}
	w.ok(w.start(other, "n1"))
}

// A worker needs the most that its tasks need at any one time.
func TestGroupRequest(t *testing.T) {
	task := func(cores, gpus int, hook string, sidecar bool) jobspec.Task {
		task := jobspec.Task{Resources: jobspec.Resources{Cores: cores, GPUs: gpus,
			Memory: jobspec.Bytes(cores) * jobspec.GiB}}
		if hook != "" {
			task.Lifecycle = &jobspec.Lifecycle{Hook: hook, Sidecar: sidecar}
		}
		return task
	}
	tests := []struct {
		name        string
		tasks       []jobspec.Task
		cores, gpus int64
	}{
		{"one", []jobspec.Task{task(4, 2, "", false)}, 4, 2},
		{"two main tasks", []jobspec.Task{task(4, 2, "", false), task(2, 1, "", false)}, 6, 3},
		{"sidecars", []jobspec.Task{task(4, 2, "", false), task(1, 0, "poststart", true), task(2, 0, "prestart", true)}, 7,
			2},
		{"small prestart", []jobspec.Task{task(4, 2, "", false), task(3, 0, "prestart", false)}, 4, 2},
		{"large prestart beside its sidecar", []jobspec.Task{task(4, 2, "", false), task(8, 0, "prestart", false),
			task(1, 0, "prestart", true)}, 9, 2},
		{"poststart runs with the main task", []jobspec.Task{task(4, 2, "", false), task(3, 0, "poststart", false)}, 7, 2},
		{"large poststop", []jobspec.Task{task(4, 2, "", false), task(5, 0, "poststop", false),
			task(1, 4, "poststop", false)}, 5, 4},
	}
	for _, test := range tests {
		got := model.GroupRequest(&jobspec.Group{Tasks: test.tasks})
		if got.Active.Cores != test.cores || got.Active.GPUs != test.gpus*1000 ||
			got.Resident.Memory != jobspec.Bytes(test.cores)*jobspec.GiB {
			t.Errorf("%s: got %+v", test.name, got)
		}
	}
}

func TestUnmet(t *testing.T) {
	w := newWorld(t)
	for i := range 9 {
		n := testNode(fmt.Sprint("n", i), 2)
		n.Labels = map[string]string{"rack": fmt.Sprint(i % 2)}
		for g := range n.GPUs {
			n.GPUs[g].Model = "H100"
			if i == 8 {
				n.GPUs[g].Model = "A100"
			}
		}
		w.must(RegisterNode{Node: n})
	}
	ask := func(edit func(*jobspec.Job)) string {
		spec := testSpec(1, 1)
		edit(spec)
		ok, why := w.s.View().NearestFit(model.ShapesOf(spec, "")[0])
		if ok {
			return ""
		}
		return why.Sentence()
	}
	const never = "no node of the cluster can run it, even if empty: "
	for _, test := range []struct {
		edit func(*jobspec.Job)
		want string
	}{
		{func(j *jobspec.Job) { j.Groups[0].Tasks[0].Resources.GPU = &jobspec.GPU{Model: "h100"} }, ""},
		{
			func(j *jobspec.Job) { j.Groups[0].Tasks[0].Resources.GPU = &jobspec.GPU{Model: "H200*"} },
			never + "no node has gpu.model H200*; there are H100 (8 nodes), A100 (1 node)",
		},
		{func(j *jobspec.Job) { j.Nodes = []string{"x[1-2]"} }, never + "none of its nodes is in the cluster: x[1-2]"},
		{func(j *jobspec.Job) { j.ExcludeNodes = []string{"n[0-8]"} }, never + "it excludes all nodes: n[0-8]"},
		{func(j *jobspec.Job) { j.Features = []string{"ib"} }, never + "no node has label.ib"},
		{
			func(j *jobspec.Job) {
				j.Groups[0].Tasks[0].Resources.GPU = &jobspec.GPU{Model: "A100"}
				j.Constraints = []jobspec.Constraint{{Attribute: "node.label.rack", Value: "1"}}
			},
			never + "4 nodes meet all but gpu.model A100",
		},
	} {
		if got := ask(test.edit); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

// There is room for a bounded number of different conditions. A condition that no job has any more
// makes room again, and replicas that remember different conditions agree.
func TestTooManyConditions(t *testing.T) {
	s := New(cluster.DefaultConfig())
	index := uint64(0)
	apply := func(c Command) (any, error) {
		index++
		return s.Apply(index, Entry{Stamp: model.Stamp{At: 1, Wall: 1}, Command: c})
	}
	submit := func(first, n int) ([]model.JobID, error) {
		c := SubmitJobs{Owner: alice}
		for i := range n {
			spec := testSpec(1, 0)
			spec.Nodes = []string{fmt.Sprint("n", first+i)}
			c.Jobs = append(c.Jobs, spec)
		}
		ids, err := apply(c)
		if err != nil {
			return nil, err
		}
		return ids.([]model.JobID), nil
	}
	first, err := submit(0, 8192)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := submit(8192, 8192); err != nil {
		t.Fatal(err)
	}
	var full *model.LimitError
	if _, err := submit(16384, 1); !errors.As(err, &full) {
		t.Fatalf("one more: %v", err)
	}
	if _, err := submit(5, 1); err != nil {
		t.Fatalf("one that is known: %v", err)
	}
	if _, err := apply(ControlJobs{Verb: model.VerbCancel, Targets: targets(first[0]), By: alice.UID}); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := s.View().WriteSnapshot(&b); err != nil {
		t.Fatal(err)
	}
	copied, err := ReadSnapshot(strings.NewReader(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	for name, state := range map[string]*Machine{"itself": s, "a copy": copied} {
		s, index = state, 100
		if _, err := submit(16384, 1); err != nil {
			t.Fatalf("%s: one more after one has gone: %v", name, err)
		}
		if _, err := submit(0, 1); !errors.As(err, &full) {
			t.Fatalf("%s: what has gone, when it is full again: %v", name, err)
		}
	}
}

// The limits of trial-and-error jobs hold for all parts of a gang together.
func TestTrialOfParts(t *testing.T) {
	w := newWorld(t)
	spec := testSpec(2, 4)
	spec.Class, spec.GangScope = jobspec.TE, model.GangScopeJob
	spec.Groups[0].Name = "a"
	b := spec.Groups[0]
	b.Name = "b"
	spec.Groups = append(spec.Groups, b)
	submit := func() error {
		_, err := w.apply(SubmitJobs{Owner: alice, Jobs: []*jobspec.Job{spec}})
		return err
	}
	w.ok(submit())
	spec.Groups[1].Count = 3
	var limit *model.LimitError
	if err := submit(); !errors.As(err, &limit) || limit.Asked != 20 {
		t.Errorf("20 GPUs in two groups: %v", err)
	}
}
