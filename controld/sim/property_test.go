package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sim/trace"
	"github.com/rota-hpc/rota/controld/sim/trace/synth"
	"github.com/rota-hpc/rota/jobspec"
)

// drawn returns a workload of many kinds of jobs on a cluster that is too small for it.
func drawn(tb testing.TB, seed uint64, jobs int) *trace.Trace {
	tb.Helper()
	g, err := synth.ParseGenerator(fmt.Sprintf("poisson:jobs=%d,load=1.1", jobs))
	if err != nil {
		tb.Fatal(err)
	}
	nodes, _ := trace.ParseNodes("12x32c/256g/8gpu")
	t, err := g.Trace(seed, trace.Capacity(nodes))
	if err != nil {
		tb.Fatal(err)
	}
	mix, err := synth.ParseSaves("none:30%,signal:50%,30m:20%")
	if err != nil {
		tb.Fatal(err)
	}
	synth.DrawSaves(t, mix, seed)
	if err := synth.DrawGrace(t, 60_000, 600_000, seed); err != nil {
		tb.Fatal(err)
	}
	return t
}

func crowded(tb testing.TB, policy string) Setup { return setup(tb, "12x32c/256g/8gpu", policy) }

// TestEveryPolicyKeepsTheInvariants replays drawn workloads with all checks on. Every job must be
// served, and the totals must account for all time.
func TestEveryPolicyKeepsTheInvariants(t *testing.T) {
	for _, name := range PolicyNames() {
		for seed := range uint64(2) {
			t.Run(fmt.Sprintf("%s seed=%d", name, seed), func(t *testing.T) {
				s := crowded(t, name)
				s.Overhead = 60_000
				r := mustRun(t, drawn(t, seed, 300), s)
				all := r.Classes["all"]
				if all.Count+r.Unended+len(r.Excluded) != r.Jobs || r.Unended > 0 || r.Placed != all.Count {
					t.Errorf("%d of %d jobs ended, %d did not, %d were left out, %d placed", all.Count, r.Jobs, r.Unended,
						len(r.Excluded), r.Placed)
				}
				if all.Slowdown.P50 < 1 || all.Slowdown.P50 > all.Slowdown.P95 || all.Slowdown.P999 > all.Slowdown.Max {
					t.Errorf("slowdowns are out of order: %+v", all.Slowdown)
				}
				held := 0.0
				for _, x := range r.Story.Spans {
					held += float64(x.End-x.Start) * float64(x.GPUs) / 1e6
				}
				if math.Abs(held-r.GPUS) > 1e-6*held {
					t.Errorf("attempts held %g GPU s, accounts were charged %g", held, r.GPUS)
				}
			})
		}
	}
}

// TestEveryPolicyOnMixedClusters does the same with two GPU models in two racks. Some jobs need one
// model. There are gangs with servers beside their workers, priorities and time limits.
func TestEveryPolicyOnMixedClusters(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 7))
	var jobs []trace.Job
	for i := range 250 {
		j := gang(fmt.Sprint(i), int64(i), 5+r.Int64N(60), 1+r.IntN(3), r.Int64N(5))
		j.User, j.Account, j.Priority = fmt.Sprintf("user%d", r.IntN(6)), fmt.Sprintf("account%d", r.IntN(3)), 30+r.IntN(3)*20
		j.Locality[trace.Across] = trace.FullRate / 2
		switch r.IntN(6) {
		case 0:
			j.Models = []string{"H100"}
		case 1:
			j.Models = []string{"A100", "H100"}
		case 2:
			j.Servers, j.Server = 1+r.IntN(2), model.Vector{Cores: 2, Memory: jobspec.GiB}
		case 3:
			j.Class, j.Work = jobspec.TE, minute*(1+r.Int64N(5))
		case 4:
			j.Limit = (20 + r.Int64N(40)) * minute
		}
		jobs = append(jobs, j)
	}
	for _, name := range PolicyNames() {
		t.Run(name, func(t *testing.T) {
			s := setup(t, "3x16c/64g/4xA100@r1,3x16c/64g/4xH100@r2", name)
			s.Overhead, s.Deserved.Equal = minute, true
			got := mustRun(t, workload(jobs...), s)
			if all := got.Classes["all"]; all.Count != 250 || got.Unended != 0 || len(got.Excluded) != 0 {
				t.Errorf("%d of 250 ended, %d did not, left out %q", all.Count, got.Unended, got.Excluded)
			}
			if got.TimedOut == 0 || got.TimedOut > 45 {
				t.Errorf("%d jobs were killed at their limit", got.TimedOut)
			}
		})
	}
}

// TestDeterminism replays a workload twice: the results must be equal to the byte.
func TestDeterminism(t *testing.T) {
	for _, name := range PolicyNames() {
		var first []byte
		for range 2 {
			b, err := json.Marshal(mustRun(t, drawn(t, 7, 200), crowded(t, name)))
			if err != nil {
				t.Fatal(err)
			}
			if first != nil && string(b) != string(first) {
				t.Errorf("policy %s: two runs differ:\n%s\n%s", name, first, b)
			}
			first = b
		}
	}
}

// mixed returns a workload of jobs with and without GPUs, some of which request more memory than
// cores. It is so large that best-effort jobs rotate.
func mixed(tb testing.TB, seed uint64, jobs int) *trace.Trace {
	t := drawn(tb, seed, jobs)
	for i := range t.Jobs {
		if j := &t.Jobs[i]; i%3 == 0 {
			j.Class, j.Request = jobspec.BE, model.Vector{Cores: int64(1 + i%13), Memory: jobspec.GiB * jobspec.Bytes(1+i%97)}
		}
	}
	return t
}

// ownTimes are the policies with durations of their own, so doubling all times of a workload
// changes their decisions.
var ownTimes = []string{"rota", "fairshare", "standard", "las", "srtf", "elastic", "dragon"}

// TestMetamorphic makes changes that must not matter.
func TestMetamorphic(t *testing.T) {
	for _, change := range []struct {
		name string
		do   func(*trace.Trace, *Setup)
	}{
		{"names", func(t *trace.Trace, _ *Setup) {
			r := rand.New(rand.NewPCG(1, 2))
			order := r.Perm(len(t.Jobs))
			for i := range t.Jobs {
				t.Jobs[i].ID = fmt.Sprintf("job-%d", order[i])
			}
		}},
		{"names of accounts and users", func(t *trace.Trace, _ *Setup) {
			for i := range t.Jobs {
				t.Jobs[i].Account, t.Jobs[i].User = "x"+reversed(t.Jobs[i].Account), "y"+reversed(t.Jobs[i].User)
			}
		}},
		{"later by 10^9 seconds", func(t *trace.Trace, _ *Setup) {
			for i := range t.Jobs {
				t.Jobs[i].Submit += 1_000_000_000 * 1000
			}
		}},
		{"units of half a core", func(t *trace.Trace, s *Setup) { finer(t, s, 2, 1) }},
		{"units of half a byte", func(t *trace.Trace, s *Setup) { finer(t, s, 1, 2) }},
		{"units of a third of a core, of a quarter of a byte", func(t *trace.Trace, s *Setup) { finer(t, s, 3, 4) }},
		{doubled, func(t *trace.Trace, s *Setup) {
			for i := range t.Jobs {
				j := &t.Jobs[i]
				j.Submit, j.Work, j.Every = j.Submit*2, j.Work*2, j.Every*2
				if j.Grace > 0 {
					j.Grace *= 2
				}
			}
			s.Overhead *= 2
		}},
	} {
		for _, name := range PolicyNames() {
			if change.name == doubled && slices.Contains(ownTimes, name) {
				continue
			}
			t.Run(change.name+" under "+name, func(t *testing.T) {
				before, s := mixed(t, 3, 400), crowded(t, name)
				want := mustRun(t, before, s).Classes["all"].Slowdown
				after := mixed(t, 3, 400)
				change.do(after, &s)
				got := mustRun(t, after, s).Classes["all"].Slowdown
				for _, p := range [][2]float64{{got.Mean, want.Mean}, {got.P50, want.P50}, {got.P95, want.P95}} {
					if math.Abs(p[0]-p[1]) > 0.02*p[1] {
						t.Fatalf("slowdowns were %+v and are %+v", want, got)
					}
				}
			})
		}
	}
}

const doubled = "units of half a second"

// finer counts cores and memory in smaller units.
func finer(t *trace.Trace, s *Setup, cores int64, memory jobspec.Bytes) {
	s.Nodes = slices.Clone(s.Nodes)
	for i := range s.Nodes {
		s.Nodes[i].Cores, s.Nodes[i].Memory = s.Nodes[i].Cores*cores, s.Nodes[i].Memory*memory
	}
	for i := range t.Jobs {
		r := &t.Jobs[i].Request
		r.Cores, r.Memory = r.Cores*cores, r.Memory*memory
	}
}

func reversed(text string) string {
	letters := []rune(text)
	slices.Reverse(letters)
	return string(letters)
}

// TestPoliciesDoNotKnowDurations changes how long jobs really run. Decisions must stay the same
// until the first of these jobs ends at another time.
func TestPoliciesDoNotKnowDurations(t *testing.T) {
	type decision struct {
		at   model.Instant
		plan string
	}
	record := func(tr *trace.Trace, name string) (all []decision, r *Result) {
		s := crowded(t, name)
		s.decided = func(at model.Instant, p *fsm.CommitPlan) {
			b, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, decision{at, string(b)})
		}
		return all, mustRun(t, tr, s)
	}
	ignorant := 0
	for i := range policyRows {
		row := &policyRows[i]
		for seed := range uint64(3) {
			before, after := drawn(t, seed, 200), drawn(t, seed, 200)
			for k := range before.Jobs {
				if row.knows == knowsLimits { // known on purpose, but no more than that
					before.Jobs[k].Estimate = before.Jobs[k].Work + int64(k%7)*minute
					after.Jobs[k].Estimate = before.Jobs[k].Estimate
				}
			}
			for k := 100; k < len(after.Jobs); k++ {
				after.Jobs[k].Work = 1 + after.Jobs[k].Work*int64(1+k%5)/2
			}
			a, x := record(before, row.name)
			b, y := record(after, row.name)
			first := firstDifference(x, y)
			upTo := func(list []decision) (cut []decision) {
				for _, d := range list {
					if d.at < first {
						cut = append(cut, d)
					}
				}
				return cut
			}
			same := reflect.DeepEqual(upTo(a), upTo(b))
			if row.knows == knowsAll {
				continue
			}
			ignorant++
			if !same {
				t.Errorf("policy %s, seed %d: decisions before %d differ although the workloads were alike until then",
					row.name, seed, first)
			}
			if len(upTo(a)) < 20 {
				t.Errorf("policy %s, seed %d: only %d decisions were compared", row.name, seed, len(upTo(a)))
			}
		}
	}
	if ignorant < 3*8 {
		t.Errorf("only %d runs were compared", ignorant)
	}
}

// firstDifference returns the first instant at which an attempt ends in only one of two runs.
func firstDifference(x, y *Result) model.Instant {
	key := func(s Span) string { return fmt.Sprintf("%s %d %d", s.ID, s.Start, s.End) }
	first := model.Instant(math.MaxInt64)
	for _, pair := range [][2]*Result{{x, y}, {y, x}} {
		known := map[string]bool{}
		for _, s := range pair[1].Story.Spans {
			known[key(s)] = true
		}
		for _, s := range pair[0].Story.Spans {
			if !known[key(s)] {
				first = min(first, epoch+model.Instant(s.End))
			}
		}
	}
	return first
}

// TestOraclesAreTold checks that sjf does decide differently with other lengths, so the test above
// can fail.
func TestOraclesAreTold(t *testing.T) {
	a := mustRun(t, workload(job("a", 0, 10, 8), job("b", 1, 5, 8), job("c", 1, 9, 8)), setup(t, "1x8c/8gpu", "sjf"))
	b := mustRun(t, workload(job("a", 0, 10, 8), job("b", 1, 9, 8), job("c", 1, 5, 8)), setup(t, "1x8c/8gpu", "sjf"))
	if !strings.HasPrefix(spans(a), "a 0-10, b 10-15") || !strings.HasPrefix(spans(b), "a 0-10, c 10-15") {
		t.Errorf("got %s and %s", spans(a), spans(b))
	}
}

func TestClosedLoop(t *testing.T) {
	g, err := synth.ParseGenerator("fitgpp:jobs=600")
	if err != nil {
		t.Fatal(err)
	}
	source, err := g.Source(5)
	if err != nil {
		t.Fatal(err)
	}
	s := crowded(t, "fifo")
	s.Tick = minute
	tr, err := CloseLoop(source, "closed", 2000, s)
	if err != nil {
		t.Fatal(err)
	}
	if len(tr.Jobs) != 600 || !slices.IsSortedFunc(tr.Jobs, func(a, b trace.Job) int { return int(a.Submit - b.Submit) }) {
		t.Fatalf("%d jobs, or not in order", len(tr.Jobs))
	}
	var demand model.Vector
	first := 0
	for i := range tr.Jobs {
		if tr.Jobs[i].Submit%minute != 0 {
			t.Fatalf("job %d was submitted between ticks, at %d", i, tr.Jobs[i].Submit)
		}
		if tr.Jobs[i].Submit == 0 {
			first++
			demand = demand.Plus(tr.Jobs[i].Demand(1))
		}
	}
	capacity := trace.Capacity(s.Nodes)
	if load := synth.Load(demand, capacity); load < 2000 || load > 2600 {
		t.Errorf("the %d jobs of the first instant make a load of %d thousandths", first, load)
	}
	if tr.Jobs[len(tr.Jobs)-1].Submit == 0 {
		t.Error("all jobs came at once")
	}
}

func TestUntilAndStopped(t *testing.T) {
	s := setup(t, "1x8c/8gpu", "fifo")
	s.Until = 12 * minute
	r := mustRun(t, workload(job("a", 0, 10, 8), job("b", 1, 5, 8), job("late", 20, 1, 1)), s)
	if r.Classes["all"].Count != 1 || r.Placed != 2 || r.Unended != 1 {
		t.Errorf("%d ended, %d placed, %d not ended", r.Classes["all"].Count, r.Placed, r.Unended)
	}
	if want := 12.0 * 60 * 8; r.GPUS != want {
		t.Errorf("held %g GPU s, want %g", r.GPUS, want)
	}
	s = crowded(t, "fifo")
	s.Stopped = func() bool { return true }
	r = mustRun(t, drawn(t, 1, 500), s)
	if !r.Stopped || r.Classes["all"].Count == 0 || r.Classes["all"].Count >= 500 {
		t.Errorf("stopped %v after %d jobs", r.Stopped, r.Classes["all"].Count)
	}
	if notes := strings.Join(r.Notes, "; "); !strings.Contains(notes, "had not arrived when the run was stopped") {
		t.Errorf("notes: %s", notes)
	}
}

// TestNoJobEnds: two jobs are preempted for a third every minute, each when the other is back, and
// their restarts take all of their time. The run must end all the same, and say so.
func TestNoJobEnds(t *testing.T) {
	x, y := job("x", 0, 600, 4), job("y", 0, 600, 4)
	x.Grace, x.Restart, y.Grace, y.Restart = minute, minute, minute*3/2, 2*minute
	w := workload(x, y, job("both", 360, 10, 8))
	s := setup(t, "1x8c/8gpu", "las")
	s.maxPreempts = 300
	r := mustRun(t, w, s)
	if r.Unended != 3 || r.PreemptionsMaxJob != 300 || len(r.Notes) != 1 ||
		!strings.Contains(r.Notes[0], "under las, job x was preempted 300 times and will never end: the run ends 16 h") {
		t.Errorf("%d not ended, %d displacements of one, %q", r.Unended, r.PreemptionsMaxJob, r.Notes)
	}
	s.maxPreempts = 1
	// The last arrives when early has ended, and x is preempted for it.
	loop := workload(x, job("early", 0, 300, 4), job("both", 0, 10, 8))
	if _, err := CloseLoop(Replay(loop), "loop", 1000, s); !errors.Is(err, ErrStuck) {
		t.Errorf("a closed loop in which a job is preempted too often: %v, want %v", err, ErrStuck)
	}
}
