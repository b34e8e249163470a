package fsm

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// signalled has a job be resized while it runs.
func signalled(e *jobspec.Elastic) { e.Resize = jobspec.ResizeSignal }

// TestShrinksWhileItRuns: only those are asked to stop that leave. The room of each comes free as
// it exits, the others run on, and the job is charged for what it held.
func TestShrinksWhileItRuns(t *testing.T) {
	w := elasticWorld(t)
	id := w.stretch(4, []string{"n1", "n2", "n3", "n4"}, elastic(1, 4, signalled))
	te := w.submit(1, 4)
	w.wait(100)
	w.refused(w.resize(id, []int{0}), model.ErrBadSize)
	w.refused(w.resize(id, []int{2, 3}, "n1"), model.ErrBadSize)
	w.ok(w.plan(&ResizeJob{Job: id, Attempt: 1, Leave: []int{2, 3}, For: te}))
	w.state(id, model.Running)
	w.refused(w.resize(id, []int{1}), model.ErrResizing)
	run := w.s.v.LiveAttempt(id)
	if beneficiary, _, _ := run.Leaves(); !run.Stopping || len(run.Releases) != 2 || beneficiary != te {
		t.Errorf("what it gives up is %+v, for job %d", run.Releases, beneficiary)
	}
	w.wait(10)
	w.report(id, 3, model.WorkerExited, code(1)) // however it goes
	w.frees("n4", 4)
	w.state(id, model.Running)
	w.wait(10)
	w.report(id, 2, model.WorkerExited, code(85))
	w.on(id, "n1", "n2")
	w.state(id, model.Running)
	if j := w.job(id); j.Attempt != 1 || j.Counters != (model.Counters{Resizes: 1}) ||
		j.Ledger.GPUMS != 4*(3*120_000+110_000) {
		t.Errorf("attempt %d, %+v, charged %+v", j.Attempt, j.Counters, j.Ledger)
	}
	w.ok(w.start(te, "n3"))
	w.wait(80)
	w.report(id, 0, model.WorkerExited)
	w.report(id, 1, model.WorkerExited)
	w.state(id, model.Completed)
	if got := w.job(id).Ledger.GPUMS; got != 4*(2*200_000+120_000+110_000) {
		t.Errorf("it was charged %d", got)
	}
}

// TestGrowsWhileItRuns: workers are added to the attempt and begin when they are created; the
// others run on. Word of a worker that had the same number before changes nothing.
func TestGrowsWhileItRuns(t *testing.T) {
	w := elasticWorld(t)
	id := w.stretch(4, []string{"n1", "n2"}, elastic(1, 4, signalled))
	w.rate(id, 1000)
	w.wait(50)
	w.ok(w.resize(id, []int{1}))
	w.report(id, 1, model.WorkerExited, code(85))
	w.ok(w.resize(id, nil, "n2", "n3"))
	w.on(id, "n1", "n2", "n3")
	w.state(id, model.Running)
	w.frees("n3", 0)
	w.refused(w.resize(id, nil, "n4"), model.ErrResizing)
	w.report(id, 1, model.WorkerExited, code(85), func(r *model.WorkerReport) { r.Joined = 0 })
	w.on(id, "n1", "n2", "n3")
	for i := 1; i <= 2; i++ {
		w.report(id, i, model.WorkerCreated)
		w.report(id, i, model.WorkerRunning)
	}
	w.wait(50)
	w.rate(id, 2500)
	if a := w.job(id).Live(); a.Rate != 2500 || a.N != 1 || w.job(id).Counters.Resizes != 2 {
		t.Errorf("attempt %d does %d, %+v", a.N, a.Rate, w.job(id).Counters)
	}
	for i := range 3 {
		w.report(id, i, model.WorkerExited)
	}
	w.state(id, model.Completed)
	if got := w.job(id).Ledger.GPUMS; got != 4*(100_000+50_000+2*50_000) {
		t.Errorf("it was charged %d", got)
	}
}

// TestStopsWhileItIsResized: a stop of the whole attempt goes before, and what the leaving workers
// did does not count against the job.
func TestStopsWhileItIsResized(t *testing.T) {
	for what, want := range map[string]model.JobState{"preempted": model.Pending, "completed": model.Completed,
		"failed": model.Failed} {
		w := elasticWorld(t)
		id := w.stretch(4, []string{"n1", "n2", "n3"}, elastic(1, 4, signalled))
		w.ok(w.resize(id, []int{1, 2}))
		w.wait(1)
		w.report(id, 1, model.WorkerExited, code(9))
		w.wait(1)
		exit := 0
		switch what {
		case "preempted":
			w.ok(w.plan(&StopJob{Job: id, Attempt: 1, Cause: model.CauseOrder}))
			exit = 85
		case "failed":
			exit = 3
		}
		w.report(id, 0, model.WorkerExited, code(exit))
		w.report(id, 2, model.WorkerExited, code(85))
		w.state(id, want)
		for _, n := range []string{"n1", "n2", "n3", "n4"} {
			w.frees(n, 4)
		}
		if j := w.job(id); what == "failed" && j.ExitCode != 3 {
			t.Errorf("it has failed with %d", j.ExitCode)
		}
	}
}

// TestLeavingWorkersAreLost: the others go on although the node of one that leaves is lost, and that
// does not count against the job. That of one that stays stops all.
func TestLeavingWorkersAreLost(t *testing.T) {
	for _, c := range []struct {
		node   string
		state  model.JobState
		counts model.Counters
	}{
		{"n3", model.Running, model.Counters{Resizes: 1}},
		{"n2", model.Completing, model.Counters{}},
	} {
		w := elasticWorld(t)
		id := w.stretch(4, []string{"n1", "n2", "n3"}, elastic(1, 4, signalled))
		w.ok(w.resize(id, []int{2}))
		w.must(SetNodeState{Node: c.node, State: model.NodeDown})
		w.wait(3600)
		w.ok(w.plan(&EndAttempt{Job: id, Attempt: 1, Cause: model.CauseNodeLost}))
		w.state(id, c.state)
		if got := w.job(id).Counters; got != c.counts {
			t.Errorf("%s is lost: the job has counted %+v, want %+v", c.node, got, c.counts)
		}
	}
}

// TestShrinkSaysForWhom: the events of a shrink name the job that gets the room, its user and its
// account.
func TestShrinkSaysForWhom(t *testing.T) {
	w := elasticWorld(t)
	id := w.stretch(4, []string{"n1", "n2"}, elastic(1, 4, signalled))
	other := w.submit(1, 4, func(j *jobspec.Job) { j.Account = "vision" })
	told := func(kind model.EventType) {
		t.Helper()
		e := w.s.v.Events(w.index - 1)[0]
		if want := (model.Leave{User: "alice", Account: "vision"}); e.Type != kind || e.For != other || e.Leave == nil ||
			*e.Leave != want {
			t.Errorf("event %+v with %v; want %s for job %d, with %v", e, e.Leave, kind, other, want)
		}
	}
	w.ok(w.plan(&ResizeJob{Job: id, Attempt: 1, Leave: []int{1}, For: other}))
	told(model.EventResizing)
	w.leaves(id, 1)
	told(model.EventResized)
}

// TestRandomResizesWhileRunning is TestRandomResizes with jobs that are resized while they run.
func TestRandomResizesWhileRunning(t *testing.T) {
	seen := map[string]int{}
	for _, seed := range seeds() {
		c := &chaos{Rand: rand.New(rand.NewPCG(seed, 19)), s: New(cluster.DefaultConfig()), at: 1, seen: seen, stretchy: true}
		twin := New(cluster.DefaultConfig())
		for i := uint64(1); i <= 3000; i++ {
			c.at += model.Instant(c.IntN(5_000))
			e := Entry{Stamp: model.Stamp{At: c.at, Wall: model.UnixMS(c.at)}, Command: c.signalCommand()}
			_, err := c.s.Apply(i, e)
			if bad := c.s.Check(); bad != nil {
				t.Fatalf("seed %d, entry %d, %s %+v: %v", seed, i, e.Command.Kind(), e.Command, bad)
			}
			twin = c.follow(t, seed, twin, i, e, err)
			for j := range c.s.v.Live() {
				c.noticeResize(j)
			}
		}
	}
	for _, what := range []string{"shrinks", "grows", "resized", "resized twice", "stopped while it shrinks",
		"stopped while it grows"} {
		if seen[what] == 0 && *seedFlag == 0 {
			t.Errorf("no job was seen that %s: %v", what, seen)
		}
	}
}

// noticeResize remembers what becomes of a job that is resized while it runs.
func (c *chaos) noticeResize(j *model.Job) {
	a := j.Live()
	note := func(what string) {
		if a.Stop != nil {
			what = fmt.Sprintf("stopped while it %s", what)
		}
		c.seen[what]++
	}
	if a.Shrink != nil {
		note("shrinks")
	}
	if a.Joining() {
		note("grows")
	}
	if a.Resizing != nil {
		c.seen["resized"]++
		if a.Resizing.N > 1 {
			c.seen["resized twice"]++
		}
	}
}

// signalCommand is elasticCommand with jobs that are resized while they run, mostly as they may be.
func (c *chaos) signalCommand() Command {
	cmd := c.elasticCommand()
	switch cmd := cmd.(type) {
	case SubmitJobs:
		for _, spec := range cmd.Jobs {
			for g := range spec.Groups {
				if e := spec.Groups[g].Elastic; e != nil {
					e.Resize, spec.Groups[g].Exclusive = jobspec.ResizeSignal, false
				}
			}
		}
	case CommitPlan:
		if len(cmd.Actions) == 1 {
			if resize, ok := cmd.Actions[0].(*ResizeJob); ok {
				c.lastLeave(resize)
			}
		}
	case NodeReport:
		for i := range cmd.Workers { // most workers do well, so that attempts live for long
			if r := &cmd.Workers[i]; c.staying(r) && !c.one(30) {
				r.State, r.ExitCode, r.OOM, r.Lease = model.WorkerRunning, 0, false, false
			}
		}
	}
	return cmd
}

// staying reports whether a report is of a worker that is not asked to leave.
func (c *chaos) staying(r *model.WorkerReport) bool {
	j := c.s.v.Job(r.Job)
	if j == nil || j.Live() == nil || j.Live().Stop != nil || r.Worker >= len(j.Live().Workers) {
		return false
	}
	w := &j.Live().Workers[r.Worker]
	return !w.Leaving && w.State != model.WorkerAssigned
}

// lastLeave has the last workers of a job leave instead of others.
func (c *chaos) lastLeave(r *ResizeJob) {
	j := c.s.v.Job(r.Job)
	if j == nil || len(r.Leave) == 0 || len(r.Leave) > j.Workers || c.one(10) {
		return
	}
	r.Join = nil
	for i := range r.Leave {
		r.Leave[i] = j.Workers - len(r.Leave) + i
	}
}
