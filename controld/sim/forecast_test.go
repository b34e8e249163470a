package sim

import (
	"math/rand/v2"
	"testing"

	"github.com/rota-hpc/rota/controld/forecast"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sim/trace"
)

// TestForecastsHold asks when each job starts, once, right after it has arrived, and compares with
// when it does. All time limits are honest: no job needs more. At least 90 % of the jobs start no
// later than was said. Others were overtaken by jobs that arrived later. The policies fairshare
// and rota order by service, so that jobs which left and came back overtake too. No forecast knows
// these. The counts are logged, also of the jobs that waited at all.
func TestForecastsHold(t *testing.T) {
	for _, policy := range []string{"fifo", "backfill", "fairshare", "rota"} {
		t.Run(policy, func(t *testing.T) {
			f := judgeForecasts(t, policy, 0)
			t.Logf("%d of %d starts are no later than was said (%.1f %%), and %d of %d of jobs that waited (%.1f %%); "+
				"%d late ones were overtaken by later arrivals; %d starts are before the earliest instant", f.held, f.starts,
				100*float64(f.held)/float64(f.starts), f.heldOfWaiting, f.waiting, 100*float64(f.heldOfWaiting)/float64(f.waiting),
				f.overtaken, f.tooEarly)
			if f.waiting < 15 || f.starts < 250 {
				t.Errorf("only %d of %d jobs waited", f.waiting, f.starts)
			}
			if f.held*10 < f.starts*9 || f.heldOfWaiting*4 < f.waiting*3 || policy == "fifo" && f.held != f.starts {
				t.Errorf("%d of %d jobs start later than was said", f.starts-f.held, f.starts)
			}
			if f.tooEarly*50 > f.starts {
				t.Errorf("%d of %d jobs start before the earliest instant", f.tooEarly, f.starts)
			}
		})
	}
}

// forecasts counts the forecasts of a run that hold.
type forecasts struct{ starts, held, waiting, heldOfWaiting, overtaken, tooEarly int }

// honest returns a workload whose jobs have time limits from their runtime to twice that.
func honest(t *testing.T, seed uint64) *trace.Trace {
	w := drawn(t, seed, 400)
	r := rand.New(rand.NewPCG(seed, 3))
	for i := range w.Jobs {
		j := &w.Jobs[i]
		j.Limit = wholeSeconds(j.Work*(1000+r.Int64N(1000))/1000) + 1000
		j.Saves, j.Grace, j.Restart = trace.SavesSignal, 0, 0
	}
	return w
}

// judgeForecasts runs a workload, and counts the forecasts that hold.
func judgeForecasts(t *testing.T, policy string, seed uint64) (f forecasts) {
	w, s := honest(t, seed), crowded(t, policy)
	s.fill()
	jobs, _ := admit(w, s.Nodes)
	e, err := newEngine(&s, &arrivals{jobs: jobs}, w.Accounts())
	if err != nil {
		t.Fatal(err)
	}
	e.runs, e.origin = make([]run, 0, len(jobs)), jobs[0].Submit
	e.totals.last = e.instant(jobs[len(jobs)-1].Submit)
	e.useful.from, e.useful.to = epoch, e.totals.last
	estimates := map[model.JobID]forecast.Estimate{}
	always := func() func() bool { return func() bool { return false } }
	for seen := 0; ; {
		at, more := e.next()
		if !more || e.idle() {
			break
		}
		e.now = at
		e.totals.advance(e)
		if err := e.step(); err != nil {
			t.Fatal(err)
		}
		for ; seen < len(e.runs); seen++ {
			id := e.runs[seen].id
			if j := e.state.View().Job(id); j != nil && j.State == model.Pending {
				estimates[id] = forecast.Of(e.state.View(), e.now, []model.JobID{id}, always)[id]
			}
		}
	}
	for i := range e.runs {
		r := &e.runs[i]
		f.starts++
		x, waited := estimates[r.id]
		if !waited { // it started at once
			f.held++
			continue
		}
		f.waiting++
		switch {
		case x.Latest == 0:
			t.Errorf("job %d: %s", r.id, x.Basis)
		case r.first <= x.Latest:
			f.held, f.heldOfWaiting = f.held+1, f.heldOfWaiting+1
		default:
			for k := i + 1; k < len(e.runs); k++ {
				if later := &e.runs[k]; later.first != 0 && later.first < r.first {
					f.overtaken++
					break
				}
			}
		}
		if r.first < x.Earliest {
			f.tooEarly++
		}
	}
	return f
}
