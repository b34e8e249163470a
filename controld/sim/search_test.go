package sim

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/sim/trace"
	"github.com/rota-hpc/rota/controld/sim/trace/synth"
)

// config returns a job of a search that runs for ten minutes and has half of its accuracy after
// one.
func config(id string, s *trace.Search, final int64) trace.Job {
	j := job(id, 0, 10, 1)
	j.Model, j.Pauses, j.Saves = "resnet50", true, trace.SavesSignal
	j.Search, j.Learning = s, &trace.Learning{Final: final, Half: minute}
	return j
}

// Four configurations share one GPU one after the other. Without early stopping each runs to its
// end until one reaches the goal, and that one does not run on.
func TestSearchEndsWithTheGoal(t *testing.T) {
	s := &trace.Search{Goal: 800}
	r := mustRun(t, workload(config("a", s, 500), config("b", s, 700), config("c", s, 800), config("d", s, 900)),
		setup(t, "1x8c/64g/1gpu", "fifo"))
	if got := r.Sharing.Search; got == nil || got.TimeS != 30*60 || got.Found != 1 {
		t.Errorf("the search: %+v, want 1800 s", got)
	}
	if r.Classes["all"].Count != 2 || r.Cancelled != 2 || r.Unended != 0 {
		t.Errorf("%d jobs ended, %d were cancelled, %d are left; want 2, 2 and 0", r.Classes["all"].Count, r.Cancelled,
			r.Unended)
	}
	if got := spans(r); got != "a 0-10, b 10-20, c 20-30|" {
		t.Errorf("attempts %s", got)
	}
}

// With early stopping a task leaves as soon as one other is known to be better after two minutes.
func TestSearchStopsEarly(t *testing.T) {
	s := &trace.Search{Goal: 800, AtStep: 120, Keep: 1}
	jobs := []trace.Job{config("a", s, 500), config("b", s, 700), config("c", s, 600), config("d", s, 800)}
	r := mustRun(t, workload(jobs...), setup(t, "1x8c/64g/1gpu", "fifo"))
	if got := spans(r); got != "a 0-10, b 10-20, c 20-22|, d 22-32|" {
		t.Errorf("one after the other: %s", got)
	}
	r = mustRun(t, workload(jobs...), setup(t, "1x8c/64g/2gpu", "fifo"))
	if got := spans(r); got != "a 0-2|, c 2-4|, b 0-6|, d 4-14|" {
		t.Errorf("two at a time: %s", got)
	}
	if r.Sharing.Search.Found != 1 || r.Cancelled != 4 {
		t.Errorf("found %g, %d cancelled", r.Sharing.Search.Found, r.Cancelled)
	}
}

// A task that is cancelled before its user sees a result is not measured. Here these are b, after
// 60 of the 100 mini-batches, and d, which waits until c reaches the goal.
func TestSearchFeedback(t *testing.T) {
	s := &trace.Search{Goal: 800, AtStep: 60, Keep: 1}
	r := mustRun(t, workload(config("a", s, 700), config("b", s, 500), config("c", s, 800), config("d", s, 600)),
		setup(t, "1x8c/64g/1gpu", "fifo"))
	if got := spans(r); got != "a 0-10, b 10-11|, c 11-21|" {
		t.Fatalf("attempts %s", got)
	}
	if got := r.Sharing.FeedbackS; got.Mean != (100+760)/2 || got.P50 != 100 || got.Max != 760 {
		t.Errorf("feedback after %+v", got)
	}
}

// A report that is wrong costs the search what it looks for: it ends with the last task that is left.
func TestSearchMisled(t *testing.T) {
	s := &trace.Search{Goal: 800, AtStep: 120, Keep: 1}
	jobs := []trace.Job{config("a", s, 700), config("b", s, 800)}
	jobs[0].Learning.Error = 300
	r := mustRun(t, workload(jobs...), setup(t, "1x8c/64g/2gpu", "fifo"))
	if got := *r.Sharing.Search; got != (Searches{TimeS: 600, Found: 0}) {
		t.Errorf("the search: %+v", got)
	}
}

// Tasks take turns, give way to others, and are cancelled while suspended or pending. They leave
// nothing behind: the invariants of the state hold, and nothing is held in the end.
func TestSearchesLeaveNothing(t *testing.T) {
	for _, policy := range []string{"fifo:oversubscribe=3", "rota", "rota:oversubscribe=2", "las:min_run=2m", "backfill"} {
		for seed := range uint64(3) {
			g, err := synth.ParseGenerator(fmt.Sprintf("search:configs=9,behind=3,gpus=4,keep=3,noise=0.0%d", seed*4))
			if err != nil {
				t.Fatal(err)
			}
			nodes, _ := g.Cluster()
			st := setup(t, nodes, policy)
			tr, err := g.Trace(seed, trace.Capacity(st.Nodes))
			if err != nil {
				t.Fatal(err)
			}
			r := mustRun(t, tr, st)
			if r.Unended > 0 || r.Refused > 0 || r.Sharing.Search == nil || r.Cancelled+r.Classes["all"].Count != 12 {
				t.Errorf("%s, seed %d: %d unended, %d refused, %d cancelled, %d ended, search %+v", policy, seed, r.Unended,
					r.Refused, r.Cancelled, r.Classes["all"].Count, r.Sharing.Search)
			}
		}
	}
}

// The tasks of an array have one specification.
func TestSearchOfUnlikeJobs(t *testing.T) {
	s := &trace.Search{Goal: 800}
	a, b := config("a", s, 500), config("b", s, 700)
	b.Request.Cores++
	_, err := Run(workload(a, b), setup(t, "1x8c/64g/1gpu", "fifo"))
	if err == nil || !strings.Contains(err.Error(), "jobs a and b of a search must have equal requests, "+
		"checkpoints and time limits, because they are tasks of one array") {
		t.Errorf("error %v", err)
	}
}

// Six equal jobs take turns on four GPUs. At a common instant all have done the same, but for a
// turn; without turns two of them have done nothing.
func TestProgressIsEven(t *testing.T) {
	for policy, bounds := range map[string][2]float64{"fifo": {0.66, 0.67}, "fifo:oversubscribe=2": {0.999, 1}} {
		st := setup(t, synth.SixNodes, policy)
		st.Window = [2]int64{minute, 100 * minute}
		r := mustRun(t, synth.Six("gen:six", 6), st)
		if got := r.Sharing.ProgressJain; got < bounds[0] || got > bounds[1] {
			t.Errorf("%s: Jain's index of the progress is %g", policy, got)
		}
	}
}

// A task that is told to pause in the mini-batch in which it reports does so on time, not when it
// is resumed. Two tasks take turns of a minute and are compared after a minute. So the worse one is
// cancelled as soon as the other has had its first turn.
func TestReportBeforeThePause(t *testing.T) {
	s := &trace.Search{Goal: 800, AtStep: 60, Keep: 1}
	r := mustRun(t, workload(config("a", s, 500), config("b", s, 800)), setup(t, "1x8c/64g/1gpu", "fifo:oversubscribe=2"))
	if s := r.Story.Spans; len(s) != 4 || s[2].ID != "a" || !s[2].Stopped || s[0].Stopped {
		t.Fatalf("attempts %s", spans(r))
	}
	// two turns of a minute, each up to five seconds longer, and two pauses and beginnings of a second
	if got := r.Story.Spans[2].End; got < 2*minute || got > 2*minute+14_000 {
		t.Errorf("the worse task is cancelled after %d ms", got)
	}
}
