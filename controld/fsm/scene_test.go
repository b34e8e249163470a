package fsm

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// TestScene keeps the snapshot in which the tests of package state plant breaches: a small cluster
// in which everything that is checked is there.
func TestScene(t *testing.T) {
	const file = "state/testdata/scene.jsonl"
	w := newWorld(t)
	w.must(SetConfig{Config: cluster.DefaultConfig()})
	for _, n := range []string{"n1", "n2", "n3"} {
		w.node(n, 8)
	}
	named := func(name string, edit func(*jobspec.Job)) func(*jobspec.Job) {
		return func(j *jobspec.Job) { j.Name = name; edit(j) }
	}
	run := w.running(2, []string{"n1", "n2"}, named("run", func(j *jobspec.Job) { j.TimeLimit = 3600 }))
	ended := w.running(1, []string{"n2"}, named("ended", func(*jobspec.Job) {}))
	w.wait(10)
	w.report(ended, 0, model.WorkerExited)
	submit := func(edit func(*jobspec.Job)) model.JobID {
		spec := testSpec(1, 1)
		edit(spec)
		return w.must(SubmitJobs{Owner: alice, Key: fmt.Sprint("k", w.index), Digest: "d",
			Jobs: []*jobspec.Job{spec}}).([]model.JobID)[0]
	}
	array := submit(named("array", func(j *jobspec.Job) { j.Array = &jobspec.Array{Indices: "0-3"} }))
	w.ok(w.plan(&StartJob{Job: array, TaskNumber: 1, Places: []model.Place{w.place("n3", 1)}}))
	submit(named("follows", func(j *jobspec.Job) {
		j.Dependencies = []jobspec.Dependency{{Type: "afterok", Jobs: []string{fmt.Sprint(run)}}}
	}))
	waiting := submit(named("waiting", func(j *jobspec.Job) {
		j.Deadline = "2030-01-01T00:00:00Z"
		j.Groups[0].Tasks[0].Command, j.Groups[0].Tasks[0].Script = nil, "#!/bin/sh\ntrue\n"
		j.Nodes = []string{"n3"}
	}))
	w.must(CommitPlan{Actions: []Action{&Reserve{Job: waiting,
		Claims: []model.Claim{{Node: "n3", Resources: model.Vector{GPUs: 1000}}}, Until: 1 << 40}}})
	if *update {
		w.ok(os.WriteFile(file, w.snapshot(), 0o644))
	}
	if want, err := os.ReadFile(file); err != nil || !bytes.Equal(want, w.snapshot()) {
		t.Errorf("%s is not the snapshot of the scene: run make golden (%v)", file, err)
	}
}

// TestAuditorBeginsAnywhere: an auditor of a state that has a past, and of which some has been
// forgotten, finds nothing to blame in what follows.
func TestAuditorBeginsAnywhere(t *testing.T) {
	for _, seed := range seeds() {
		c := &chaos{Rand: rand.New(rand.NewPCG(seed, 9)), s: New(cluster.DefaultConfig()), at: 1, seen: map[string]int{}}
		var a *state.Auditor
		for i := uint64(1); i <= 3000; i++ {
			if c.one(200) {
				a = audited(t, c.s)
			}
			e := c.next()
			_, _ = c.s.Apply(i, e)
			if a == nil {
				continue
			}
			if bad := a.Check(); bad != nil {
				t.Fatalf("seed %d, entry %d, %s %+v: %v", seed, i, e.Command.Kind(), e.Command, bad)
			}
		}
	}
}
