package fsm

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// elastic makes the workers of a job's first group between min and max.
func elastic(low, high int, edit ...func(*jobspec.Elastic)) func(*jobspec.Job) {
	return func(j *jobspec.Job) {
		e := &jobspec.Elastic{Min: low, Max: high}
		for _, f := range edit {
			f(e)
		}
		j.Groups[0].Count, j.Groups[0].Elastic = 0, e
	}
}

// submit3 adds one job with submit-jobs/3 and returns its id.
func (w *world) submit3(gpus int, edit ...func(*jobspec.Job)) model.JobID {
	w.t.Helper()
	spec := testSpec(1, gpus)
	for _, e := range edit {
		e(spec)
	}
	return w.must(SubmitJobs{Owner: alice, Jobs: []*jobspec.Job{spec}}).([]model.JobID)[0]
}

// stretch brings an elastic job to running on nodes, one worker on each.
func (w *world) stretch(gpus int, nodes []string, edit ...func(*jobspec.Job)) model.JobID {
	w.t.Helper()
	id := w.submit3(gpus, edit...)
	w.ok(w.start(id, nodes...))
	w.run(id)
	return id
}

// resize commits a resize of a job's live attempt: some workers leave, others join on nodes.
func (w *world) resize(id model.JobID, leave []int, nodes ...string) error {
	w.t.Helper()
	j := w.job(id)
	r := &ResizeJob{Job: id, Attempt: j.Attempt, Leave: leave}
	for _, n := range nodes {
		r.Join = append(r.Join, w.place(n, int(j.Request.Active.GPUs/1000)))
	}
	return w.plan(r)
}

// leaves has a worker exit as one that has saved when it was asked to.
func (w *world) leaves(id model.JobID, workers ...int) {
	w.t.Helper()
	for _, i := range workers {
		w.report(id, i, model.WorkerExited, code(85))
	}
}

// on says where the live attempt of a job must be.
func (w *world) on(id model.JobID, nodes ...string) {
	w.t.Helper()
	j := w.job(id)
	a := j.Live()
	if a == nil {
		w.t.Fatalf("job %d does not run but is in state %s", id, j.State)
		return
	}
	var got []string
	for i := range a.Workers {
		got = append(got, a.Workers[i].Node)
	}
	if !slices.Equal(got, nodes) || j.Workers != len(nodes) {
		w.t.Fatalf("job %d has %d workers on %v, want %v", id, j.Workers, got, nodes)
	}
}

func (w *world) free(node string) int64 {
	_, i := w.s.v.Node(node)
	return w.s.v.Grid().Free(i).GPUs / model.WholeGPU
}

func (w *world) frees(node string, want int64) {
	w.t.Helper()
	if got := w.free(node); got != want {
		w.t.Fatalf("%d GPUs are free on %s, want %d", got, node, want)
	}
}

func elasticWorld(t *testing.T) *world {
	w := newWorld(t)
	cfg := cluster.DefaultConfig()
	w.must(SetConfig{Config: cfg})
	for _, n := range []string{"n1", "n2", "n3", "n4"} {
		w.node(n, 4)
	}
	return w
}

func TestElasticStarts(t *testing.T) {
	w := elasticWorld(t)
	id := w.submit3(2, elastic(2, 4, func(e *jobspec.Elastic) { e.MultipleOf = 2 }))
	if j := w.job(id); j.Workers != 2 || j.Size() != 2 || model.ShapeOf(j).Workers != 2 {
		t.Fatalf("it waits with %d workers, shape %+v", j.Workers, model.ShapeOf(j))
	}
	w.refused(w.start(id, "n1"), model.ErrWrongPlaces)
	w.refused(w.start(id, "n1", "n2", "n3"), model.ErrWrongPlaces)
	w.ok(w.start(id, "n1", "n2", "n3", "n4"))
	w.run(id)
	w.on(id, "n1", "n2", "n3", "n4")

	// A displaced job goes back to the queue as small as it may be.
	w.ok(w.plan(&StopJob{Job: id, Attempt: 1, Cause: model.CauseOrder}))
	w.leaves(id, 0, 1, 2, 3)
	w.state(id, model.Pending)
	if j := w.job(id); j.Workers != 2 || len(j.Attempts[0].Workers) != 4 || j.Ledger.GPUMS != 0 {
		t.Fatalf("it waits with %d workers: %+v", j.Workers, j.Ledger)
	}
	w.wait(1)
	w.ok(w.start(id, "n1", "n2"))
	w.on(id, "n1", "n2")
}

func TestShrink(t *testing.T) {
	w := elasticWorld(t)
	id := w.stretch(3, []string{"n1", "n2", "n3", "n4"}, elastic(1, 4))
	other := w.submit(2, 3)
	w.wait(5)
	w.ok(w.plan(&ResizeJob{Job: id, Attempt: 1, Leave: []int{0, 2}, For: other}))
	w.state(id, model.Completing)
	stop := w.job(id).Live().Stop
	if stop.Cause != model.CauseShrink || stop.Signal != "SIGTERM" || stop.KillAt != w.at+30_000 || stop.For != other {
		t.Fatalf("stopped with %+v", stop)
	}
	w.refused(w.resize(id, []int{1}), model.ErrStopping)
	w.refused(w.plan(&StopJob{Job: id, Attempt: 1, Cause: model.CauseShrink}), model.ErrStopping)

	w.wait(5)
	w.leaves(id, 0, 1)
	w.frees("n1", 4)
	w.frees("n2", 1) // kept for the next attempt
	if got := w.s.v.Desired("n2"); len(got) != 0 {
		t.Errorf("n2 is to run %+v, which has exited", got)
	}
	w.leaves(id, 2)
	w.frees("n3", 4)
	w.wait(5)
	w.leaves(id, 3)
	w.state(id, model.Configuring)
	w.on(id, "n2", "n4")
	w.cause2(id, 1, model.CauseShrink)
	w.frees("n2", 1)
	w.frees("n4", 1)
	j := w.job(id)
	if j.Counters != (model.Counters{Resizes: 1}) || len(j.Displaced) > 0 || j.Attempt != 2 || j.Live().MasterPort == 0 {
		t.Errorf("after the resize: %+v %v attempt %+v", j.Counters, j.Displaced, j.Live())
	}
	if want := int64(3 * (10_000 + 10_000 + 10_000 + 15_000)); j.Ledger.GPUMS != want {
		t.Errorf("charged %d ms of a GPU, want %d", j.Ledger.GPUMS, want)
	}
	w.ok(w.start(other, "n1", "n3"))
	w.run(id)
	w.leavesWell(id, 0, 1)
	w.state(id, model.Completed)
}

// cause2 says for what the attempt of a number must have ended.
func (w *world) cause2(id model.JobID, attempt int, want model.Cause) {
	w.t.Helper()
	if a := w.job(id).Attempts[attempt-1]; a.Cause != want || a.Ended.At == 0 {
		w.t.Fatalf("job %d attempt %d ended at %d with cause %q, want %q", id, attempt, a.Ended.At, a.Cause, want)
	}
}

func (w *world) leavesWell(id model.JobID, workers ...int) {
	w.t.Helper()
	for _, i := range workers {
		w.report(id, i, model.WorkerExited)
	}
}

func TestGrow(t *testing.T) {
	w := elasticWorld(t)
	id := w.stretch(3, []string{"n1"}, elastic(1, 4, func(e *jobspec.Elastic) { e.Step = 2 }))
	if e, ok := w.job(id).Elastic(); !ok || e.Step != 2 || e.Unit != 1 || e.Cooldown != 300_000 || e.GrowAfter != 60_000 {
		t.Fatalf("elastic: %+v", e)
	}
	w.ok(w.resize(id, nil, "n3", "n2"))
	w.frees("n2", 1)
	w.frees("n3", 1)
	blocked := w.submit(1, 2)
	var fit *model.FitError
	if err := w.plan(&StartJob{Job: blocked,
		Places: []model.Place{{Node: "n3", GPUs: []int{2, 3}}}}); !errors.As(err, &fit) {
		t.Fatalf("it starts in room that another is to grow into: %v", err)
	}
	if got := w.s.v.Desired("n3"); len(got) != 0 {
		t.Errorf("n3 is to run %+v already", got)
	}
	w.leaves(id, 0)
	w.on(id, "n1", "n3", "n2")
	w.cause2(id, 1, model.CauseGrow)
	w.run(id)
	w.ok(w.resize(id, []int{0}, "n4"))
	w.leaves(id, 2, 1, 0)
	w.on(id, "n3", "n2", "n4")
	w.cause2(id, 2, model.CauseMigrate)
	if c := w.job(id).Counters; c.Resizes != 1 || c.Migrations != 1 {
		t.Errorf("counted %+v", c)
	}
}

// TestResizeGivesWay has every stronger stop replace a resize: what was kept is free, and the clock
// goes on.
func TestResizeGivesWay(t *testing.T) {
	for name, stop := range map[string]func(*world, model.JobID) error{
		"te": func(w *world, id model.JobID) error {
			return w.plan(&StopJob{Job: id, Attempt: 1, Cause: model.CauseTE})
		},
		"cancel": func(w *world, id model.JobID) error { return w.control(model.VerbCancel, 1000, false, id) },
		"timeout": func(w *world, id model.JobID) error {
			return w.plan(&StopJob{Job: id, Attempt: 1, Cause: model.CauseTimeout})
		},
		"lease": func(w *world, id model.JobID) error {
			w.report(id, 1, model.WorkerExited, func(r *model.WorkerReport) { r.Lease = true })
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := elasticWorld(t)
			id := w.stretch(3, []string{"n1", "n2"}, elastic(1, 4))
			w.ok(w.resize(id, nil, "n3"))
			killAt := w.job(id).Live().Stop.KillAt
			w.leaves(id, 0)
			w.frees("n1", 1)
			w.wait(1)
			err := stop(w, id)
			if name == "timeout" { // grace is not part of the limit
				w.refused(err, model.ErrStopping)
				return
			}
			w.ok(err)
			w.frees("n1", 4)
			w.frees("n3", 4)
			if name == "lease" {
				w.state(id, model.Pending)
				return
			}
			if s := w.job(id).Live().Stop; s.Resize != nil || s.KillAt > killAt {
				t.Errorf("stopped with %+v", s)
			}
			w.leaves(id, 1)
			if j := w.job(id); j.Live() != nil || j.Counters.Resizes != 0 {
				t.Errorf("in state %s, %+v", j.State, j.Counters)
			}
		})
	}
}

// TestResizeWithoutItsPlaces has a job wait like others when it cannot go on where it was to.
func TestResizeWithoutItsPlaces(t *testing.T) {
	for name, lose := range map[string]func(*world){
		"drained": func(w *world) { w.must(SetNodeState{Node: "n3", State: model.NodeDrained}) },
		"down":    func(w *world) { w.must(SetNodeState{Node: "n3", State: model.NodeDown}) },
		"broken": func(w *world) {
			n := testNode("n3", 4)
			for i := range n.GPUs {
				n.GPUs[i].Healthy = false
			}
			w.must(RegisterNode{Node: n})
		},
		"booted": func(w *world) {
			n := testNode("n3", 1)
			n.BootID = "b2"
			w.must(RegisterNode{Node: n})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := elasticWorld(t)
			id := w.stretch(3, []string{"n1", "n2"}, elastic(1, 4))
			w.ok(w.resize(id, nil, "n3"))
			w.leaves(id, 0)
			lose(w)
			w.leaves(id, 1)
			w.state(id, model.Pending)
			if j := w.job(id); j.Workers != 1 || j.Counters.Resizes != 1 || j.Counters.NodeLosses != 0 {
				t.Errorf("it waits with %d workers, %+v", j.Workers, j.Counters)
			}
			w.frees("n1", 4)
			w.frees("n2", 4)
		})
	}
}

// TestResizeOfLostNode loses the node of a worker that has exited, and of one that has not.
func TestResizeOfLostNode(t *testing.T) {
	w := elasticWorld(t)
	id := w.stretch(3, []string{"n1", "n2", "n3"}, elastic(1, 4))
	w.ok(w.resize(id, []int{2}))
	w.leaves(id, 0)
	again := testNode("n1", 2)
	again.BootID = "b2"
	w.must(RegisterNode{Node: again}) // only its room was kept there
	if s := w.job(id).Live().Stop; s.Cause != model.CauseShrink || s.Resize != nil {
		t.Fatalf("stopped with %+v", s)
	}
	again = testNode("n2", 4)
	again.BootID = "b2"
	w.must(RegisterNode{Node: again})
	w.leaves(id, 2)
	w.state(id, model.Pending)
	if c := w.job(id).Counters; c.NodeLosses != 1 || c.Resizes != 0 {
		t.Errorf("counted %+v", c)
	}
}

func TestResizeOfOneThatEndsWell(t *testing.T) {
	w := elasticWorld(t)
	id := w.stretch(3, []string{"n1", "n2"}, elastic(1, 4))
	w.ok(w.resize(id, []int{0}))
	w.leavesWell(id, 0, 1)
	w.state(id, model.Completed)
	w.frees("n2", 4)

	// One that fails after it was asked to stop goes on: its end is what the stop has led to.
	id = w.stretch(3, []string{"n1", "n2"}, elastic(1, 4))
	w.ok(w.resize(id, []int{0}))
	w.wait(1)
	w.report(id, 0, model.WorkerExited, code(1))
	w.report(id, 1, model.WorkerExited, signal(9))
	w.on(id, "n2")
}

// TestResizeOfPart resizes the middle one of three groups that start together.
func TestResizeOfPart(t *testing.T) {
	w := elasticWorld(t)
	id := w.submit3(1, taskGroups("ps", "work", "eval"), func(j *jobspec.Job) {
		j.GangScope = model.GangScopeJob
		j.Groups[1].Count, j.Groups[1].Elastic = 0, &jobspec.Elastic{Min: 1, Max: 3}
		j.Groups[1].Tasks = []jobspec.Task{{Resources: jobspec.Resources{Cores: 2, GPUs: 2}}}
	})
	places := func(c *StartJob) error {
		c.Port = 20000
		for i := range c.Places {
			c.Places[i].Port = 20001 + i%3
		}
		return w.plan(c)
	}
	w.ok(places(&StartJob{Job: id, Places: []model.Place{w.place("n1", 1), w.place("n2", 2), w.place("n3", 2),
		w.place("n4", 1)}}))
	j := w.job(id)
	if e, ok := j.Elastic(); !ok || e.Part != 1 || e.First != 1 || e.Fixed != 2 || j.Size() != 2 || j.Workers != 4 ||
		j.Parts[1].Workers != 2 {
		t.Fatalf("elastic %+v, size %d of %d, parts %+v", e, j.Size(), j.Workers, j.Parts)
	}
	w.run(id)
	w.refused(w.plan(&ResizeJob{Job: id, Attempt: 1, Leave: []int{0}}), model.ErrBadSize)
	w.refused(w.plan(&ResizeJob{Job: id, Attempt: 1, Leave: []int{3}}), model.ErrBadSize)
	w.ok(w.plan(&ResizeJob{Job: id, Attempt: 1, Leave: []int{1},
		Join: []model.Place{w.place("n1", 2), w.place("n4", 2)}}))
	w.leaves(id, 3, 1, 0, 2)
	w.on(id, "n1", "n3", "n1", "n4", "n4")
	ports := map[[2]any]bool{}
	for _, x := range w.job(id).Live().Workers {
		if ports[[2]any{x.Node, x.Port}] || x.Port == 0 {
			t.Errorf("port %d of %s twice, or none", x.Port, x.Node)
		}
		ports[[2]any{x.Node, x.Port}] = true
	}
	w.run(id)
	w.ok(w.plan(&ResizeJob{Job: id, Attempt: 2, Leave: []int{1, 3}}))
	w.leaves(id, 0, 1, 2, 3, 4)
	w.on(id, "n1", "n1", "n4")
	if got := w.job(id).Total(); got.GPUs != 4000 {
		t.Errorf("in all %+v", got)
	}
}

func TestResizeRefusals(t *testing.T) {
	w := elasticWorld(t)
	id := w.stretch(2, []string{"n1", "n2"}, elastic(2, 4, func(e *jobspec.Elastic) { e.MultipleOf = 2 }))
	fixed := w.running(1, []string{"n3"})
	waiting, gone := w.submit3(1, elastic(1, 2)), w.submit(1, 1)
	w.ok(w.control(model.VerbCancel, 1000, false, gone))
	w.refused(w.resize(fixed, []int{0}), model.ErrNotElastic)
	w.refused(w.plan(&ResizeJob{Job: waiting, Attempt: 0, Leave: []int{0}}), model.ErrOldAttempt)
	w.refused(w.plan(&ResizeJob{Job: id, Attempt: 2, Leave: []int{0}}), model.ErrOldAttempt)
	w.refused(w.plan(&ResizeJob{Job: 999, Attempt: 1}), model.ErrNoJob)
	w.refused(w.resize(id, nil), model.ErrBadSize)
	w.refused(w.resize(id, []int{0}), model.ErrBadSize)                // below the fewest
	w.refused(w.resize(id, nil, "n3"), model.ErrBadSize)               // no multiple
	w.refused(w.resize(id, []int{1, 0}, "n3", "n4"), model.ErrBadSize) // out of order
	w.refused(w.resize(id, []int{2}, "n3"), model.ErrBadSize)          // no such worker
	w.refused(w.resize(id, nil, "n1", "n3"), model.ErrWrongPlaces)     // two on a node
	w.refused(w.plan(&ResizeJob{Job: id, Attempt: 1,
		Join: []model.Place{w.place("n3", 2), {Node: "n9", GPUs: []int{0, 1}}}}), model.ErrNoNode)
	w.refused(w.plan(&ResizeJob{Job: id, Attempt: 1, Leave: []int{0},
		Join: []model.Place{w.place("n3", 2)}, For: gone}), model.ErrNotWanted)
	w.ok(w.start(w.submit(1, 3), "n4"))
	var fit *model.FitError
	grow := &ResizeJob{Job: id, Attempt: 1, Join: []model.Place{w.place("n3", 2), {Node: "n4", GPUs: []int{2, 3}}}}
	if err := w.plan(grow); !errors.As(err, &fit) {
		t.Errorf("it grows into room that there is not: %v", err)
	}
	w.frees("n3", 3) // nothing was taken
	w.leavesWell(id, 0)
	w.refused(w.plan(grow), model.ErrWrongState)
}

// TestExclusiveResize has workers keep whole nodes to themselves while they are resized.
func TestExclusiveResize(t *testing.T) {
	w := elasticWorld(t)
	id := w.stretch(1, []string{"n1", "n2"}, elastic(1, 4),
		func(j *jobspec.Job) { j.Groups[0].Exclusive, j.Groups[0].MaxWorkersPerNode = true, 2 })
	w.ok(w.resize(id, []int{1}, "n1", "n3"))
	w.leaves(id, 0)
	small := w.submit(1, 1)
	for _, n := range []string{"n1", "n3"} {
		var fit *model.FitError
		if err := w.start(small, n); !errors.As(err, &fit) {
			t.Errorf("on %s: %v", n, err)
		}
	}
	w.wait(3)
	w.leaves(id, 1)
	w.on(id, "n1", "n1", "n3")
	w.ok(w.start(small, "n2"))
}

// TestResizeSurvivesRestore restores the state in the middle of a resize.
func TestResizeSurvivesRestore(t *testing.T) {
	w := elasticWorld(t)
	id := w.stretch(3, []string{"n1", "n2"}, elastic(1, 4))
	w.ok(w.resize(id, []int{1}, "n3", "n4"))
	w.leaves(id, 0)
	back, err := ReadSnapshot(bytes.NewReader(w.snapshot()))
	if err != nil {
		t.Fatal(err)
	}
	if err := back.Check(); err != nil {
		t.Fatal(err)
	}
	w.s = back
	w.frees("n1", 1)
	w.frees("n4", 1)
	w.leaves(id, 1)
	w.on(id, "n1", "n3", "n4")
}

func TestElasticSpecs(t *testing.T) {
	w := elasticWorld(t)
	for want, edit := range map[string]func(*jobspec.Job){
		"less than min":                   elastic(3, 2),
		"0 is out of range: 1 to":         elastic(0, 2),
		"5000 is out of range: 1 to 4096": elastic(1, 5000),
		"min (1) is not a multiple":       elastic(1, 4, func(e *jobspec.Elastic) { e.MultipleOf = 2 }),
		"step (3) is not a multiple":      elastic(2, 4, func(e *jobspec.Elastic) { e.MultipleOf, e.Step = 2, 3 }),
		"magic":                           elastic(2, 4, func(e *jobspec.Elastic) { e.Resize = "magic" }),
		"count (2) fixes":                 func(j *jobspec.Job) { elastic(2, 4)(j); j.Groups[0].Count = 2 },
		"a te job":                        func(j *jobspec.Job) { elastic(2, 4)(j); j.Class = jobspec.TE },
		"start together": func(j *jobspec.Job) {
			elastic(2, 4)(j)
			loose := false
			j.Groups[0].Gang = &loose
		},
		"are both elastic": func(j *jobspec.Job) {
			elastic(2, 4)(j)
			taskGroups("a", "b")(j)
			j.GangScope = model.GangScopeJob
		},
	} {
		spec := testSpec(1, 1)
		edit(spec)
		if _, err := w.apply(SubmitJobs{Owner: alice, Jobs: []*jobspec.Job{spec}}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	cfg := cluster.DefaultConfig()
	cfg.Queues["quick"] = cluster.Queue{DefaultClass: jobspec.TE}
	w.must(SetConfig{Config: cfg})
	spec := testSpec(1, 1)
	elastic(1, 2)(spec)
	spec.Queue = "quick"
	if _, err := w.apply(SubmitJobs{Owner: alice, Jobs: []*jobspec.Job{spec}}); err == nil {
		t.Error("the class of a queue makes an elastic job a te job")
	}
}

// TestElasticMembers has elements of an array, and groups that run one by one, each be elastic by
// itself.
func TestElasticMembers(t *testing.T) {
	w := elasticWorld(t)
	id := w.submit3(2, elastic(1, 3), array("0-1"))
	w.ok(w.make(id, 1, "n1", "n2"))
	w.on(id+1, "n1", "n2")
	w.run(id + 1)
	w.ok(w.resize(id+1, []int{0}))
	w.leaves(id+1, 0, 1)
	w.on(id+1, "n2")
	w.run(id + 1)
	w.leavesWell(id+1, 0)
	w.state(id+1, model.Completed)

	id = w.submit3(1, taskGroups("prep", "train<prep"),
		func(j *jobspec.Job) { j.Groups[1].Count, j.Groups[1].Elastic = 0, &jobspec.Elastic{Min: 2, Max: 3} })
	w.ok(w.start(id+1, "n1"))
	w.run(id + 1)
	w.leavesWell(id+1, 0)
	w.ok(w.start(id+2, "n1", "n2", "n3"))
	w.run(id + 2)
	w.ok(w.resize(id+2, []int{1}))
	w.leaves(id+2, 0, 1, 2)
	w.on(id+2, "n1", "n3")
}

func TestRates(t *testing.T) {
	w := elasticWorld(t)
	id := w.stretch(1, []string{"n1", "n2"}, elastic(1, 4))
	rate := func(worker int, n int64) {
		node, _ := w.s.v.Node(w.job(id).Live().Workers[worker].Node)
		w.must(NodeReport{Node: node.Name, BootID: node.BootID,
			Workers: []model.WorkerReport{{Job: id, Attempt: 1, Worker: worker, State: model.WorkerRunning, Rate: n}}})
	}
	rate(1, 2500)
	rate(0, 99)
	w.ok(w.resize(id, []int{0}))
	w.leaves(id, 0, 1)
	if j := w.job(id); j.Attempts[0].Rate != 2500 || j.Attempts[1].Rate != 0 {
		t.Errorf("rates %d and %d", j.Attempts[0].Rate, j.Attempts[1].Rate)
	}
}

// TestPortsOfAGang: each worker of a gang of several groups has a port of its own on its node. The
// port at which the gang meets is another one.
func TestPortsOfAGang(t *testing.T) {
	for _, c := range []struct {
		name  string
		ports [4]int // at which they meet, and of the workers on n1, n1 and n2
		want  error
	}{
		{"each its own", [4]int{20000, 20001, 20002, 20000}, nil},
		{"two workers on a node with one", [4]int{20000, 20001, 20001, 20000}, model.ErrPort},
		{"a worker with the one where they meet", [4]int{20000, 20000, 20001, 20000}, model.ErrPort},
		{"a worker without", [4]int{20000, 20001, 0, 20000}, model.ErrPort},
		{"none to meet at", [4]int{0, 20001, 20002, 20000}, model.ErrPort},
		{"one below the node's", [4]int{20000, 20001, 19999, 20000}, model.ErrPort},
		{"the node's last", [4]int{20000, 20001, 20003, 20000}, nil},
		{"one above", [4]int{20000, 20001, 20004, 20000}, model.ErrPort},
	} {
		w := elasticWorld(t)
		id := w.submit3(1, taskGroups("ps", "work", "eval"), func(j *jobspec.Job) { j.GangScope = model.GangScopeJob })
		start := &StartJob{Job: id, Port: c.ports[0], Places: []model.Place{w.place("n1", 1), w.place("n1", 1),
			w.place("n2", 1)}}
		start.Places[1].GPUs = []int{start.Places[0].GPUs[0] + 1}
		for i := range start.Places {
			start.Places[i].Port = c.ports[i+1]
		}
		if err := w.plan(start); !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.want != nil {
			w.state(id, model.Pending)
			if len(w.s.v.PortsUsed("n1")) > 0 {
				t.Errorf("%s: ports %d are taken", c.name, w.s.v.PortsUsed("n1"))
			}
		}
	}
}
