package model

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/jobspec"
)

// SliceMS is how long a job runs, in milliseconds, before other jobs on its node get their turn.
const SliceMS = 60_000

// TurnMS is the longest turn in milliseconds, not counting the time to reach the pause point. Turns
// on all nodes end together every five seconds.
const TurnMS = SliceMS + 5_000

// Causes for which an attempt is suspended, besides [CauseTE], [CauseReclaim] and [CauseOrder].
const (
	CauseSlice Cause = "slice" // time slicing: it shares its GPUs over time, and others have their turn
)

// Switching is the history of an attempt's suspensions and resumptions. All its workers switch
// together: one command in the log covers all of them, and the switch ends when the last has
// acknowledged it. A value is replaced and never changed.
//
// The attempt's clock stands still while it is suspended. On resuming, its instants on the log's
// clock move by the length of the suspension. So its time limit, service and unsaved work are
// computed as if it had never been suspended. Wall-clock times are not changed.
type Switching struct {
	Number int     `json:"number"` // number of commands so far; odd: suspend, even: run
	Cause  Cause   `json:"cause"`  // cause of the last suspension
	For    JobID   `json:"for,omitempty"`
	At     Instant `json:"at"` // time of the last command
	// start of the suspension: every worker has paused, and cores and GPUs are free; 0: not
	// suspended
	Since Instant `json:"since,omitempty"`
	// usage before this time has been charged
	Charged Instant `json:"charged,omitempty"`
	Total   int64   `json:"total,omitempty"` // total ms of suspension, without a current one

	// Turn is the attempt's service in turns on its node, up to the last command to continue, in ms
	// of its share. The job with the least service has the next turn. A job that joins the rotation
	// starts with the least service of the others.
	Turn   int64 `json:"turn,omitempty"`
	Weight int   `json:"weight,omitempty"` // weight of its share in hundredths; 0: 100
	// Late means that it did not pause within [PauseLimit] and was told to continue; it is not told
	// to pause again.
	Late bool `json:"late,omitempty"`

	// cost of the last command once workers have carried it out: the method, and the ms of the
	// slowest worker
	Means  string `json:"means,omitempty"`
	TookMS int64  `json:"took_ms,omitempty"`
}

// PauseWithin is the expected time in milliseconds until a job reaches a pause point and releases
// its resources. It covers a mini-batch and the copy of its memory.
const PauseWithin = 10_000

// PauseLimit is the time in milliseconds after which a suspension is given up if a worker has not
// acknowledged it. It is ten times the longest mini-batch in Gandiva's measurements.
const PauseLimit = 60_000

// CanSuspend reports whether a job can pause. Such a job releases its GPUs between two
// mini-batches, keeps its state in memory, and later continues on the same nodes. a job with nodes
// of its own would keep them busy while it is paused
func (j *Job) CanSuspend() bool {
	p := j.Spec.Preemption
	return p != nil && p.Mode == jobspec.PreemptSuspend && !j.Request.Exclusive &&
		!slices.ContainsFunc(j.Parts, func(p Part) bool { return p.Request.Exclusive })
}

// Suspended returns what a worker keeps while it is suspended: its memory.
func (r Request) Suspended() Request {
	return Request{Resident: Vector{Memory: r.Resident.Memory}}
}

// Suspended reports whether all workers of an attempt have paused, so that it holds no cores and
// GPUs.
func (a *Attempt) Suspended() bool { return a.Switch != nil && a.Switch.Since != 0 }

// Suspending reports whether an attempt was told to pause and some worker has not paused yet.
func (a *Attempt) Suspending() bool {
	return a.Switch != nil && a.Switch.Number%2 == 1 && a.Switch.Since == 0
}

// Resuming reports whether an attempt was told to continue and some worker has not continued yet.
func (a *Attempt) Resuming() bool {
	return a.Switch != nil && a.Switch.Number%2 == 0 && !a.Switched()
}

// Late reports whether an attempt has failed to pause within [PauseLimit]. It then counts as
// running, whatever its workers report.
func (a *Attempt) Late() bool { return a.Switch != nil && a.Switch.Late }

// Switched reports whether every worker that has not ended has acknowledged the last switch.
func (a *Attempt) Switched() bool {
	return !slices.ContainsFunc(a.Workers, func(w Worker) bool { return !w.State.Final() && w.Switch != a.Switch.Number })
}

// ActiveSince returns since when an attempt has run without a suspension.
func (a *Attempt) ActiveSince() Instant {
	if a.Switch == nil || a.Switch.Number == 0 {
		return a.Started.At
	}
	return a.Switch.At
}

// Turn returns an attempt's service in turns on its node, see [Switching.Turn].
func (a *Attempt) Turn(now Instant) int64 {
	var s Switching
	if a.Switch != nil {
		s = *a.Switch
	}
	if s.Number%2 == 1 || a.Started.At == 0 {
		return s.Turn
	}
	return s.Turn + int64(max(0, now-a.ActiveSince()))*100/a.weight()
}

// ShareOf converts ms of running into service in turns.
func (a *Attempt) ShareOf(ms int64) int64 {
	return ms * 100 / a.weight()
}

// weight is the weight of the attempt's share, in hundredths.
func (a *Attempt) weight() int64 {
	if a.Switch == nil {
		return 100
	}
	return int64(cmp.Or(a.Switch.Weight, 100))
}

// TurnIn returns how long an attempt must run to get this much service in turns; 0 if it has it.
func (a *Attempt) TurnIn(service int64) Instant {
	return Instant((max(0, service)*a.weight() + 99) / 100)
}

// HeldSince is the time since which an attempt's holdings have not been charged as usage.
func (a *Attempt) HeldSince() Instant {
	since := a.ChargedFrom()
	if a.Switch != nil {
		since = max(since, a.Switch.Charged)
	}
	if a.Packed() {
		since = max(since, a.Packing.Since)
	}
	return since
}

// Clock returns the present instant on the attempt's clock, which stands still while it is
// suspended.
func (a *Attempt) Clock(now Instant) Instant {
	if a.Suspended() {
		return a.Switch.Since
	}
	return now
}

// HeldUntil returns until when a worker that ended at an instant held its GPUs, on the attempt's
// clock.
func (a *Attempt) HeldUntil(ended Instant) Instant { return min(ended, a.Clock(ended)) }

// SuspendedMS returns the total suspension of an attempt until now, in ms.
func (a *Attempt) SuspendedMS(now Instant) int64 {
	switch {
	case a.Switch == nil:
		return 0
	case a.Suspended():
		return a.Switch.Total + int64(now-a.Switch.Since)
	}
	return a.Switch.Total
}

// ShiftClock moves the clock of an attempt.
func (a *Attempt) ShiftClock(by Instant) {
	move := func(t *Instant) {
		if *t != 0 {
			*t += by
		}
	}
	move(&a.Assigned.At)
	move(&a.Started.At)
	move(&a.Rated)
	move(&a.ClassSince)
	for i := range a.Workers {
		move(&a.Workers[i].Started)
		move(&a.Workers[i].Ended)
	}
}

// FreedBySuspension returns what a worker releases when its attempt is suspended.
func (j *Job) FreedBySuspension(a *Attempt, worker int) Request {
	r := a.shared(j.RequestOf(worker))
	return r.Minus(r.Suspended())
}

// Holds returns the holdings of an unfinished worker. That is its request, a part of its GPU if it
// shares the GPU, or only its memory while it is suspended.
func (j *Job) Holds(a *Attempt, worker int) Request {
	r := j.RequestOf(worker)
	if a.Suspended() {
		return r.Suspended()
	}
	return a.shared(r)
}
