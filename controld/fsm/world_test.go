package fsm

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// world drives a state as the log does, and checks every invariant after each command.
type world struct {
	t     testing.TB
	s     *Machine
	index uint64
	at    model.Instant
	log   []Entry

	auditor *state.Auditor // of audited
	audited *Machine
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return &world{t: t, s: New(requeueing()), at: 1000}
}

// requeueing is a configuration under which jobs do not wait for lost nodes, however few nodes there are.
func requeueing() cluster.Config {
	c := cluster.DefaultConfig()
	q := c.Queues[model.DefaultQueue]
	q.OnNodeLost = jobspec.NodeLossRequeue
	c.Queues[model.DefaultQueue] = q
	return c
}

// apply proposes a command and returns what became of it.
func (w *world) apply(c Command) (any, error) {
	w.t.Helper()
	w.index++
	e := Entry{Stamp: model.Stamp{At: w.at, Wall: model.UnixMS(w.at) + 1_700_000_000_000}, Command: c}
	w.log = append(w.log, e)
	w.audit()
	got, err := w.s.Apply(w.index, e)
	if bad := unlisted(c.Kind(), got, err); bad != nil {
		w.t.Errorf("%s: the table of commands has no refusal like: %v", c.Kind(), bad)
	}
	if bad := w.s.Check(); bad != nil {
		w.t.Fatalf("after entry %d, %s: %v", w.index, c.Kind(), bad)
	}
	if bad := w.auditor.Check(); bad != nil {
		w.t.Fatalf("after entry %d, %s, the auditor says: %v", w.index, c.Kind(), bad)
	}
	return got, err
}

// audit begins to audit a state that is new here.
func (w *world) audit() {
	w.t.Helper()
	if w.audited == w.s {
		return
	}
	auditor, err := w.s.Audit()
	if err != nil {
		w.t.Fatalf("before entry %d: %v", w.index, err)
	}
	w.auditor, w.audited = auditor, w.s
}

// audited begins to audit a sound state.
func audited(t testing.TB, s *Machine) *state.Auditor {
	t.Helper()
	a, err := s.Audit()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (w *world) must(c Command) any {
	w.t.Helper()
	got, err := w.apply(c)
	if err != nil {
		w.t.Fatalf("%s: %v", c.Kind(), err)
	}
	return got
}

func (w *world) wait(d jobspec.Seconds) { w.at += model.Instant(d) * 1000 }

func testNode(name string, gpus int) model.Node {
	n := model.Node{Name: name, Addr: name + ":1", BootID: "b1", Machine: "m-" + name, Cores: 32,
		Memory: 256 * jobspec.GiB, PortMin: 20000, PortMax: 20003, Suspends: true}
	for i := range gpus {
		n.GPUs = append(n.GPUs, model.GPU{UUID: fmt.Sprintf("%s-%d", name, i), Memory: 80 * jobspec.GiB, Healthy: true})
	}
	return n
}

func (w *world) node(name string, gpus int) {
	w.t.Helper()
	w.must(RegisterNode{Node: testNode(name, gpus)})
}

func testSpec(workers, gpus int) *jobspec.Job {
	return &jobspec.Job{Name: "j", Groups: []jobspec.Group{{Count: workers, Tasks: []jobspec.Task{{
		Command: []string{"true"}, Resources: jobspec.Resources{Cores: 4, Memory: 8 * jobspec.GiB, GPUs: gpus},
	}}}}}
}

var alice = model.Identity{UID: 1000, GID: 1000, User: "alice"}

// submit adds one job and returns its id; edit may change what is asked for.
func (w *world) submit(workers, gpus int, edit ...func(*jobspec.Job)) model.JobID {
	w.t.Helper()
	spec := testSpec(workers, gpus)
	for _, e := range edit {
		e(spec)
	}
	return w.must(SubmitJobs{Owner: alice, Jobs: []*jobspec.Job{spec}}).([]model.JobID)[0]
}

// place returns a place with the lowest free GPUs of a node.
func (w *world) place(node string, gpus int) model.Place {
	_, i := w.s.v.Node(node)
	p := model.Place{Node: node}
	for g, mask := 0, w.s.v.Grid().FreeGPUs(i); g < 64 && len(p.GPUs) < gpus; g++ {
		if mask&(1<<g) != 0 {
			p.GPUs = append(p.GPUs, g)
		}
	}
	return p
}

// start puts a job's workers on nodes, one on each.
func (w *world) start(id model.JobID, nodes ...string) error {
	w.t.Helper()
	c := &StartJob{Job: id}
	for _, n := range nodes {
		c.Places = append(c.Places, w.place(n, int(w.job(id).Request.Active.GPUs/1000)))
	}
	c.Port, _ = w.s.v.FreePort(nodes[0])
	return w.plan(c)
}

// plan commits one action and returns its refusal.
func (w *world) plan(a Action) error {
	w.t.Helper()
	return w.must(CommitPlan{Actions: []Action{a}}).([]error)[0]
}

func (w *world) job(id model.JobID) *model.Job { return w.s.v.Job(id) }

// report says how far one worker of a job's attempt has come.
func (w *world) report(id model.JobID, worker int, state model.WorkerState, edit ...func(*model.WorkerReport)) {
	w.t.Helper()
	j := w.job(id)
	a := j.Attempts[len(j.Attempts)-1]
	r := model.WorkerReport{Job: id, Attempt: a.N, Worker: worker, State: state, Joined: a.Workers[worker].Joined}
	for _, e := range edit {
		e(&r)
	}
	n, _ := w.s.v.Node(a.Workers[worker].Node)
	w.must(NodeReport{Node: n.Name, BootID: n.BootID, Workers: []model.WorkerReport{r}})
}

func code(n int) func(*model.WorkerReport)   { return func(r *model.WorkerReport) { r.ExitCode = n } }
func signal(n int) func(*model.WorkerReport) { return func(r *model.WorkerReport) { r.Signal = n } }

// run brings all workers of a started job to running.
func (w *world) run(id model.JobID) {
	w.t.Helper()
	for _, state := range []model.WorkerState{model.WorkerCreated, model.WorkerRunning} {
		for i := range w.job(id).Workers {
			w.report(id, i, state)
		}
	}
	w.state(id, model.Running)
}

// running submits a job and brings it to running on nodes.
func (w *world) running(gpus int, nodes []string, edit ...func(*jobspec.Job)) model.JobID {
	w.t.Helper()
	id := w.submit(len(nodes), gpus, edit...)
	w.ok(w.start(id, nodes...))
	w.run(id)
	return id
}

func (w *world) state(id model.JobID, want model.JobState) {
	w.t.Helper()
	if j := w.job(id); j.State != want {
		w.t.Fatalf("job %d is in state %s (%+v), want %s", id, j.State, j.Reason, want)
	}
}

// cause says how the last attempt must have ended.
func (w *world) cause(id model.JobID, want model.Cause) {
	w.t.Helper()
	j := w.job(id)
	if a := j.Attempts[len(j.Attempts)-1]; a.Cause != want || a.Ended.At == 0 {
		w.t.Fatalf("job %d attempt %d ended at %d with cause %q, want %q", id, a.N, a.Ended.At, a.Cause, want)
	}
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) refused(err, want error) {
	w.t.Helper()
	if !errors.Is(err, want) {
		w.t.Fatalf("got %v, want %v", err, want)
	}
}

// targets are whole jobs by id.
func targets(ids ...model.JobID) []Target {
	list := make([]Target, len(ids))
	for i, id := range ids {
		list[i].ID = id
	}
	return list
}

func (w *world) control(verb model.Verb, by uint32, admin bool, ids ...model.JobID) error {
	w.t.Helper()
	res := w.must(ControlJobs{Verb: verb, Targets: targets(ids...), By: by, Admin: admin,
		Reason: "told so"}).([]model.ControlResult)
	return res[0].Err
}

// snapshot returns the snapshot of the present state.
func (w *world) snapshot() []byte { return snapshotOf(w.t, w.s.View()) }

func snapshotOf(t testing.TB, v *state.View) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := v.WriteSnapshot(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// workerOf returns the worker that a row of a node's report is about, nil if it is none of a live attempt.
func workerOf(s *Machine, node string, r *model.WorkerReport) *model.Worker {
	j := s.v.Job(r.Job)
	if j == nil || j.Live() == nil || j.Live().N != r.Attempt || r.Worker < 0 || r.Worker >= len(j.Live().Workers) {
		return nil
	}
	w := &j.Live().Workers[r.Worker]
	if w.Node != node || w.Joined != r.Joined {
		return nil
	}
	return w
}
