package model

import (
	"errors"
	"fmt"
	"slices"
)

// Resizing is how an attempt was resized while it ran: an elastic job with resize = "signal". To
// shrink, its last elastic workers are asked to stop, and their room comes free as each exits; the
// others run on. To grow, workers are added after the others, and start as soon as their containers
// exist. One resize ends before the next begins. Elastic jobs are never suspended, as package rules
// has it, so that the attempt's clock never stands still. A value is replaced and never changed.
type Resizing struct {
	N      int     `json:"n"`      // resizes so far
	At     Instant `json:"at"`     // when the last one took effect
	Before Ledger  `json:"before"` // what the attempt was charged until then, those that have left included
}

// ErrResizing says that an attempt is being resized while it runs.
var ErrResizing = errors.New("workers of the attempt join or leave")

// Joining reports whether workers have joined an attempt and do not run yet.
func (a *Attempt) Joining() bool {
	return slices.ContainsFunc(a.Workers, func(w Worker) bool { return w.IsJoining() })
}

// IsJoining reports whether a worker was added to a running attempt and is not running itself yet.
func (w *Worker) IsJoining() bool { return w.Joined > 0 && Rank(w.State) < Rank(WorkerRunning) }

// Shrinking reports whether workers of an attempt leave while the others go on.
func (a *Attempt) Shrinking() bool { return a.Shrink != nil && a.Stop == nil }

// StopOf returns the stop of one worker of an attempt: the whole attempt's, or its own if it leaves
// alone and earlier. It is nil if the worker goes on.
func (a *Attempt) StopOf(worker int) *Stop {
	if a.Shrink != nil && a.Workers[worker].Leaving && (a.Stop == nil || a.Shrink.KillAt <= a.Stop.KillAt) {
		return a.Shrink
	}
	return a.Stop
}

// Staying counts the workers of an attempt that are not to leave while others go on. They come
// first.
func (a *Attempt) Staying() int {
	n := len(a.Workers)
	for n > 0 && a.Workers[n-1].Leaving {
		n--
	}
	return n
}

// ChargedFrom is since when what the workers of an attempt hold is not in its job's ledger, on the
// attempt's clock.
func (a *Attempt) ChargedFrom() Instant {
	if a.Resizing != nil {
		return max(a.Assigned.At, a.Resizing.At)
	}
	return a.Assigned.At
}

// CheckSignal says why an attempt may not be resized while it runs.
func (r *Resize) CheckSignal(j *Job, a *Attempt) error {
	switch {
	case a.Started.At == 0:
		return fmt.Errorf("its workers do not run yet: %w", ErrWrongState)
	case a.Shrink != nil || a.Joining():
		return ErrResizing
	case len(r.Leave) > 0 && (len(r.Join) > 0 || r.Leave[0] != len(a.Workers)-len(r.Leave)):
		return fmt.Errorf("only the last workers leave while the others go on: %w", ErrBadSize)
	}
	return nil
}

// CheckShrink says whether those workers of an attempt leave that may.
func CheckShrink(j *Job, a *Attempt) error {
	stay := a.Staying()
	leaves := slices.ContainsFunc(a.Workers[:stay], func(w Worker) bool { return w.Leaving })
	e, _ := j.Elastic()
	switch {
	case leaves, (stay < len(a.Workers)) != (a.Shrink != nil):
		return fmt.Errorf("workers leave that are not the last: %w", ErrBadSize)
	case a.Shrink != nil && (!e.Signal || !e.Has(stay-e.Fixed)):
		return fmt.Errorf("%d workers stay: %w", stay, ErrBadSize)
	}
	return nil
}
