package sim

import (
	"iter"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sim/trace"
)

// run is one job in a simulation: its record on the virtual nodes, and the data for the result.
type run struct {
	id      model.JobID
	job     *trace.Job
	account int32
	user    int32
	gpus    int64 // held by all requested workers, in thousandths
	alone   int64 // ms undisturbed
	left    int64 // millionths of a ms of work still to do
	declare int64 // ms of grace in its specification
	limit   int64 // ms, its time limit if that is only an estimate; 0 otherwise

	// Of the live attempt.
	live     bool
	attempt  int32
	held     model.Vector // by it
	joined   model.Vector // held already for workers with which it will continue
	workers  []place
	places   []model.Place // as in the plan, for plots
	assigned model.Instant
	from     model.Instant // progress begins
	rate     int64         // millionths of a ms of work in each ms
	stopped  model.Instant // when notice was given; 0: it was not
	cause    model.Cause   // of the stop
	stretch  int32         // counts changes of its rate: ends that were foreseen before are void
	did      int64         // millionths of a ms of work before the present stretch
	device   device        // its GPU, if it has one alone and the trace names its network
	switches int           // as model.Switching.Number
	began    model.Instant // the stretch: it holds its capacity since
	holds    model.Instant // it holds its room since; 0: it is suspended

	// Of a search.
	search *search // to which it belongs; nil: none
	task   int     // its number there, from 1

	// For the result.
	submitted   model.Instant
	first       model.Instant // start of the first attempt; 0: none
	ended       model.Instant // when it ended for good; 0: not yet
	timedOut    bool
	cancelled   bool          // before its work was done
	queued      model.Instant // pending since
	waited      int64         // ms before now
	preemptedAt model.Instant // when its last grace period ended, while it has not started again; 0 otherwise
	noticed     model.Instant // when that grace period began
	preempted   int32
	feedback    model.Instant // 100 mini-batches were done; 0: not yet
}

// place is where one worker is, by the position of its node in the state.
type place struct {
	node   int32
	worker int32
}

// suspended reports whether the live attempt has paused and holds nothing but its memory.
func (r *run) suspended() bool { return r.live && r.holds == 0 }

// done returns how much work an attempt has done at an instant, in millionths of a ms, and for how
// many ms it has worked.
func (r *run) done(at model.Instant) (work, worked int64) {
	if at <= r.from {
		return 0, 0
	}
	worked = min(int64(at-r.from), (r.left-1)/r.rate+1) // it may end earlier
	return min(r.left, worked*r.rate), worked
}

// finish returns the instant at which the live attempt has done its work.
func (r *run) finish() model.Instant { return r.from + model.Instant((r.left-1)/r.rate+1) }

// stopWork sets the remaining work of an attempt that is stopped at an instant, and returns how
// many ms of work are lost.
func (r *run) stopWork(at model.Instant) (lost int64) {
	work, worked := r.done(at)
	switch r.job.Saves {
	case trace.SavesNone:
		return worked
	case trace.SavesEvery:
		kept := worked / r.job.Every * r.job.Every
		r.left -= min(work, kept*r.rate)
		return worked - kept
	}
	r.left -= work
	return 0
}

// endedRuns are the jobs that have ended for good, in order of submission. Those that were
// cancelled are left out.
func (e *engine) endedRuns() iter.Seq[*run] {
	return func(yield func(*run) bool) {
		for i := range e.runs {
			if v := &e.runs[i]; v.ended > 0 && !v.cancelled && !yield(v) {
				return
			}
		}
	}
}

// jct returns the ms from its submission to its end.
func (r *run) jct() int64 { return int64(r.ended - r.submitted) }

// slowdown returns how many times longer it took than undisturbed, at least 1.
func (r *run) slowdown() float64 { return max(1, float64(r.jct())/float64(r.alone)) }
