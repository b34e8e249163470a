package cluster

import (
	"cmp"
	"slices"
)

// What is remembered of a job's displacements: those of a day, and no more than any policy asks about.
const (
	displacedFor = 24 * 3600 * 1000 // ms
	maxDisplaced = 32
)

// DisplacedSince returns how many attempts of a job have ended for another job's sake after an instant that is not more than a day ago.
func (j *Job) DisplacedSince(at Instant) int {
	n := 0
	for _, d := range j.Displaced {
		if d > at {
			n++
		}
	}
	return n
}

// displaced notes that an attempt has ended for another job's sake, if that is the cause. What the other was to get is offered to the job
// itself when the other does not wait any more.
func (s *State) displaced(j *Job, cause Cause) {
	a := &j.Attempts[len(j.Attempts)-1]
	switch cause {
	case CauseTE, CauseReclaim, CauseOrder:
	case CauseMigrate: // there is room elsewhere, which is his before others look for it
		j.First = a.Stop.Resize == nil
		return
	default:
		return
	}
	s.recordStopDuration(j.Queue, a.Ended.At-a.Stop.At)
	over := s.v.at - displacedFor
	kept := slices.DeleteFunc(slices.Clone(j.Displaced), func(t Instant) bool { return t <= over })
	j.Displaced = append(kept[max(0, len(kept)+1-maxDisplaced):], s.v.at)
	j.Reason = Reason{Code: ReasonPreempted, For: a.Stop.For, Text: causeText[cause]}
	j.First = a.Stop.For != 0 && !s.wantsRoom(a.Stop.For)
}

// causeText says in words why a job was displaced.
var causeText = map[Cause]string{
	CauseTE:      "a trial-and-error job took its room",
	CauseReclaim: "an account took back what it deserves",
	CauseOrder:   "a job that has had less took its turn",
}

// wantsRoom reports whether a job still waits for room that is made for it.
func (s *State) wantsRoom(id JobID) bool {
	j := s.v.Job(id)
	return j != nil && j.waits() && !isSetAside(j)
}

// Before reports whether a reservation goes before another where both claim the same room: what was taken from others for one job goes
// before what is merely kept, and that by whether it is owed, then in the order in which it was reserved. Two firm ones never claim the same room; each binds the
// other's holder, as far as [Waive] does not say otherwise.
func (r *Reservation) Before(o *Reservation) bool {
	switch {
	case o.Firm:
		return false
	case r.Firm:
		return true
	case r.Owed != o.Owed:
		return r.Owed
	}
	return cmp.Or(cmp.Compare(r.At, o.At), cmp.Compare(r.Job, o.Job)) < 0
}

// emitFor is emitJob for what happens to an attempt because of its stop: the event names the job that it was stopped for.
func (s *State) emitFor(t EventType, j *Job, cause Cause) {
	e := Event{Type: t, Job: j.ID, Attempt: j.Attempt, Cause: cause}
	if n := len(j.Attempts); n > 0 && j.Attempts[n-1].Stop != nil {
		e.For = j.Attempts[n-1].Stop.For
	}
	s.emit(e)
}
