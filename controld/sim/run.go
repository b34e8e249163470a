package sim

import (
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sim/trace"
)

// run is one job in a simulation: what the virtual nodes know of it, and what the result needs.
type run struct {
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
	held     cluster.Vector // by it
	joined   cluster.Vector // held already for workers with which it will continue
	workers  []place
	places   []cluster.Place // as in the plan, for plots
	assigned cluster.Instant
	from     cluster.Instant // progress begins
	rate     int64           // millionths of a ms of work in each ms
	stopped  cluster.Instant // when notice was given; 0: it was not
	cause    cluster.Cause   // of the stop

	// For the result.
	submitted   cluster.Instant
	first       cluster.Instant // start of the first attempt; 0: none
	ended       cluster.Instant // when it ended for good; 0: not yet
	timedOut    bool
	queued      cluster.Instant // pending since
	waited      int64           // ms before now
	preemptedAt cluster.Instant // when its last grace period ended, while it has not started again; 0 otherwise
	noticed     cluster.Instant // when that grace period began
	preempted   int32
}

// place is where one worker is, by the position of its node in the state.
type place struct {
	node   int32
	worker int32
}

// done returns how much work an attempt has done at an instant, in millionths of a ms, and for how
// many ms it has worked.
func (r *run) done(at cluster.Instant) (work, worked int64) {
	if at <= r.from {
		return 0, 0
	}
	worked = int64(at - r.from)
	if worked > (r.left-1)/r.rate+1 { // it ends earlier
		worked = (r.left-1)/r.rate + 1
	}
	return min(r.left, worked*r.rate), worked
}

// finish returns the instant at which the live attempt has done its work.
func (r *run) finish() cluster.Instant { return r.from + cluster.Instant((r.left-1)/r.rate+1) }

// stopWork sets the remaining work of an attempt that is stopped at an instant, and returns how
// many ms of work are lost.
func (r *run) stopWork(at cluster.Instant) (lost int64) {
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

// jct returns the ms from its submission to its end.
func (r *run) jct() int64 { return int64(r.ended - r.submitted) }

// slowdown returns how many times longer it took than undisturbed, at least 1.
func (r *run) slowdown() float64 { return max(1, float64(r.jct())/float64(r.alone)) }
