package picture

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sim"
	"github.com/rota-hpc/rota/controld/sim/trace"
	"github.com/rota-hpc/rota/controld/sim/trace/synth"
	"github.com/rota-hpc/rota/jobspec"
)

func result(t *testing.T, spec, policy string) *sim.Result {
	t.Helper()
	nodes, err := trace.ParseNodes("4x32c/256g/8gpu")
	if err != nil {
		t.Fatal(err)
	}
	g, err := synth.ParseGenerator(spec)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := g.Trace(1, trace.Capacity(nodes))
	if err != nil {
		t.Fatal(err)
	}
	p, err := sim.ParsePolicy(policy)
	if err != nil {
		t.Fatal(err)
	}
	r, err := sim.Run(tr, sim.Setup{Nodes: nodes, Policy: p, Spans: true})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestSuspendedJobs: two jobs that take turns on a GPU are never drawn there at once, and the queue
// shows when one is suspended.
func TestSuspendedJobs(t *testing.T) {
	for policy, want := range map[string]bool{"fifo": false, "fifo:oversubscribe=2": true} {
		r := result(t, "six:jobs=34", policy)
		spans := slices.SortedFunc(slices.Values(r.Story.Spans),
			func(a, b sim.Span) int { return cmp.Compare(a.Start, b.Start) })
		until := map[sim.Row]int64{}
		for _, s := range spans {
			if row := s.Rows[0]; s.Start < until[row] {
				t.Errorf("%s: job %s begins at %d ms on a GPU that another one has until %d ms", policy, s.ID, s.Start, until[row])
			} else {
				until[row] = s.End
			}
		}
		out, err := Draw("six", []Run{{policy, r}})
		if err != nil {
			t.Fatal(err)
		}
		if has := strings.Contains(string(out), ">Suspended<"); has != want || want != (len(spans) > 34) {
			t.Errorf("%s: %d spans, a panel of suspended jobs: %v", policy, len(spans), has)
		}
	}
}

// TestBeginning: of a run with many attempts all that start before some instant are drawn, also
// those that end long after it.
func TestBeginning(t *testing.T) {
	at := func(id string, start, end int64) sim.Span {
		return sim.Span{ID: id, Start: start, End: end, Stopped: true}
	}
	long, short, late, last := at("long", 0, 100), at("short", 0, 5), at("late", 5, 9), at("last", 7, 8)
	byEnd := []sim.Span{short, last, late, long}
	for _, test := range []struct {
		most int
		want string
	}{
		{4, "short 5 stopped, long 100 stopped, late 9 stopped, last 8 stopped"},
		{3, "short 5 stopped, long 7, late 7"},
		{2, "short 5 stopped, long 5"},
		{1, "short 5 stopped, long 5"}, // both start at once
	} {
		var got []string
		for _, s := range beginning(byEnd, test.most) {
			text := fmt.Sprintf("%s %d", s.ID, s.End)
			if s.Stopped {
				text += " stopped"
			}
			got = append(got, text)
		}
		if text := strings.Join(got, ", "); text != test.want {
			t.Errorf("at most %d: %s, want %s", test.most, text, test.want)
		}
	}
	if byEnd[3].End != 100 {
		t.Error("the story itself was cut")
	}
}

func TestDrawWithoutStory(t *testing.T) {
	for _, runs := range [][]Run{nil, {{"fifo", &sim.Result{Trace: "x"}}}} {
		if _, err := Draw("x", runs); !errors.Is(err, ErrNoStory) {
			t.Errorf("%d runs: %v", len(runs), err)
		}
	}
}

// TestAxes: whatever is the greatest value, an axis reaches it with few labels a round number apart.
func TestAxes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for range 20_000 {
		most := math.Pow(10, 14*r.Float64()-6)
		for _, whole := range []bool{false, true} {
			a := linear("x", most, whole)
			step := a.ticks[1]
			mantissa := step / math.Pow(10, math.Floor(math.Log10(step)+1e-9))
			if n := len(a.ticks); n < 2 || n > mostTicks || a.ticks[0] != 0 || a.last() < most*(1-1e-6) ||
				n > 2 && a.last()-step >= most || whole && step != math.Trunc(step) ||
				!slices.ContainsFunc([]float64{1, 2, 2.5, 5}, func(m float64) bool { return math.Abs(mantissa-m) < 1e-6 }) {
				t.Fatalf("up to %g, whole %v: %v", most, whole, a.ticks)
			}
		}
		if most < 1 {
			continue
		}
		d := decades("x", most)
		if n := len(d.ticks); n < 2 || n > 12 || d.ticks[0] != 1 || d.last() < most || d.at(1) != 0 || d.at(d.last()) != 1 {
			t.Fatalf("logarithmic, up to %g: %v", most, d.ticks)
		}
	}
	for _, most := range []float64{0, -1, math.Inf(1), math.NaN()} {
		if a := linear("x", most, false); len(a.ticks) < 2 {
			t.Errorf("up to %g: %v", most, a.ticks)
		}
	}
}

// TestSharesOfCores: without GPUs the accounts share the cores; those that held most come first.
func TestSharesOfCores(t *testing.T) {
	nodes, err := trace.ParseNodes("2x8c/32g")
	if err != nil {
		t.Fatal(err)
	}
	job := func(account string, cores, minutes int64) trace.Job {
		return trace.Job{ID: account, User: account, Account: account, Class: jobspec.BE, Priority: trace.MidPriority,
			Work: minutes * 60_000, Workers: 1,
			MinWorkers: 1, MaxWorkers: 1, Request: model.Vector{Cores: cores, Memory: jobspec.GiB}}
	}
	p, err := sim.ParsePolicy("fifo")
	if err != nil {
		t.Fatal(err)
	}
	tr := &trace.Trace{Name: "cores", Jobs: []trace.Job{job("little", 2, 20), job("much", 8, 10)}}
	r, err := sim.Run(tr, sim.Setup{Nodes: nodes, Policy: p, Spans: true})
	if err != nil {
		t.Fatal(err)
	}
	out, err := Draw("cores", []Run{{"fifo", r}})
	if err != nil {
		t.Fatal(err)
	}
	var accounts []string
	for _, m := range regexp.MustCompile(`class="account"[^>]*>([^<]*)<`).FindAllStringSubmatch(string(out), -1) {
		accounts = append(accounts, m[1])
	}
	if !slices.Equal(accounts, []string{"much", "little"}) || !strings.Contains(string(out), ">% of the cores<") ||
		strings.Contains(string(out), ">GPUs held<") {
		t.Errorf("accounts %q", accounts)
	}
}
