package progress

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rota-hpc/rota/jobspec/convergence"
)

// TestClassMeter shows that a job is evaluated every 30 s however often it reports, and that only
// changes are returned.
func TestClassMeter(t *testing.T) {
	begin := time.Unix(1_700_000_000, 0)
	var m ClassMeter
	var o convergence.Origin
	var got []convergence.Class
	var at []int
	for s := 0; s < 600; s += 2 {
		loss := math.Exp(-float64(s) / 60)
		if class, changed := m.Report(loss, false, begin.Add(time.Duration(s)*time.Second), &o); changed {
			got, at = append(got, class), append(at, s)
		}
	}
	if !slices.Equal(got, convergence.Classes) || at[0] != 30 || at[1]%30 != 0 || at[2] != at[1]+30 {
		t.Errorf("got %v at %v s", got, at)
	}
	if !o.Known || o.First != 1 || o.Best > 1e-3 {
		t.Errorf("its range is %+v", o)
	}
	var next ClassMeter // of its next attempt on this node
	for s := range 40 {
		next.Report(0.002, false, begin.Add(time.Duration(s)*10*time.Second), &o)
	}
	if o.First != 1 || next.meter.Class() != convergence.Converged {
		t.Errorf("the next attempt is %s, with %+v", next.meter.Class(), o)
	}
}

// TestOriginsAreBounded shows that the job is forgotten that was asked for longest ago.
func TestOriginsAreBounded(t *testing.T) {
	var o Origins
	for id := range int64(maxOrigins) {
		o.Of(id).Known = true
	}
	o.Of(0)
	o.Of(maxOrigins)
	if len(o.jobs) != maxOrigins || !o.Of(0).Known || o.Of(maxOrigins).Known || o.jobs[1] != nil {
		t.Errorf("%d jobs are remembered", len(o.jobs))
	}
}

// TestAMetricThatStandsStill notices a job that loses its share because its metric, which it reports
// every ten seconds, does not change for a day but for its rounding and some noise: it has learned
// nothing that could slow down, so that it counts as progressing, as a job does that says nothing.
func TestAMetricThatStandsStill(t *testing.T) {
	begin := time.Unix(1_700_000_000, 0)
	noise := rand.New(rand.NewPCG(1, 2))
	for name, loss := range map[string]func() float64{
		"never changes":      func() float64 { return math.Ln2 },
		"is zero":            func() float64 { return 0 },
		"is rounded":         func() float64 { return float64(float32(math.Ln2 + 2e-7*noise.Float64())) },
		"is noisy":           func() float64 { return -2.3 * (1 + 0.001*noise.NormFloat64()) },
		"is huge, and noisy": func() float64 { return 1e300 * (1 + 0.001*noise.NormFloat64()) },
	} {
		var m ClassMeter
		var o convergence.Origin
		var got []convergence.Class
		for s := 0; s < 24*60*60; s += 10 {
			if class, changed := m.Report(loss(), false, begin.Add(time.Duration(s)*time.Second), &o); changed {
				got = append(got, class)
			}
		}
		if !slices.Equal(got, convergence.Classes[:1]) || got[0].Weight() != convergence.Class("").Weight() {
			t.Errorf("a metric that %s, with seed 1, 2: %d classes, among them %v", name, len(got), got[:min(len(got), 3)])
		}
	}
}
