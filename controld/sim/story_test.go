package sim

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sim/trace"
	"github.com/rota-hpc/rota/jobspec"
)

var update = flag.Bool("update", false, "write golden files anew")

const minute = 60_000

// job is one worker of g GPUs that is submitted and runs at the given minutes.
func job(id string, submit, work, gpus int64) trace.Job {
	return trace.Job{
		ID: id, User: "ann", Account: "a", Class: jobspec.BE, Priority: trace.MidPriority, Submit: submit * minute,
		Work:  work * minute,
		Grace: trace.Unknown, Restart: trace.Unknown, Request: model.Vector{Cores: 1, Memory: jobspec.GiB,
			GPUs: gpus * 1000},
		Workers: 1, MinWorkers: 1, MaxWorkers: 1,
	}
}

func gang(id string, submit, work int64, workers int, gpus int64) trace.Job {
	j := job(id, submit, work, gpus)
	j.Workers, j.MinWorkers, j.MaxWorkers = workers, workers, workers
	return j
}

func workload(jobs ...trace.Job) *trace.Trace { return &trace.Trace{Name: "test", Jobs: jobs} }

func setup(tb testing.TB, nodes, policy string) Setup {
	tb.Helper()
	p, err := ParsePolicy(policy)
	if err != nil {
		tb.Fatal(err)
	}
	n, err := trace.ParseNodes(nodes)
	if err != nil {
		tb.Fatal(err)
	}
	return Setup{Nodes: n, Policy: p, Check: true}
}

func mustRun(tb testing.TB, t *trace.Trace, s Setup) *Result {
	tb.Helper()
	s.Spans = true
	r, err := Run(t, s)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// spans writes the attempts as "id start-end" in minutes, in order of their end. A bar marks an
// attempt that was stopped.
func spans(r *Result) string {
	var parts []string
	for _, s := range r.Story.Spans {
		mark := ""
		if s.Stopped {
			mark = "|"
		}
		parts = append(parts, fmt.Sprintf("%s %g-%g%s", s.ID, float64(s.Start)/minute, float64(s.End)/minute, mark))
	}
	return strings.Join(parts, ", ")
}

// TestStories replays workloads so small that a reader can check them by hand.
func TestStories(t *testing.T) {
	wide := func(j trace.Job, perNode int) trace.Job { j.PerNode = perNode; return j }
	limited := func(j trace.Job, minutes int64) trace.Job { j.Limit = minutes * minute; return j }
	guessed := func(j trace.Job, minutes int64) trace.Job { j.Estimate = minutes * minute; return j }
	far := func(j trace.Job) trace.Job { j.Locality[trace.OneRack] = trace.FullRate / 2; return j }
	victim := func(j trace.Job, saves trace.Saves, every int64) trace.Job {
		j.Grace, j.Restart, j.Saves, j.Every = 2*minute, minute, saves, every*minute
		return j
	}
	for _, test := range []struct {
		name, nodes, policy string
		tick                int64
		jobs                []trace.Job
		want                string
	}{
		{"first come first served", "1x8c/8gpu", "fifo", 0,
			[]trace.Job{job("a", 0, 10, 8), job("b", 1, 5, 8)}, "a 0-10, b 10-15"},
		{"no job passes the head of fifo", "1x8c/8gpu", "fifo", 0,
			[]trace.Job{job("a", 0, 10, 6), job("b", 1, 5, 4), job("c", 2, 2, 2)}, "a 0-10, c 10-12, b 10-15"},
		{"backfill lets the small one pass", "1x8c/8gpu", "backfill", 0,
			[]trace.Job{job("a", 0, 10, 6), job("b", 1, 5, 4), job("c", 2, 2, 2)}, "c 2-4, a 0-10, b 10-15"},
		{"easy lets a job pass that ends in time", "1x8c/8gpu", "easy", 0,
			[]trace.Job{job("a", 0, 10, 6), job("b", 1, 5, 8), job("c", 2, 8, 2),
				job("d", 2, 9, 2)}, "a 0-10, c 2-10, b 10-15, d 15-24"},
		{"easy lets a job pass that needs what the head leaves", "1x8c/8gpu", "easy", 0,
			[]trace.Job{job("a", 0, 10, 6), job("b", 1, 5, 6), job("c", 2, 20, 2)}, "a 0-10, b 10-15, c 2-22"},
		{"a guess that was too short is raised", "1x8c/8gpu", "easy", 0,
			[]trace.Job{guessed(job("a", 0, 10, 8), 4), job("b", 1, 5, 8)}, "a 0-10, b 10-15"},
		{"a limit of the trace kills", "1x8c/8gpu", "fifo", 0,
			[]trace.Job{limited(job("a", 0, 10, 8), 4), job("b", 1, 5, 8)}, "a 0-4|, b 4-9"},
		{"shortest first", "1x8c/8gpu", "sjf", 0,
			[]trace.Job{job("a", 0, 10, 8), job("b", 1, 5, 8), job("c", 2, 2, 8)}, "a 0-10, c 10-12, b 12-17"},
		{"a gang waits whole", "2x8c/8gpu", "fifo", 0,
			[]trace.Job{job("a", 0, 10, 4), wide(gang("b", 1, 5, 2, 8), 1)}, "a 0-10, b 10-15"},
		{"workers across nodes are slower if the job says so", "2x8c/8gpu", "fifo", 0,
			[]trace.Job{wide(far(gang("a", 0, 10, 2, 4)), 1), far(gang("b", 20, 10, 2, 4))}, "a 0-20, b 20-30"},
		{"cycles at ticks only", "1x8c/8gpu", "fifo", 4,
			[]trace.Job{job("a", 0, 10, 8), job("b", 1, 5, 8)}, "a 0-10, b 12-17"},
		{"what was done is kept at the end of grace", "1x8c/8gpu", "las", 0,
			[]trace.Job{victim(job("a", 0, 60, 8), "", 0), job("b", 10, 5, 8)}, "a 0-12|, b 12-17, a 17-68"},
		{"a job that never saves starts from scratch", "1x8c/8gpu", "las", 0,
			[]trace.Job{victim(job("a", 0, 60, 8), trace.SavesNone, 0), job("b", 10, 5, 8)}, "a 0-12|, b 12-17, a 17-78"},
		{"what came after the last checkpoint is lost", "1x8c/8gpu", "las", 0,
			[]trace.Job{victim(job("a", 0, 60, 8), trace.SavesEvery, 4), job("b", 10, 5, 8)}, "a 0-12|, b 12-17, a 17-70"},
		{"least remaining first", "1x8c/8gpu", "srtf", 0,
			[]trace.Job{victim(job("a", 0, 60, 8), "", 0), job("b", 10, 5, 8)}, "a 0-12|, b 12-17, a 17-68"},
		{"spread takes the emptiest node", "2x8c/8gpu", "spread", 0,
			[]trace.Job{job("a", 0, 10, 4), job("b", 1, 10, 4), job("c", 2, 10, 8)}, "a 0-10, b 1-11, c 10-20"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := setup(t, test.nodes, test.policy)
			s.Tick = test.tick * minute
			if got := spans(mustRun(t, workload(test.jobs...), s)); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// TestStoryToTheEnd: the data reach as far as the run. Running jobs are drawn until then, and the
// curves end with the run, also where samples are left out.
func TestStoryToTheEnd(t *testing.T) {
	s := setup(t, "2x8c/8gpu", "fifo")
	s.Until = 30 * minute
	r := mustRun(t, workload(job("a", 0, 60, 8), job("b", 0, 5, 8), job("c", 10, 60, 8), job("d", 20, 60, 8)), s)
	if got, want := spans(r), "b 0-5, a 0-30, c 10-30"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if last := r.Story.Samples[len(r.Story.Samples)-1]; last.At != s.Until || last.Running != 2 || last.Waiting != 1 {
		t.Errorf("the last sample is %+v", last)
	}
	var many []trace.Job
	for i := range int64(maxSamples + 3) {
		many = append(many, job(strconv.FormatInt(i, 10), 10*i, 5, 8))
	}
	s.Until, s.Check = 0, false
	r = mustRun(t, workload(many...), s)
	if last := r.Story.Samples[len(r.Story.Samples)-1]; len(r.Story.Samples) > maxSamples+1 || last.Running != 0 ||
		float64(last.At) != 1000*r.MakespanS {
		t.Errorf("%d samples of %g s, the last one %+v", len(r.Story.Samples), r.MakespanS, last)
	}
}

// TestGolden compares whole results, worked out by hand once.
func TestGolden(t *testing.T) {
	a, b := job("a", 0, 60, 8), job("b", 10, 5, 8)
	a.Grace, a.Restart, a.Saves, a.Every = 2*minute, minute, trace.SavesEvery, 4*minute
	b.Class, b.Account, b.User = jobspec.TE, "b", "bob"
	for name, s := range map[string]Setup{
		"fifo": setup(t, "2x8c/32g/8gpu", "fifo"), "displaced": setup(t, "1x8c/32g/8gpu", "las:min_run=1m"),
	} {
		t.Run(name, func(t *testing.T) {
			s.Deserved.Equal = true
			got, err := json.MarshalIndent(mustRun(t, workload(a, b, gang("wide", 20, 2, 9, 8)), s), "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join("testdata", name+".json"), append(got, '\n'))
		})
	}
}

func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s differs; -update writes it anew\n%s", file, got)
	}
}

// TestLostTime checks what counts as lost: unsaved work, grace, and the restart.
func TestLostTime(t *testing.T) {
	a := job("a", 0, 60, 8)
	a.Grace, a.Restart, a.Saves, a.Every = 2*minute, minute, trace.SavesEvery, 4*minute
	r := mustRun(t, workload(a, job("b", 10, 5, 8)), setup(t, "1x8c/8gpu", "las"))
	// 2 min since the checkpoint, 2 min of grace, 1 min to restart
	if want := float64(8 * 60 * (2 + 2 + 1)); r.LostGPUS != want {
		t.Errorf("lost %g GPU s, want %g", r.LostGPUS, want)
	}
	if got := r.RescheduleIntervalS.Max; got != 5*60 {
		t.Errorf("started again after %g s, want 300", got)
	}
	if r.Preemptions != 1 || r.PreemptionsMaxJob != 1 || r.PreemptedJobsPct != 50 || r.PreemptedTimesPct["1"] != 50 {
		t.Errorf("preemptions %d, %d of one job, %g %% of the jobs", r.Preemptions, r.PreemptionsMaxJob, r.PreemptedJobsPct)
	}
	if got := r.Classes["be"].WaitS.Max; got != 5*60 {
		t.Errorf("waited %g s, want 300: what is held is no waiting", got)
	}
}
