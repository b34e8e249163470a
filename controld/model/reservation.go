package model

import (
	"cmp"
)

// Claim is room on one node kept for a job. It may be more than is free now: what is freed there
// goes to the job first.
type Claim struct {
	Node      string `json:"node"`
	Resources Vector `json:"resources"`
}

// Reservation keeps room for one waiting job, in the log, until the job starts, ends, or Until
// passes (invariant A5).
type Reservation struct {
	Job    JobID   `json:"job"`
	Claims []Claim `json:"claims"`
	At     Instant `json:"at"`
	Until  Instant `json:"until"`

	// ForPreemptor says that the room is being, or was, taken from others for this job alone. No
	// reservation made earlier goes before it, but for others of this kind.
	ForPreemptor bool `json:"for_preemptor,omitempty"`
	// Leftover says that no job was asked to leave for this one: it takes what jobs leave that were
	// asked to for others. It is dropped if one of these jobs gets its room back because the
	// waiting job no longer wants the room.
	Leftover bool `json:"leftover,omitempty"`
	// Guaranteed says that the job's account deserves the room. No reservation of one that does not,
	// made earlier, goes before it.
	Guaranteed bool `json:"guaranteed,omitempty"`
}

// Moving reports whether a job is being stopped to go on elsewhere: room may be kept for it before
// it waits.
func (j *Job) Moving() bool {
	a := j.Live()
	return a != nil && a.Stop != nil && a.Stop.Cause == CauseMigrate && a.Stop.Resize == nil
}

// MayHaveReserved reports whether room may be kept for a job: it waits, or is leaving and may have
// been [Job.Moving] until something else came up.
func (j *Job) MayHaveReserved() bool {
	if j.StillToStart() {
		return j.Hold == NotHeld
	}
	a := j.Live()
	return a != nil && a.Stop != nil
}

// Bounds of the record of a job's displacements: those of a day, and no more than any policy asks
// about.
const (
	DisplacedFor = 24 * 3600 * 1000 // ms
)

// DisplacedSince returns how many attempts of a job have ended for another job's sake after an
// instant that is not more than a day ago.
func (j *Job) DisplacedSince(at Instant) int {
	n := 0
	for _, d := range j.Displaced {
		if d > at {
			n++
		}
	}
	return n
}

// Precedes reports whether a reservation goes before another that claims the same room. Room taken
// from others for one job goes before room that is merely kept, then guaranteed room, then the
// older reservation. Two for preemptors never claim the same room; each binds the other's holder,
// as far as LiftClaims does not say otherwise.
func (r *Reservation) Precedes(o *Reservation) bool {
	switch {
	case o.ForPreemptor:
		return false
	case r.ForPreemptor:
		return true
	case r.Guaranteed != o.Guaranteed:
		return r.Guaranteed
	}
	return cmp.Or(cmp.Compare(r.At, o.At), cmp.Compare(r.Job, o.Job)) < 0
}
