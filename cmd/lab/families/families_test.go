package main

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/sim/trace/synth"
)

// fixed are the rows of three draws with easy numbers: means and 99th percentiles of the judged
// policy, backfill, las, fairshare, sjf and srtf.
func fixed() []row {
	of := func(draw int, means, tails [6]float64) row {
		var list []outcome
		for i := range means {
			list = append(list, outcome{Mean: means[i], P99: tails[i], WallS: 1})
		}
		return newRow(workload{Draw: draw, Kind: "mixed", Nodes: 4, Users: 2, Hours: 1, Sigma: 2, Load: 1, Jobs: 9}, list)
	}
	rows := []row{
		of(1, [6]float64{10, 20, 10, 40, 5, 4}, [6]float64{130, 100, 10, 50, 9, 9}),      // as good as las, just within
		of(2, [6]float64{12, 10, 20, 16, 6, 5}, [6]float64{131, 50, 9999, 100, 9, 9}),    // worse than backfill
		of(3, [6]float64{9, 10, 12, 12, 9, 9}, [6]float64{80, 100, 200, 100, 9, 9}),      // better than all
		of(4, [6]float64{100, 100, 101, 100, 100, 100}, [6]float64{9, 10, 10, 10, 9, 9}), // no job waits
	}
	rows[1].Rivals[1].Unended = 7
	return rows
}

// TestTheTable: which draws count as good, and by how much the policies differ on average.
func TestTheTable(t *testing.T) {
	rows := fixed()
	for i, want := range []struct {
		regret, tail, exact float64
		equal               bool
	}{{1, 1.3, 0.4, false}, {1.2, 1.31, 0.5, false}, {0.9, 0.8, 0.9, false}, {1, 0.9, 1, true}} {
		r := &rows[i]
		if r.Regret != want.regret || r.Tail != want.tail || r.Exact != want.exact || r.Equal != want.equal {
			t.Errorf("draw %d: %g, %g, %g and %v, want %+v", i+1, r.Regret, r.Tail, r.Exact, r.Equal, want)
		}
	}
	s := summarise(rows)
	if s.Draws != 4 || s.GoodMeans != 3 || s.GoodTails != 3 || s.Equal != 1 {
		t.Errorf("of %d draws %d and %d are good and %d are equal, want 4, 3, 3 and 1", s.Draws, s.GoodMeans, s.GoodTails,
			s.Equal)
	}
	near := func(what string, got, want float64) {
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %g, want %g", what, got, want)
		}
	}
	near("regret", s.Regret, (1+1.2+0.9+1)/4)
	near("exact", s.Exact, (0.4+0.5+0.9+1)/4)
	for name, want := range map[string]float64{
		"backfill":  (0.5 + 1.2 + 0.9 + 1) / 4,
		"las":       (1.0 + 0.6 + 0.75 + 100.0/101) / 4,
		"fairshare": (0.25 + 0.75 + 0.75 + 1) / 4,
		"sjf":       (2.0 + 2.0 + 1.0 + 1) / 4,
		"srtf":      (2.5 + 2.4 + 1.0 + 1) / 4,
	} {
		near("against "+name, s.Against[name], want)
	}
	if !slices.Equal(s.Worst, []int{2, 1, 4}) || !slices.Equal(s.WorstTail, []int{2, 1, 4}) {
		t.Errorf("worst draws %v and %v, want 2, 1, 4", s.Worst, s.WorstTail)
	}
	var out strings.Builder
	if err := (&table{Judged: "rota", Seed: 1, Rows: rows, Summary: s}).print(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1.200*", "1.31*", "1.000 ", "1.30 ", "20.0/100", "las: 7 jobs did not end",
		"in 3, p99 at most 1.3 times the larger in 3", "worst means: draws 2 1 4", "exact lengths 0.700",
		"within 1 % of each other in 1:"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table has no %q:\n%s", want, &out)
		}
	}
}

// TestDraws: a draw depends on the seed and its number alone, stays within the bounds, and is a
// workload that rota sim knows. A third has similar lengths.
func TestDraws(t *testing.T) {
	similar := 0
	for k := 1; k <= 300; k++ {
		w := drawWorkload(1, k, 0)
		if w != drawWorkload(1, k, 0) || w == drawWorkload(2, k, 0) {
			t.Fatalf("draw %d: the seed does not say what is drawn", k)
		}
		if w.Load < 0.8 || w.Load > 1.15 || w.Sigma < 0.1 || w.Sigma > 2.5 || w.Jobs < leastJobs || w.Jobs > 2*mostJobs {
			t.Fatalf("draw %d is out of bounds: %+v", k, w)
		}
		if w.Kind == "similar" {
			similar++
		}
		if (w.Kind == "similar") != (w.Sigma <= 0.3) {
			t.Fatalf("draw %d is %s with a sigma of %g", k, w.Kind, w.Sigma)
		}
		if _, err := synth.ParseGenerator(w.trace()); err != nil {
			t.Fatalf("draw %d: %v", k, err)
		}
	}
	if similar != 100 {
		t.Errorf("%d of 300 draws have similar lengths, want 100", similar)
	}
	w := drawWorkload(1, 5, 77)
	if w.Jobs != 77 {
		t.Errorf("%d jobs, want the 77 that were asked for", w.Jobs)
	}
	w.Quotas = true
	if c := w.command("rota"); !strings.Contains(c, ",accounts=") || !strings.Contains(c, " --deserved equal ") {
		t.Errorf("no quotas in %s", c)
	}
}

// TestRun simulates two small draws, and prints the command of one.
func TestRun(t *testing.T) {
	var out, command strings.Builder
	judged := options{draws: 2, seed: 3, jobs: 25, policy: "rota:elastic=off", quotas: true, json: true}
	if err := run(&judged, &out); err != nil {
		t.Fatal(err)
	}
	var got table
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Rows) != 2 || got.Judged != "rota:elastic=off" || got.Rows[0].Judged.Mean <= 0 || got.Rows[1].Regret <= 0 {
		t.Errorf("got %s", &out)
	}
	if err := run(&options{draws: 1, draw: 2, seed: 3, jobs: 25, policy: "rota", quotas: true}, &command); err != nil {
		t.Fatal(err)
	}
	w := got.Rows[1].workload
	if want := w.command("rota") + "\n"; command.String() != want || !strings.Contains(want, "jobs=25,") {
		t.Errorf("the command is %s want %s", &command, want)
	}
	for _, o := range []options{
		{draws: 1, policy: "best"}, {draws: 0, policy: "rota"}, {draws: 1, jobs: -1, policy: "rota"},
	} {
		if err := run(&o, &out); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}
