package model

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/jobspec"
)

// SliceMS is for how long a job runs, in milliseconds, before others on its node have their turn.
const SliceMS = 60_000

// TurnMS is the longest turn in milliseconds, without the way to the pause point. Turns of all
// nodes end together every five seconds.
const TurnMS = SliceMS + 5_000

// Causes for which an attempt is suspended, besides [CauseTE], [CauseReclaim] and [CauseOrder].
const (
	CauseSlice Cause = "slice" // it shares its GPUs over time, and others have their turn
)

// Switching is how an attempt was suspended and resumed. All its workers switch together: the log
// has one command for all of them, and the switch is over when the last has acknowledged it.
// A value is replaced and never changed.
//
// The clock of an attempt stands still while it is suspended. On resuming, its instants on the
// log's clock move by the length of the suspension. So its time limit, its service and what it has
// not saved are worked out as if it had never been away. Wall-clock times stay as they were.
type Switching struct {
	Number int     `json:"number"` // of commands so far: odd, it is to be suspended; even, to run
	Cause  Cause   `json:"cause"`  // of the last suspension
	For    JobID   `json:"for,omitempty"`
	At     Instant `json:"at"` // of the last command
	// since when it is suspended: every worker has paused, and its cores and GPUs are free; 0: it is not
	Since Instant `json:"since,omitempty"`
	// what it holds counts as usage from then on: what was before has been charged
	Charged Instant `json:"charged,omitempty"`
	Total   int64   `json:"total,omitempty"` // ms for which it was suspended, the present time left out

	// Turn is the service that it had in turns on its node until it was last told to go on, in ms
	// of its share. The job with the least service goes next. One that begins there has had as much
	// as the one that has had least.
	Turn   int64 `json:"turn,omitempty"`
	Weight int   `json:"weight,omitempty"` // of its share, in hundredths; 0: 100
	// Late says that it did not pause within [PauseLimit], and was told to go on: it is not told to
	// pause again.
	Late bool `json:"late,omitempty"`

	// what the last command has cost, once workers have carried it out: by which means they paused, and
	// how many ms it took the slowest
	Means  string `json:"means,omitempty"`
	TookMS int64  `json:"took_ms,omitempty"`
}

// PauseWithin is the time in milliseconds in which a job is expected to reach a pause point and
// give its room back. It covers a mini-batch and the copy of its memory.
const PauseWithin = 10_000

// PauseLimit is the time in milliseconds after which a suspension is given up if a worker has not
// acknowledged it. It is ten times the longest mini-batch in Gandiva's measurements.
const PauseLimit = 60_000

// CanSuspend reports whether a job can pause. Such a job gives its GPUs back between two
// mini-batches, keeps its state in memory, and later goes on on the same nodes. Nodes that a job
// has for itself would not be free.
func (j *Job) CanSuspend() bool {
	p := j.Spec.Preemption
	return p != nil && p.Mode == jobspec.PreemptSuspend && !j.Request.Exclusive &&
		!slices.ContainsFunc(j.Parts, func(p Part) bool { return p.Request.Exclusive })
}

// Suspended is what a worker keeps of its room while it is suspended: its memory.
func (r Request) Suspended() Request {
	return Request{Resident: Vector{Memory: r.Resident.Memory}}
}

// Suspended reports whether an attempt has paused as a whole and holds no cores and GPUs.
func (a *Attempt) Suspended() bool { return a.Switch != nil && a.Switch.Since != 0 }

// Suspending reports whether an attempt was told to pause, and some worker has not yet.
func (a *Attempt) Suspending() bool {
	return a.Switch != nil && a.Switch.Number%2 == 1 && a.Switch.Since == 0
}

// Resuming reports whether an attempt was told to go on, and some worker has not yet.
func (a *Attempt) Resuming() bool {
	return a.Switch != nil && a.Switch.Number%2 == 0 && !a.Switched()
}

// Late reports whether an attempt was to pause and has not within [PauseLimit]. It goes on, whether
// its workers say so or not.
func (a *Attempt) Late() bool { return a.Switch != nil && a.Switch.Late }

// Switched reports whether every worker that has not ended has acknowledged the last switch.
func (a *Attempt) Switched() bool {
	return !slices.ContainsFunc(a.Workers, func(w Worker) bool { return !w.State.Final() && w.Switch != a.Switch.Number })
}

// ActiveSince returns since when an attempt has run without being suspended.
func (a *Attempt) ActiveSince() Instant {
	if a.Switch == nil || a.Switch.Number == 0 {
		return a.Started.At
	}
	return a.Switch.At
}

// Turn returns how much service an attempt has had in turns on its node, see [Switching.Turn].
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

// ShareOf is what so many ms of running count for in turns.
func (a *Attempt) ShareOf(ms int64) int64 {
	return ms * 100 / a.weight()
}

// weight is that of the attempt's share, in hundredths.
func (a *Attempt) weight() int64 {
	if a.Switch == nil {
		return 100
	}
	return int64(cmp.Or(a.Switch.Weight, 100))
}

// TurnIn returns how long an attempt runs until it has had so much more service in turns, 0 if it has
// had it.
func (a *Attempt) TurnIn(service int64) Instant {
	return Instant((max(0, service)*a.weight() + 99) / 100)
}

// HeldSince is since when what an attempt holds has not been charged as usage.
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

// SuspendedMS returns for how long an attempt has been suspended until now, in ms.
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

// FreedBySuspension is what comes free of a worker's room when its attempt is suspended.
func (j *Job) FreedBySuspension(a *Attempt, worker int) Request {
	r := a.shared(j.RequestOf(worker))
	return r.Minus(r.Suspended())
}

// Holds returns the holdings of a worker that has not ended. That is its whole request, a part of
// its GPU if it shares the GPU, or its memory alone while it is suspended.
func (j *Job) Holds(a *Attempt, worker int) Request {
	r := j.RequestOf(worker)
	if a.Suspended() {
		return r.Suspended()
	}
	return a.shared(r)
}
