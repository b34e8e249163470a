package synth

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/sim/trace"
	"github.com/rota-hpc/rota/jobspec"
)

func plain(n int) *trace.Trace {
	t := &trace.Trace{Name: "plain", Jobs: make([]trace.Job, n)}
	for i := range t.Jobs {
		j := trace.NewJob("j" + string(rune('a'+i%26)))
		j.User, j.Work = "u", int64(i%20+1)*minute
		j.Request.GPUs = int64(i%3) * gpu / 2
		j.Fill()
		t.Jobs[i] = *j
	}
	return t
}

func countTE(t *trace.Trace) (te int) {
	for i := range t.Jobs {
		if t.Jobs[i].Class == jobspec.TE {
			te++
		}
	}
	return te
}

// near fails if got is further from want than chance explains.
func near(t *testing.T, what string, got, want int) {
	t.Helper()
	if math.Abs(float64(got-want)) > 5*math.Sqrt(float64(want)) {
		t.Errorf("%s: %d, want about %d", what, got, want)
	}
}

func TestLabels(t *testing.T) {
	tr := plain(20_000)
	if err := LabelTE(tr, 10*minute); err != nil {
		t.Fatal(err)
	}
	for _, j := range tr.Jobs {
		if (j.Class == jobspec.TE) != (j.Work < 10*minute) {
			t.Fatalf("a job of %d ms is %s", j.Work, j.Class)
		}
	}
	before := slices.Clone(tr.Jobs)
	if err := NoiseTE(tr, 300, 100, 4); err != nil {
		t.Fatal(err)
	}
	missed, extra := 0, 0
	for i, j := range tr.Jobs {
		switch {
		case before[i].Class == jobspec.TE && j.Class == jobspec.BE:
			missed++
		case before[i].Class == jobspec.BE && j.Class == jobspec.TE:
			extra++
		}
	}
	near(t, "missed", missed, 9000*3/10)
	near(t, "extra", extra, 11000/10)
	te := countTE(tr)
	if err := NoiseTE(tr, 0, 0, 4); err != nil || countTE(tr) != te {
		t.Errorf("no noise changed labels (%v)", err)
	}
	if LabelTE(tr, 0) == nil || LabelTE(tr, trace.MaxTime+1) == nil || NoiseTE(tr, -1, 0, 1) == nil ||
		NoiseTE(tr, 0, 1001, 1) == nil {
		t.Error("absurd numbers are accepted")
	}
}

func TestDrawGrace(t *testing.T) {
	tr := plain(10_000)
	tr.Jobs[3].Grace = 7
	if err := DrawGrace(tr, 3*minute, 20*minute, 5); err != nil {
		t.Fatal(err)
	}
	var minutes []float64
	for i, j := range tr.Jobs {
		if j.Grace < 0 || j.Grace > 20*minute {
			t.Fatalf("job %d has a grace period of %d ms", i, j.Grace)
		}
		minutes = append(minutes, float64(j.Grace)/float64(minute))
	}
	mean, sd := moments(minutes)
	if want := trunc(3, 3, 0, 20, func(x float64) float64 { return x }); math.Abs(mean-want) > 4*sd/100 {
		t.Errorf("a mean of %.3f minutes, want %.3f", mean, want)
	}
	if tr.Jobs[3].Grace != 7 {
		t.Error("a known grace period was drawn anew")
	}
	if err := DrawGrace(plain(1), 0, 0, 5); err != nil {
		t.Errorf("no grace at all: %v", err)
	}
	if DrawGrace(tr, -1, 5, 1) == nil || DrawGrace(tr, 5, 4, 1) == nil || DrawGrace(tr, 5, trace.MaxTime+1, 1) == nil {
		t.Error("absurd numbers are accepted")
	}
}

func TestSaves(t *testing.T) {
	mix, err := ParseSaves("none:30%,signal:50%, 30m:20%")
	if err != nil {
		t.Fatal(err)
	}
	want := []MixPart{{trace.SavesNone, 0, 300}, {trace.SavesSignal, 0, 500}, {trace.SavesEvery, 30 * minute, 200}}
	if !slices.Equal(mix, want) {
		t.Fatalf("read as %v", mix)
	}
	tr := plain(10_000)
	tr.Jobs[0].Saves = trace.SavesSignal
	DrawSaves(tr, mix, 6)
	counts := map[trace.Saves]int{}
	for _, j := range tr.Jobs[1:] {
		counts[j.Saves]++
		if err := j.Check(); err != nil {
			t.Fatal(err)
		}
	}
	near(t, "none", counts[trace.SavesNone], 3000)
	near(t, "signal", counts[trace.SavesSignal], 5000)
	near(t, "every", counts[trace.SavesEvery], 2000)
	if tr.Jobs[0].Saves != trace.SavesSignal {
		t.Error("what was known was drawn anew")
	}
	if alone, err := ParseSaves("none"); err != nil || alone[0].Share != 1000 {
		t.Errorf("one way alone: %v, %v", alone, err)
	}
}

func TestParseSavesRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "time between checkpoints",
		"none:30%":            "add up to 30 %",
		"none:30%,signal:80%": "add up to 110 %",
		"none,signal":         "has no share",
		"none:30,signal:70":   "has no % sign",
		"none:-1%,signal:99%": "negative",
		"none:x%":             "not a number",
		"often:100%":          "not none, signal or the time",
		"0s:100%":             "not a time between checkpoints",
		"30:100%":             "no unit",
	} {
		if _, err := ParseSaves(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
}

func TestDrawEstimates(t *testing.T) {
	tr := plain(5000)
	tr.Jobs[2].Estimate = 5
	if err := DrawEstimates(tr, 3000, 7); err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for i, j := range tr.Jobs {
		f := float64(j.Estimate) / float64(j.Work)
		if i != 2 && (f < 0.999 || f > 3.001) {
			t.Fatalf("job %d is estimated %.3f times its length", i, f)
		}
		sum += f / float64(len(tr.Jobs))
	}
	if math.Abs(sum-2) > 0.05 {
		t.Errorf("a mean factor of %.3f, want 2", sum)
	}
	if tr.Jobs[2].Estimate != 5 {
		t.Error("a known estimate was drawn anew")
	}
	exact := plain(50)
	if err := DrawEstimates(exact, 1000, 7); err != nil || exact.Jobs[9].Estimate != exact.Jobs[9].Work {
		t.Errorf("exact estimates: %d for %d (%v)", exact.Jobs[9].Estimate, exact.Jobs[9].Work, err)
	}
	if DrawEstimates(tr, 999, 1) == nil || DrawEstimates(tr, 1_000_001, 1) == nil {
		t.Error("absurd numbers are accepted")
	}
}

// TestRedraw: as many jobs of the same kind at the same times, others with every seed, and the
// trace itself is left as it is.
func TestRedraw(t *testing.T) {
	tr := plain(300)
	for i := range tr.Jobs {
		tr.Jobs[i].Work = int64(i+1) * second
	}
	before := digest(tr)
	one, again, other := Redraw(tr, 1), Redraw(tr, 1), Redraw(tr, 2)
	if digest(one) != digest(again) || digest(one) == digest(other) || digest(tr) != before {
		t.Error("a seed does not say what is drawn, or the trace was changed")
	}
	ids, works := map[string]bool{}, map[int64]bool{}
	for i := range one.Jobs {
		j := &one.Jobs[i]
		ids[j.ID], works[j.Work] = true, true
		if err := j.Check(); err != nil || j.Submit != tr.Jobs[i].Submit || j.Work < second || j.Work > 300*second {
			t.Fatalf("job %d: %v, %+v", i, err, j)
		}
	}
	// Of 300 draws out of 300 about 190 are different.
	if len(ids) != 300 || len(works) < 150 || len(works) > 230 {
		t.Errorf("%d ids, %d different jobs", len(ids), len(works))
	}
}

// TestPace: arrivals are spread, at whole multiples of a tick if one is given.
func TestPace(t *testing.T) {
	for _, c := range []struct{ at, rate, tick, want int64 }{
		{60_000, 1000, 0, 60_000}, {57_000, 950, 0, 60_000}, {60_000, 950, 0, 63_157}, {60_000, 950, minute,
			minute}, {600_000, 950, minute, 11 * minute},
		{60_000, 2000, 0, 30_000}, {60_000, 2000, minute, minute}, {59_999, 2000, minute, 0}, {0, 1, 0, 0},
	} {
		tr := plain(1)
		tr.Jobs[0].Submit = c.at
		if err := Pace(tr, c.rate, c.tick); err != nil || tr.Jobs[0].Submit != c.want {
			t.Errorf("%+v: %d, %v", c, tr.Jobs[0].Submit, err)
		}
	}
	for _, c := range []struct{ at, rate, tick int64 }{{0, 0, 0}, {0, -5, 0}, {0, 100_001, 0}, {0, 1000, -1},
		{trace.MaxTime, 999, 0}, {trace.MaxTime, 1, 0}} {
		tr := plain(1)
		tr.Jobs[0].Submit = c.at
		if err := Pace(tr, c.rate, c.tick); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}

func TestInflate(t *testing.T) {
	tr := plain(300)
	got, err := Inflate(tr, 100*gpu, 1300, 8)
	if err != nil {
		t.Fatal(err)
	}
	asked, ids := int64(0), map[string]bool{}
	for i := range got.Jobs {
		j := &got.Jobs[i]
		asked += j.Demand(1).GPUs
		ids[j.ID] = true
		if err := j.Check(); err != nil || j.Work != trace.MaxTime || j.Submit != int64(i)*second {
			t.Fatalf("job %d: %v, %+v", i, err, j)
		}
	}
	if asked < 130*gpu || asked > 131*gpu {
		t.Errorf("%d thousandths of a GPU for 100 GPUs inflated to 1.3", asked)
	}
	if len(ids) != len(got.Jobs) {
		t.Errorf("%d ids for %d jobs", len(ids), len(got.Jobs))
	}
	none := plain(1)
	if _, err := Inflate(none, 100*gpu, 1300, 8); err == nil {
		t.Error("a trace without GPUs can be inflated")
	}
	if _, err := Inflate(tr, 0, 1300, 8); err == nil {
		t.Error("a cluster without GPUs can be inflated to")
	}
	if _, err := Inflate(tr, gpu, 0, 8); err == nil {
		t.Error("an inflation to nothing is accepted")
	}
}
