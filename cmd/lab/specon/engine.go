package specon

import (
	"math/rand/v2"

	"github.com/rota-hpc/rota/controld/sched/introspect"
	"github.com/rota-hpc/rota/jobspec/convergence"
)

// engine is one run under one policy. Its times are in ms; work is counted in microseconds of a
// whole worker, so that nothing is lost by rounding.
type engine struct {
	policy  *Policy
	workers int
	set     Setting
	now     int64
	runs    []run
	arrived int
	moves   int
	parts   []int64 // of each job of its worker, in hundredths of a usual part
	sums    []int64 // of the parts of a worker's jobs that work
}

// run is a job in the simulation.
type run struct {
	*job
	worker   int
	in       bool  // it has a worker
	began    int64 // when it began on its worker
	moving   int64 // until when it is on its way; 0: it is not
	rests    int64 // until when it does not move again
	received int64 // work that it has done, in microseconds
	done     int64 // when it was; 0: not yet
	well     int64 // when it had 95 % of its quality
	read     int64 // reports that have been read
	meter    convergence.Meter
	since    int64 // when it came to its class
}

// here reports whether a job counts at its worker.
func (v *run) here() bool { return v.in && v.done == 0 }

// working reports whether a job gets a part of its worker.
func (v *run) working() bool { return v.here() && v.moving == 0 }

// simulate runs jobs under a policy until all are done.
func simulate(jobs []job, p *Policy, workers int, set Setting, seed uint64) *engine {
	e := &engine{policy: p, workers: workers, set: set, runs: make([]run, len(jobs)),
		parts: make([]int64, len(jobs)), sums: make([]int64, workers)}
	for i := range jobs {
		e.runs[i] = run{job: &jobs[i], meter: convergence.Meter{Alpha: set.Alpha}}
	}
	ties := rand.New(rand.NewPCG(seed, 2))
	for left := len(jobs); left > 0; {
		e.divide()
		ended := e.advance(e.next())
		left -= ended
		for i := range e.runs {
			if v := &e.runs[i]; v.moving > 0 && v.moving <= e.now {
				v.moving = 0
			}
		}
		for ; e.arrived < len(jobs) && jobs[e.arrived].arrives <= e.now; e.arrived++ {
			if v := &e.runs[e.arrived]; !p.exclusive {
				v.worker, v.in, v.began = e.place(e.arrived, ties), true, e.now
			}
		}
		if p.exclusive {
			e.fill()
		}
		tick := e.now%set.Interval == 0
		if tick {
			e.evaluate()
		}
		if tick && p.asks {
			e.ask()
		}
		if p.evens && (tick || ended > 0) {
			e.even()
		}
	}
	return e
}

// fill gives workers without a job to those that wait for one.
func (e *engine) fill() {
	counts := e.counts()
	for i := range e.arrived {
		v := &e.runs[i]
		for w, n := range counts {
			if !v.in && n == 0 {
				v.worker, v.in = w, true
				counts[w]++
			}
		}
	}
}

// divide works out what part of its worker each job gets.
func (e *engine) divide() {
	clear(e.sums)
	for w := range e.workers {
		var on []int
		var takers []introspect.Taker
		for i := range e.runs {
			if v := &e.runs[i]; v.working() && v.worker == w {
				on = append(on, i)
				takers = append(takers, introspect.Taker{GPUs: gpu, Class: e.class(v)})
				e.parts[i] = 100
			}
		}
		if e.policy.weights {
			for k, weight := range introspect.Weights(takers) {
				e.parts[on[k]] = int64(weight)
			}
		}
		for _, i := range on {
			e.sums[w] += e.parts[i]
		}
	}
}

// next returns when something happens next: a tick, an arrival, a job that is done or has moved.
func (e *engine) next() int64 {
	at := (e.now/e.set.Interval + 1) * e.set.Interval
	if e.arrived < len(e.runs) {
		at = min(at, e.runs[e.arrived].arrives)
	}
	for i := range e.runs {
		switch v := &e.runs[i]; {
		case v.working():
			at = min(at, e.now+e.reaches(i, v.work))
		case v.here():
			at = min(at, v.moving)
		}
	}
	return at
}

// reaches returns in how many ms a job has done some work in all.
func (e *engine) reaches(i int, work int64) int64 {
	v := &e.runs[i]
	left := (work*1000 - v.received) * e.sums[v.worker]
	by := e.parts[i] * 1000
	return (left + by - 1) / by
}

// advance has jobs work until an instant, and returns how many are done then.
func (e *engine) advance(to int64) (ended int) {
	for i := range e.runs {
		v := &e.runs[i]
		if !v.working() {
			continue
		}
		if good := v.good(); v.well == 0 {
			if at := e.now + e.reaches(i, good); at <= to {
				v.well = at
			}
		}
		v.received += (to - e.now) * 1000 * e.parts[i] / e.sums[v.worker]
		if v.received >= v.work*1000 {
			v.done = to
			ended++
		}
	}
	e.now = to
	return ended
}

// evaluate classifies the jobs by what they have reported since the last tick.
func (e *engine) evaluate() {
	for i := range e.runs {
		v := &e.runs[i]
		if !v.here() {
			continue
		}
		until := v.reported(v.received / 1000)
		if v.read == 0 && v.received > 0 {
			v.meter.Report(v.loss(0))
		}
		for v.read < until {
			v.read++
			v.meter.Report(v.loss(v.read))
		}
		if _, changed := v.meter.Evaluate(v.received / 1000); changed {
			v.since = e.now
		}
	}
}
