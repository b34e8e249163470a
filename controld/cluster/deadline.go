package cluster

import (
	"fmt"
	"iter"

	"github.com/rota-hpc/rota/jobspec"
)

// instant turns a time in a job, RFC 3339, into one on the log's clock: as far from now as it is from the wall clock of this entry.
func (s *State) instant(what, text string) (Instant, error) {
	seconds, err := jobspec.ParseTime(text)
	if err != nil {
		return 0, &SpecError{fmt.Sprintf("%s: %v", what, err)}
	}
	return s.v.at + Instant(seconds*1000-int64(s.v.wall)), nil
}

// setTimes fills in from when a drafted job may start and when it is given up.
func (s *State) setTimes(j *Job) error {
	if text := j.Spec.Begin; text != "" {
		at, err := s.instant("begin", text)
		if err != nil {
			return err
		}
		if at > j.Eligible {
			j.Eligible = at
			if j.Hold == NotHeld {
				j.Reason = Reason{Code: ReasonBegin, Until: at}
			}
		}
	}
	if j.Spec.Deadline == "" {
		return nil
	}
	at, err := s.instant("deadline", j.Spec.Deadline)
	if err != nil {
		return err
	}
	j.Deadline = at
	switch {
	case at <= s.v.at:
		return &SpecError{fmt.Sprintf("deadline %s has passed", j.Spec.Deadline)}
	case j.pastDue(s.v.at):
		return &SpecError{fmt.Sprintf("deadline %s comes before a job that begins then and runs for its time_limit could end", j.Spec.Deadline)}
	}
	return nil
}

// LatestStart returns the last instant at which a job with a deadline may start: so early that it can run for the time limit that it was
// given. A limit that only its queue has set does not count, as nobody said that the job takes that long. False: it has no deadline.
func (j *Job) LatestStart() (Instant, bool) {
	if j.Deadline == 0 {
		return 0, false
	}
	if j.Spec.TimeLimit > 0 || j.group().TimeLimit > 0 {
		return j.Deadline - Instant(j.Limit)*1000, true
	}
	return j.Deadline, true
}

// pastDue reports whether a waiting job can no longer end by its deadline.
func (j *Job) pastDue(now Instant) bool {
	latest, ok := j.LatestStart()
	return ok && max(now, j.Eligible) > latest
}

// planGiveUp ends a job that waits and can no longer end by its deadline.
func (s *State) planGiveUp(id JobID) error {
	j := s.v.Job(id)
	switch {
	case j == nil:
		return ErrNoJob
	case !j.Waits():
		return ErrWrongState
	case !j.pastDue(s.v.at):
		return ErrNotPastDue
	}
	s.giveUp(j, PastDue, Reason{Code: ReasonDeadline, Until: j.Deadline})
	return nil
}

// updateDeadlines keeps the index of waiting jobs with a deadline in step with a job that has changed.
func (s *State) updateDeadlines(old, next *Job) {
	switch {
	case next.Deadline != 0 && next.Waits():
		s.v.dated.set(int64(next.ID), next)
	case old != nil && old.Deadline != 0 && old.Waits():
		s.v.dated.drop(int64(next.ID))
	}
}

// waits reports whether a job, or some child of a parent job, is still to start.
func (j *Job) waits() bool {
	if j.Family != nil {
		return len(j.Family.Waiting) > 0 && !j.State.Final()
	}
	return j.State == Pending
}

// checkDated compares the index of waiting jobs with a deadline with the jobs.
func (s *State) checkDated(note func(error)) {
	n := 0
	for j := range s.v.jobs.values() {
		if j.Deadline == 0 || !j.Waits() {
			continue
		}
		n++
		if got, _ := s.v.dated.get(int64(j.ID)); got != j {
			note(fmt.Errorf("job %d has a deadline and is not in the index of such jobs", j.ID))
		}
	}
	if n != s.v.dated.size() {
		note(fmt.Errorf("index of jobs with deadlines has %d entries for %d", s.v.dated.size(), n))
	}
}

// delayed says why a job that nobody holds is not eligible yet: it has not begun before its own time, or it waits after a failure.
func (j *Job) delayed() Reason {
	why := Reason{Code: ReasonBackoff, Until: j.Eligible}
	switch {
	case j.Attempt > 0:
	case j.Spec.Begin != "":
		why.Code = ReasonBegin
	default:
		why.Code = ReasonDependency
	}
	return why
}

// Dated yields the waiting jobs that have a deadline, in order of id.
func (v *View) Dated() iter.Seq[*Job] { return v.dated.values() }
