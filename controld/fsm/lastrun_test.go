package fsm

import (
	"math/rand/v2"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// numbered is the worker of a number, in whichever attempt.
type numbered struct {
	job    model.JobID
	worker int
}

// ran is an attempt in which a worker ran, and the node on which it did.
type ran struct {
	attempt int
	node    string
}

// TestWhereAWorkerRanLast compares the state's record of a worker's folder with the reports of
// nodes. Its random histories have moves, failed launches, lost nodes and requeues. It notices a
// worker that would begin with another folder than the last one it wrote to. It also notices a
// folder that is dropped although it is needed.
func TestWhereAWorkerRanLast(t *testing.T) {
	seen := map[string]int{}
	for _, seed := range seeds() {
		c := &chaos{Rand: rand.New(rand.NewPCG(seed, 23)), s: New(cluster.DefaultConfig()), at: 1, seen: map[string]int{}}
		runs := map[numbered][]ran{}
		for i := uint64(1); i <= 2000; i++ {
			c.at += model.Instant(c.IntN(5_000))
			e := Entry{Stamp: model.Stamp{At: c.at, Wall: model.UnixMS(c.at)}}
			switch n := c.IntN(10); {
			case len(c.s.v.Nodes()) < 5 || n > 2:
				e.Command = c.turnCommand()
			case n == 2:
				e.Command = c.leaveReport()
			default:
				e.Command = CommitPlan{Actions: []Action{c.migrate()}}
			}
			var told []model.WorkerReport
			report, is := e.Command.(NodeReport)
			if is {
				report.Workers = append([]model.WorkerReport(nil), report.Workers...)
				for k := range report.Workers {
					r := &report.Workers[k]
					if w := workerOf(c.s, report.Node, r); w != nil && r.State == model.WorkerExited &&
						model.Rank(w.State) < model.Rank(model.WorkerRunning) {
						r.Unbegun = c.IntN(2) == 0
					}
				}
				e.Command = report
				told = report.Workers
			}
			if _, err := c.s.Apply(i, e); err == nil && is {
				for _, r := range told {
					at := numbered{r.Job, r.Worker}
					began := r.State == model.WorkerRunning || r.State == model.WorkerExited && !r.Unbegun || r.Began
					j := c.s.v.Job(r.Job)
					if r.Policy != "" || !began || j == nil || r.Worker < 0 || isElastic(j) {
						continue
					}
					for k := range j.Attempts {
						a := &j.Attempts[k]
						if a.N == r.Attempt && r.Worker < len(a.Workers) && a.Workers[r.Worker].Node == report.Node &&
							a.Workers[r.Worker].Started == c.at {
							runs[at] = append(runs[at], ran{r.Attempt, report.Node})
						}
					}
				}
			}
			for j := range c.s.v.Live() {
				if isElastic(j) {
					continue
				}
				for k := range j.Live().Workers {
					compareRuns(t, seed, i, j, k, runs[numbered{j.ID, k}], seen)
				}
			}
		}
	}
	for _, what := range []string{"moved", "again on its node", "after an attempt that did not run", "never"} {
		if seen[what] == 0 && *seedFlag == 0 {
			t.Errorf("no worker was seen %s: %v", what, seen)
		}
	}
}

func isElastic(j *model.Job) bool { _, is := j.Elastic(); return is }

// compareRuns checks one worker of a live attempt.
func compareRuns(t *testing.T, seed, entry uint64, j *model.Job, k int, runs []ran, seen map[string]int) {
	t.Helper()
	a := j.Live()
	var want ran
	for _, r := range runs {
		if r.attempt < a.N && r.attempt >= j.Attempts[0].N {
			want = r
		}
	}
	last := j.LastRun(k, a.N)
	var got ran
	if last != nil {
		got = ran{last.N, last.Workers[k].Node}
	}
	if got != want {
		t.Fatalf("seed %d, entry %d: worker %d of job %d in attempt %d goes on from %+v, reported was %+v", seed, entry, k,
			j.ID, a.N, got, want)
	}
	w := &a.Workers[k]
	switch {
	case last == nil:
		seen["never"]++
		return
	case want.node == w.Node:
		seen["again on its node"]++
	default:
		seen["moved"]++
	}
	if want.attempt < a.N-1 {
		seen["after an attempt that did not run"]++
	}
	kept := *j
	spec := *j.Spec
	spec.Checkpoint = &jobspec.Checkpoint{NodeLocal: true}
	kept.Spec = &spec
	if w.Started == 0 && !kept.NeedsFolder(want.attempt, k, want.node) {
		t.Fatalf("seed %d, entry %d: the folder of attempt %d of job %d on %s is dropped although attempt %d needs it", seed,
			entry, want.attempt, j.ID, want.node, a.N)
	}
	if w.Started != 0 && kept.NeedsFolder(want.attempt, k, want.node) {
		t.Fatalf("seed %d, entry %d: the folder of attempt %d of job %d on %s is kept although attempt %d runs", seed,
			entry, want.attempt, j.ID, want.node, a.N)
	}
	if !w.State.Final() && !kept.NeedsFolder(a.N, k, w.Node) {
		t.Fatalf("seed %d, entry %d: the folder of attempt %d of job %d on %s is dropped while it is there", seed, entry,
			a.N, j.ID, w.Node)
	}
}

// TestAJobWithItsCheckpointOnANodeIsHeld notices a job that ends, and with it its checkpoint, because
// copies have failed.
func TestAJobWithItsCheckpointOnANodeIsHeld(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	w.node("n2", 8)
	id := w.submit(1, 1, func(j *jobspec.Job) { j.Checkpoint = &jobspec.Checkpoint{NodeLocal: true, ExitCode: 85} })
	w.ok(w.start(id, "n1"))
	w.run(id)
	w.report(id, 0, model.WorkerExited, code(85))
	for range w.s.v.Config().Policy.MaxLaunchFails {
		w.ok(w.start(id, "n2"))
		w.report(id, 0, model.WorkerFailed, func(r *model.WorkerReport) { r.Message = "no room" })
		w.wait(3600)
	}
	j := w.job(id)
	if j.State != model.Pending || j.Hold != model.HeldLaunch || j.Reason.Text != "no room" || !j.NeedsFolder(1, 0, "n1") {
		t.Fatalf("%s, held %q, %+v, the folder is needed: %t", j.State, j.Hold, j.Reason, j.NeedsFolder(1, 0, "n1"))
	}
	w.ok(w.control(model.VerbRelease, 1000, false, id))
	w.ok(w.start(id, "n1"))
	w.run(id)
	w.state(id, model.Running)
}
