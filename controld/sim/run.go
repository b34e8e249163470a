package sim

import (
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sim/trace"
)

// run is one job in a simulation: what the virtual nodes know of it, and what is remembered for the result.
type run struct {
	job     *trace.Job
	account int32
	user    int32
	gpus    int64 // held by all workers asked for, in thousandths
	alone   int64 // ms undisturbed
	left    int64 // millionths of a ms of work still to do
	declare int64 // ms of grace that its specification asks for
	limit   int64 // ms, its time limit if that is only a guess; 0 else

	// Of the live attempt.
	live     bool
	attempt  int32
	held     cluster.Vector // by it
	joined   cluster.Vector // kept already for workers that it will go on with
	workers  []place
	places   []cluster.Place // as the plan had them, for plots
	assigned cluster.Instant
	from     cluster.Instant // progress begins
	rate     int64           // millionths of a ms of work in each ms
	stopped  cluster.Instant // notice was given; 0: it was not
	cause    cluster.Cause   // of the stop

	// For the result.
	submitted cluster.Instant
	first     cluster.Instant // start of the first attempt; 0: none
	ended     cluster.Instant // for good; 0: not yet
	timedOut  bool
	queued    cluster.Instant // waits since
	waited    int64           // ms before now
	displaced cluster.Instant // its last grace ended and it has not started again; 0 else
	noticed   cluster.Instant // when that grace began
	preempted int32
}

// place is where one worker is, by position of the node in the state.
type place struct {
	node   int32
	worker int32
}

// done returns how much work an attempt has got done at an instant, in millionths of a ms, and for how many ms it has worked.
func (r *run) done(at cluster.Instant) (work, worked int64) {
	if at <= r.from {
		return 0, 0
	}
	worked = int64(at - r.from)
	if worked > (r.left-1)/r.rate+1 { // it ends before
		worked = (r.left-1)/r.rate + 1
	}
	return min(r.left, worked*r.rate), worked
}

// finish returns the instant at which the live attempt has done its work.
func (r *run) finish() cluster.Instant { return r.from + cluster.Instant((r.left-1)/r.rate+1) }

// keep settles what remains of an attempt's work that was stopped at an instant, and returns how many ms of work are lost.
func (r *run) keep(at cluster.Instant) (lost int64) {
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

// jct returns how many ms passed from its submission to its end.
func (r *run) jct() int64 { return int64(r.ended - r.submitted) }

// slowdown returns how many times longer it took than undisturbed, at least 1.
func (r *run) slowdown() float64 { return max(1, float64(r.jct())/float64(r.alone)) }
