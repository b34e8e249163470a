package sim

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sim/trace"
	"github.com/rota-hpc/rota/jobspec"
)

// near fails a test if a number differs from the one worked out by hand.
func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*math.Max(1, math.Abs(want)) {
		t.Errorf("%s: %.9g, want %.9g", what, got, want)
	}
}

func of(account string, j trace.Job) trace.Job {
	j.Account, j.User = account, account
	return j
}

// TestResultOnPaper has two nodes of 8 GPUs. a1 holds one and b1 half of the other until minute 10.
// b2 waits for a whole one from the beginning, and a2 from minute 5 on; then both run until minute
// 20.
func TestResultOnPaper(t *testing.T) {
	s := setup(t, "2x8c/8gpu", "fifo")
	s.Deserved.Equal, s.WideGPUs, s.Bound = true, 8, 20*minute
	r := mustRun(t, workload(of("a", job("a1", 0, 10, 8)), of("b", job("b1", 0, 10, 4)), of("b", job("b2", 0, 10, 8)),
		of("a", job("a2", 5, 10, 8))), s)
	if got, want := spans(r), "a1 0-10, b1 0-10, b2 10-20, a2 10-20"; got != want {
		t.Fatalf("%s, want %s", got, want)
	}
	near(t, "makespan", r.MakespanS, 1200)
	near(t, "jobs a minute", r.JobsPerMin, 0.2)
	near(t, "GPU time", r.GPUS, 60*(80+40+80+80))
	near(t, "GPU time of b", r.Accounts["b"].GPUS, 60*(40+80))
	near(t, "GPUs held until the last arrival", r.Utilisation.GPU, 12.0/16)
	near(t, "cores held", r.Utilisation.CPU, 2.0/16)
	near(t, "memory held", r.Utilisation.Memory, 2.0/64)
	near(t, "free GPUs at the last arrival", r.UnallocatedGPUs, 4)
	near(t, "fragmentation", r.GPUFragmentation, 0.75) // three of the four jobs need 8, and 4 are free
	near(t, "jain", r.Fairness.Jain,
		0.9) // b held 4 of its 8 while it waited, a 8 of its 8: 1.5² / (2 x 1.25)
	near(t, "worst rho", r.Fairness.WorstRho, 1) // each alone on one node would end at the same times
	all := r.Classes["all"]
	near(t, "slowdown", all.Slowdown.Mean, (1+1+2+1.5)/4)
	near(t, "p75 of the slowdown", all.Slowdown.P75, 1.5)
	near(t, "bounded slowdown", all.BoundedSlowdown.Max, 1) // no job took longer than the bound
	near(t, "wait", all.WaitS.Mean, (600+300)/4)
	near(t, "completion", all.JCTS.P50, 600)
	if r.Wide.Count != 3 || r.Wide.MinGPUs != 8 {
		t.Errorf("%d jobs of at least %d GPUs", r.Wide.Count, r.Wide.MinGPUs)
	}
	near(t, "wait of wide jobs", r.Wide.WaitS.P50, 300)
	if r.Long.Count != 0 || r.Long.MinS != 24*3600 {
		t.Errorf("%d jobs run for at least %d s", r.Long.Count, r.Long.MinS)
	}
}

// TestFairnessOnPaper has two accounts with a quota of a node of 8 GPUs each. a takes both first; b
// waits 10 minutes, a's third job 20.
func TestFairnessOnPaper(t *testing.T) {
	s := setup(t, "2x8c/8gpu", "fifo")
	s.Deserved.GPUs = map[string]int64{"a": 8000, "b": 8000, "nobody": 0}
	jobs := []trace.Job{of("a", job("a1", 0, 10, 8)), of("a", job("a2", 0, 10, 8)), of("b", job("b1", 0, 10, 8)),
		of("b", job("b2", 0, 10, 8)), of("a", job("a3", 0, 10, 8))}
	r := mustRun(t, workload(jobs...), s)
	if got, want := spans(r), "a1 0-10, a2 0-10, b1 10-20, b2 10-20, a3 20-30"; got != want {
		t.Fatalf("%s, want %s", got, want)
	}
	near(t, "rho of a", r.Accounts["a"].Rho, (10.0+10+30)/(10+20+30)) // alone one after the other
	near(t, "rho of b", r.Accounts["b"].Rho, (20.0+20)/(10+20))
	near(t, "worst rho", r.Fairness.WorstRho, 40.0/30)
	near(t, "jain", r.Fairness.Jain, 0.5) // b had nothing while it waited
	near(t, "jain of the users' slowdowns", r.Fairness.JainUsers, (11.0/3*11/3)/(2*(25.0/9+4)))
	s.Deserved.GPUs = map[string]int64{"a": 8000, "c": 8000}
	want := []string{"account b has no quota, so it has no rho and is not part of jain",
		"account c has a quota of 8 GPUs, but no jobs"}
	if r = mustRun(t, workload(jobs...), s); !slices.Equal(r.Notes, want) {
		t.Errorf("notes %q, want %q", r.Notes, want)
	}
}

// TestPreemptionOnPaper has a job of an hour that is preempted twice for short ones, with two
// minutes of grace each time.
func TestPreemptionOnPaper(t *testing.T) {
	long, first, second := job("long", 0, 60, 8), job("first", 10, 5, 8), job("second", 30, 3, 8)
	long.Grace, first.Class, second.Class = 2*minute, jobspec.TE, jobspec.TE
	r := mustRun(t, workload(long, first, second), setup(t, "1x8c/8gpu", "fitgpp:p=inf"))
	if got, want := spans(r), "long 0-12|, first 12-17, long 17-32|, second 32-35, long 35-72"; got != want {
		t.Fatalf("%s, want %s", got, want)
	}
	near(t, "preempted jobs", r.PreemptedJobsPct, 100.0/3)
	near(t, "preempted once", r.PreemptedTimesPct["1"], 0)
	near(t, "preempted twice", r.PreemptedTimesPct["2"], 100.0/3)
	near(t, "shortest interval", r.RescheduleIntervalS.P50, 180)
	near(t, "mean interval", r.RescheduleIntervalS.Mean, 240)
	near(t, "longest interval", r.RescheduleIntervalS.P75, 300)
	near(t, "longest absence", r.AbsenceS.Max, 420)
	near(t, "lost", r.LostGPUS, 8*60*(2+2))
	near(t, "wait of the long one", r.Classes["be"].WaitS.Max, 480)
	near(t, "its slowdown", r.Classes["be"].Slowdown.Max, 1.2)
	if r.Preemptions != 2 || r.PreemptionsMaxJob != 2 {
		t.Errorf("%d preemptions, %d of one job", r.Preemptions, r.PreemptionsMaxJob)
	}
}

// TestPlacement puts a third job beside one of 4 and one of 6 GPUs, on three nodes of 8. It goes to
// the first node with enough room, the fullest, the emptiest, or a random one.
func TestPlacement(t *testing.T) {
	node := func(policy string, seed uint64) int {
		s := setup(t, "3x8c/8gpu", policy)
		s.Seed = seed
		r := mustRun(t, workload(job("a", 0, 10, 4), job("b", 1, 10, 6), job("c", 2, 10, 1)), s)
		return r.Story.Spans[len(r.Story.Spans)-1].Node
	}
	for fit, want := range map[string]int{"first": 0, "best": 1, "worst": 2} {
		for _, policy := range []string{"fifo", "fitgpp", "lrtp", "rand"} {
			if got := node(policy+":fit="+fit, 1); got != want {
				t.Errorf("%s fit of %s: node %d, want %d", fit, policy, got, want)
			}
		}
	}
	seen := map[int]bool{}
	for seed := range uint64(40) {
		seen[node("fitgpp:fit=random", seed)] = true
	}
	if len(seen) != 3 {
		t.Errorf("at random only nodes %v", seen)
	}
}

// TestSeedOfAPolicy checks that what a policy draws depends on the seed of the run.
func TestSeedOfAPolicy(t *testing.T) {
	victims := map[string]bool{}
	for seed := range uint64(20) {
		s := setup(t, "2x8c/8gpu", "rand")
		s.Seed = seed
		a, b, c := job("a", 0, 60, 8), job("b", 0, 60, 8), job("c", 10, 5, 8)
		a.Grace, b.Grace, c.Class = 0, 0, jobspec.TE
		r := mustRun(t, workload(a, b, c), s)
		victims[r.Story.Spans[0].ID] = true
	}
	if len(victims) != 2 {
		t.Errorf("of two jobs always the same one leaves: %v", victims)
	}
}

// TestUntil ends a run before the last job arrives.
func TestUntil(t *testing.T) {
	s := setup(t, "1x8c/8gpu", "fifo")
	s.Until = 20 * minute
	r := mustRun(t, workload(job("a", 0, 10, 8), job("b", 5, 30, 6), job("c", 50, 5, 8)), s)
	if r.Classes["all"].Count != 1 || r.Unended != 1 || r.Jobs != 3 ||
		fmt.Sprint(r.Notes) != "[1 job arrives after the end and is not counted]" {
		t.Errorf("%d ended, %d not, of %d; notes %q", r.Classes["all"].Count, r.Unended, r.Jobs, r.Notes)
	}
	near(t, "held until then", r.Utilisation.GPU, (8.0*10+6*10)/(8*20))
	near(t, "free then", r.UnallocatedGPUs, 2)
	near(t, "of no use", r.GPUFragmentation, 1)
}

// TestRows checks what plots need of each attempt: its GPUs on every node.
func TestRows(t *testing.T) {
	wide := gang("wide", 0, 10, 2, 6)
	wide.PerNode = 1
	r := mustRun(t, workload(wide, job("small", 1, 5, 1), job("idle", 1, 5, 0)), setup(t, "2x8c/8gpu", "fifo"))
	got := map[string]string{}
	for _, s := range r.Story.Spans {
		got[s.ID] = fmt.Sprint(s.Rows)
	}
	want := map[string]string{"wide": "[{0 0 6} {1 0 6}]", "small": "[{0 6 1}]", "idle": "[{0 0 0}]"}
	if !maps.Equal(got, want) || r.Story.Nodes != 2 || r.Story.NodeGPUs != 8 {
		t.Errorf("got %v on %d nodes of %d GPUs", got, r.Story.Nodes, r.Story.NodeGPUs)
	}
}

func TestMetrics(t *testing.T) {
	var values []float64
	for i := range 1000 {
		values = append(values, float64(1000-i))
	}
	if got := statsOf(values); got != (Stats{500.5, 500, 750, 950, 990, 999, 1000}) {
		t.Errorf("statistics of 1 to 1000 are %+v", got)
	}
	if got := statsOf([]float64{3}); got != (Stats{3, 3, 3, 3, 3, 3, 3}) {
		t.Errorf("statistics of one value are %+v", got)
	}
	if got := jain([]float64{1, 1, 1, 1}); got != 1 {
		t.Errorf("equal values: %g", got)
	}
	if got := jain([]float64{1, 0, 0, 0}); got != 0.25 {
		t.Errorf("one has it all: %g", got)
	}
}

// TestFragmentation: of 12 free GPUs, b cannot use the 4 beside a's cores, and b arrives as often
// as a.
func TestFragmentation(t *testing.T) {
	a, b := job("a", 0, 10, 4), job("b", 1, 10, 8)
	a.Request.Cores, b.Request.Cores = 6, 4
	r := mustRun(t, workload(a, b, job("c", 30, 1, 1)), setup(t, "2x8c/8gpu", "fifo"))
	if r.UnallocatedGPUs != 15 {
		t.Errorf("%g GPUs were free when c had come, want 15", r.UnallocatedGPUs)
	}
	// Beside c lie 7 free GPUs that b cannot use; every job can use the other node's 8: 7/15 x 1/3.
	if want := 7.0 / 15 / 3; math.Abs(r.GPUFragmentation-want) > 1e-12 {
		t.Errorf("fragmentation %g, want %g", r.GPUFragmentation, want)
	}
}

func TestExcluded(t *testing.T) {
	wrongModel := job("model", 0, 1, 1)
	wrongModel.Models = []string{"H100"}
	server := job("server", 0, 1, 1)
	server.Servers, server.Server = 9, model.Vector{Cores: 8, Memory: jobspec.GiB}
	r := mustRun(t, workload(job("big", 0, 1, 9), gang("gang", 0, 1, 3, 8), wrongModel, server, job("fits", 0, 1, 8)),
		setup(t, "2x8c/32g/8gpu:A100", "fifo"))
	want := []string{
		"big: no node has 1 cores, 1GiB, 9 GPUs", "gang: 3 workers of 1 cores, 1GiB, 8 GPUs each: the nodes hold 2 of them",
		"model: no node has a GPU of model H100", "server: 9 servers of 8 cores, 1GiB each: the nodes hold 2 of them",
	}
	if !slices.Equal(r.Excluded, want) {
		t.Errorf("got  %q\nwant %q", r.Excluded, want)
	}
	if r.Classes["all"].Count != 1 {
		t.Errorf("%d jobs ended, want 1", r.Classes["all"].Count)
	}
}
