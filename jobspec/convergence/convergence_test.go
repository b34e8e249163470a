package convergence

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"
)

// tick is an evaluation with the reports before it.
type tick struct {
	at      int64 // s
	reports []float64
	want    Class
}

func one(at int64, value float64, want Class) tick { return tick{at, []float64{value}, want} }

// TestClasses shows the classes of one job from tick to tick; nothing else is reported as a change.
func TestClasses(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for name, test := range map[string]struct {
		max   bool
		ticks []tick
	}{
		"it slows down and converges": {false, []tick{one(30, 10, ""), one(60, 5, ""), one(90, 2, Progressing),
			one(120, 1, Watching), one(150, 0.9, Converged), one(180, 0.89, Converged)}},
		"the goal is a maximum": {true, []tick{one(30, 0, ""), one(60, 5, ""), one(90, 8, Progressing),
			one(120, 9, Watching), one(150, 9.2, Converged)}},
		"one class in a tick, and none while the change grows": {false, []tick{{30, []float64{10, 1, 1}, Progressing},
			one(60, 4.2, Progressing), one(90, 4.19, Watching), one(120, 4.1, Watching), one(150, 4.08, Converged)}},
		"it learns again": {false, []tick{{30, []float64{10, 5, 3}, Progressing}, one(60, 5.8, Progressing),
			one(90, 5.7, Watching), one(120, 5.7, Converged), one(150, 1, Progressing), one(180, 0.9, Watching)}},
		"exactly alpha is progressing": {false, []tick{{30, []float64{0, -10, 10}, Progressing}, one(130, -10, Progressing),
			one(230, 0, Progressing), one(330, 1, Watching)}},
		"without new reports nothing changes": {false, []tick{{30, []float64{10, 1, 5}, Progressing},
			{60, nil, Progressing}, {90, nil, Progressing}, one(120, 5.2, Progressing), {150, nil, Progressing},
			one(180, 5.15, Watching)}},
		"a change over a long time is a slow one": {false, []tick{{30, []float64{10, 0, 5}, Progressing},
			one(60, 5.2, Progressing), {10_000, []float64{0, 0}, Watching}}},
		"it never changes": {false, []tick{one(30, 7, ""), one(60, 7, ""), one(90, 7, Progressing),
			one(120, 7, Progressing), one(150, 7, Progressing), one(9999, 7, Progressing)}},
		"it only gets worse": {false, []tick{{30, []float64{1, 1, 2}, Progressing}, one(60, 3, Progressing),
			one(90, 3, Progressing), one(120, 3, Progressing)}},
		"not a number": {false, []tick{{30, []float64{nan, nan, nan}, Progressing}, one(60, nan, Progressing),
			{90, []float64{10, 5}, Progressing}, one(120, 5, Progressing), one(150, 5, Watching), one(180, nan, Progressing),
			one(210, 5, Progressing), one(240, 5, Progressing), one(270, 5, Watching), one(300, 5, Converged)}},
		"infinite": {false, []tick{{30, []float64{inf, 10, 5}, Progressing}, one(60, -inf, Progressing),
			{90, []float64{inf, -inf}, Progressing}, one(120, 5, Progressing)}},
		"it jumps": {false, []tick{{30, []float64{10, 1, 2}, Progressing}, one(60, 2, Progressing), one(90, 2, Watching),
			one(120, 1e300, Progressing), one(150, 2, Progressing), one(180, 2, Watching)}},
		"its range is too large": {false, []tick{{30, []float64{1e308, -1e308, 0}, Progressing}, one(60, 0, Progressing),
			one(90, 0, Progressing), one(120, 0, Progressing)}},
		"its sum is too large": {false, []tick{{30, []float64{1e308, 1e308, 1e308}, Progressing}, one(60, 1, Progressing),
			one(90, 1, Progressing), one(120, 1, Watching)}},
		"time goes back": {false, []tick{{30, []float64{10, 1, 5}, Progressing}, one(60, 5.2, Progressing),
			one(10, 5.1, Progressing), one(10, 5.1, Progressing), one(40, 5.1, Watching), one(5, 0, Watching),
			one(35, 0, Converged)}},
	} {
		t.Run(name, func(t *testing.T) {
			m := Meter{Max: test.max}
			before := Class("")
			for i, k := range test.ticks {
				for _, v := range k.reports {
					m.Report(v)
				}
				got, changed := m.Evaluate(k.at * 1000)
				if got != k.want || changed != (got != before) || got != m.Class() {
					t.Errorf("tick %d: got %q, changed %v; want %q", i, got, changed, k.want)
				}
				before = got
			}
		})
	}
}

// TestOriginOfEarlierAttempts shows that a job that goes on from a checkpoint is measured by
// everything it has learned, and that its noise is not mistaken for progress.
func TestOriginOfEarlierAttempts(t *testing.T) {
	classes := func(o Origin) (list []Class) {
		m := Meter{Origin: o}
		for i, v := range []float64{1.02, 1.01, 1.03, 1.01, 1.02, 1.01} {
			m.Report(v)
			c, _ := m.Evaluate(int64(i) * 30_000)
			list = append(list, c)
		}
		return list
	}
	if got := classes(Origin{}); slices.Contains(got, Converged) {
		t.Errorf("without what was before: %v", got)
	}
	if got := classes(Origin{First: 10, Best: 1, Known: true}); got[len(got)-1] != Converged {
		t.Errorf("with it: %v", got)
	}
}

// TestNoiseIsAveraged shows that noise of 1 % of the range does not keep a frequently reporting job
// from converging, because the mean of an interval counts.
func TestNoiseIsAveraged(t *testing.T) {
	m := Meter{}
	noise := uint64(1)
	for s := range int64(600) {
		noise = noise*6364136223846793005 + 1442695040888963407
		m.Report(10*math.Exp(-float64(s)/60) + 0.1*(float64(noise>>33)/(1<<30)-1))
		if s%30 == 29 {
			m.Evaluate(s * 1000)
		}
	}
	if m.Class() != Converged {
		t.Errorf("after ten time constants it is %s", m.Class())
	}
}

func TestWeights(t *testing.T) {
	for c, want := range map[Class]int64{"": 20, Progressing: 20, Watching: 15, Converged: 10} {
		if got := c.Weight(); got != want {
			t.Errorf("%q: got %d, want %d", c, got, want)
		}
	}
	if Class("done").Known() || Class("").Known() || !Converged.Known() {
		t.Error("known are other classes than the three")
	}
}

// FuzzMeter checks that a class is taken step by step whatever is reported, and is never lost.
func FuzzMeter(f *testing.F) {
	f.Add([]byte{}, false)
	f.Add(binary.LittleEndian.AppendUint64(nil, math.Float64bits(math.NaN())), true)
	var falls []byte
	for i := range 20 {
		falls = binary.LittleEndian.AppendUint64(falls, math.Float64bits(math.Exp(-float64(i))))
	}
	f.Add(falls, false)
	f.Fuzz(func(t *testing.T, data []byte, goal bool) {
		m := Meter{Max: goal}
		at, before := int64(0), Class("")
		for len(data) >= 8 {
			bits := binary.LittleEndian.Uint64(data)
			m.Report(math.Float64frombits(bits))
			data = data[8:]
			at += int64(bits%90_000) - 10_000
			if bits%3 == 0 {
				continue
			}
			got, changed := m.Evaluate(at)
			rank := slices.Index(Classes, got) - slices.Index(Classes, before)
			switch {
			case changed != (got != before):
				t.Fatalf("from %q to %q: changed %v", before, got, changed)
			case rank > 1:
				t.Fatalf("from %q to %q at once", before, got)
			case got == "" && before != "":
				t.Fatalf("it has no class after %q", before)
			}
			before = got
			if o := m.Origin; o.Known && (goal && o.Best < o.First || !goal && o.Best > o.First) {
				t.Fatalf("its best %g is worse than its first %g", o.Best, o.First)
			}
		}
	})
}
