package profile

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// sampled returns what a sampler of 20 Hz sees of a signal for a time, at irregular intervals.
func sampled(rng *rand.Rand, span int64, signal func(s float64) float64) []Point {
	var out []Point
	for at := int64(0); at < span; at += Jitter(rng.Float64()) {
		out = append(out, Point{at, signal(float64(at) / 1000)})
	}
	return out
}

// noises are series without a period, by what makes them.
var noises = map[string]func(rng *rand.Rand) func(s float64) float64{
	"constant": func(*rand.Rand) func(float64) float64 { return func(float64) float64 { return 8e9 } },
	"constant, last digit": func(rng *rand.Rand) func(float64) float64 {
		return func(float64) float64 { return 900 + float64(rng.IntN(10)) }
	},
	"zero": func(*rand.Rand) func(float64) float64 { return func(float64) float64 { return 0 } },
	"white": func(rng *rand.Rand) func(float64) float64 {
		return func(float64) float64 { return 500 + 200*rng.NormFloat64() }
	},
	"random walk": func(rng *rand.Rand) func(float64) float64 {
		v := 5e3
		return func(float64) float64 { v += 100 * rng.NormFloat64(); return v }
	},
	"random walk, slow to return": func(rng *rand.Rand) func(float64) float64 {
		v, keep := 0.0, 0.7+0.29*rng.Float64()
		return func(float64) float64 { v = keep*v + 100*rng.NormFloat64(); return 500 + v }
	},
	"on and off for any time": func(rng *rand.Rand) func(float64) float64 {
		on, until, mean := 0.0, 0.0, 0.1+2*rng.Float64()
		return func(s float64) float64 {
			for s >= until {
				on, until = 1000-on, until+mean*rng.ExpFloat64()
			}
			return on
		}
	},
	"batches of any length": func(rng *rand.Rand) func(float64) float64 {
		from, until, mean := 0.0, 0.0, 0.2+2*rng.Float64()
		return func(s float64) float64 {
			for s >= until {
				from, until = until, until+2*mean*rng.Float64()
			}
			return 1e9 + 4e9*(s-from)/(until-from)
		}
	},
	"one step": func(rng *rand.Rand) func(float64) float64 {
		at := 30 * rng.Float64()
		return func(s float64) float64 {
			if s < at {
				return 1
			}
			return 2
		}
	},
	"a few peaks": func(rng *rand.Rand) func(float64) float64 {
		return func(float64) float64 { return 10 + 900*math.Floor(rng.Float64()+0.02) }
	},
	"faster than the samples": func(rng *rand.Rand) func(float64) float64 {
		period := 0.005 + 0.145*rng.Float64()
		return batches(period, 0.7)
	},
	"slower than it takes": func(rng *rand.Rand) func(float64) float64 {
		return batches(10+10*rng.Float64(), 0.8)
	},
}

// batches is a signal that falls to a tenth at the end of each period.
func batches(period, busy float64) func(float64) float64 {
	return func(s float64) float64 {
		if phase := s/period - math.Floor(s/period); phase > busy {
			return 100
		}
		return 1000
	}
}

// TestNoiseHasNoPeriod counts the periods that are found where there is none.
func TestNoiseHasNoPeriods(t *testing.T) {
	const series, seed = 1000, 1
	for name, noise := range noises {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 2))
			found := 0
			for range series {
				if _, known := Periods(sampled(rng, 30_000, noise(rng))); known {
					found++
				}
			}
			t.Logf("seed %d: %d of %d series have a period", seed, found, series)
			if found > series/100 {
				t.Errorf("%d of %d series have a period", found, series)
			}
		})
	}
}

// rhythms are series with a period.
var rhythms = map[string]func(rng *rand.Rand, period float64) func(s float64) float64{
	"utilisation": func(_ *rand.Rand, period float64) func(float64) float64 { return batches(period, 0.8) },
	"short dips":  func(_ *rand.Rand, period float64) func(float64) float64 { return batches(period, 0.9) },
	"short peaks": func(_ *rand.Rand, period float64) func(float64) float64 { return batches(period, 0.2) },
	"memory": func(_ *rand.Rand, period float64) func(float64) float64 {
		return func(s float64) float64 { // forward allocates, backward frees
			phase := s/period - math.Floor(s/period)
			return 1e9 + 8e9*(1-math.Abs(2*phase-1))
		}
	},
	"noisy": func(rng *rand.Rand, period float64) func(float64) float64 {
		clean := batches(period, 0.6)
		return func(s float64) float64 { return clean(s) + 200*rng.NormFloat64() }
	},
	"each batch another time": func(rng *rand.Rand, period float64) func(float64) float64 {
		from, until := 0.0, 0.0
		return func(s float64) float64 {
			for s >= until {
				from, until = until, until+period*(0.95+0.1*rng.Float64())
			}
			return 1e9 + 4e9*(s-from)/(until-from)
		}
	},
	"drifting": func(_ *rand.Rand, period float64) func(float64) float64 {
		clean := batches(1, 0.7)
		return func(s float64) float64 { return clean(s/period - s*s/period/30*0.04) } // slower by 8 % in the end
	},
}

// TestBadSeries shows that what cannot be samples has no period.
func TestBadSeries(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	good := sampled(rng, 30_000, batches(0.5, 0.7))
	if _, known := Periods(good); !known {
		t.Fatal("a good series has none")
	}
	for name, change := range map[string]func(p []Point) []Point{
		"none":                  func([]Point) []Point { return nil },
		"few":                   func(p []Point) []Point { return p[:minPoints-1] },
		"no number":             func(p []Point) []Point { p[50].Value = math.NaN(); return p },
		"infinite":              func(p []Point) []Point { p[50].Value = math.Inf(-1); return p },
		"time goes back":        func(p []Point) []Point { p[50].At = 0; return p },
		"a gap":                 func(p []Point) []Point { return append(p[:100], p[120:]...) },
		"large":                 func(p []Point) []Point { p[50].Value = 1e300; return p },
		"it ends in the middle": func(p []Point) []Point { return flat(p, len(p)/2) },
		"it begins with nothing": func(p []Point) []Point {
			return append(flat(slices.Clone(p), 0)[:len(p)/2], p[len(p)/2:]...)
		},
	} {
		if got, known := Periods(change(slices.Clone(good))); known {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// flat is a series that does not change from a point on.
func flat(p []Point, from int) []Point {
	for i := range p[from:] {
		p[from+i].Value = 7
	}
	return p
}

// TestPeriods shows how many periods are found, and how exact they are.
func TestPeriods(t *testing.T) {
	const series, seed = 300, 3
	for name, rhythm := range rhythms {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 4))
			found, wrong, worst := 0, 0, 0.0
			for range series {
				period := 0.15 * math.Pow(20, rng.Float64()) // to 3 s
				got, known := Periods(sampled(rng, 30_000, rhythm(rng, period)))
				if !known {
					continue
				}
				found++
				off := math.Abs(float64(got)*period/1000 - 1)
				if worst = max(worst, off); off > 0.1 {
					wrong++
				}
			}
			t.Logf("seed %d: %d of %d found, %d wrong, at most %.1f %% off", seed, found, series, wrong, 100*worst)
			if found < series/2 || wrong > 0 {
				t.Errorf("%d of %d found, %d of them more than 10 %% off", found, series, wrong)
			}
		})
	}
}

func ExamplePeriods() {
	rng := rand.New(rand.NewPCG(1, 1))
	rate, known := Periods(sampled(rng, 30_000, batches(0.5, 0.8)))
	fmt.Println(rate, known)
	// Output: 2000 true
}

// BenchmarkRhythm measures what it costs to find the rhythm of one GPU, which is done twice in a burst.
func BenchmarkRhythm(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	var w Window
	signal := batches(0.5, 0.8)
	for at := int64(0); at < BurstMS; at += Jitter(rng.Float64()) {
		w.Add(at, int64(signal(float64(at)/1000)), 1<<20*int64(signal(float64(at)/1000)), true)
	}
	for b.Loop() {
		if rate, known := w.Rhythm(); !known || rate != 2000 {
			b.Fatal(rate, known)
		}
	}
}
