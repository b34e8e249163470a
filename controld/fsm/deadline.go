package fsm

import (
	"fmt"
	"iter"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// instant turns a time in a job, RFC 3339, into one on the log's clock: as far from now as it is from the wall clock of this entry.
func (s *State) instant(text string) model.Instant {
	seconds, _ := jobspec.ParseTime(text)
	return s.v.at + model.Instant(seconds*1000-int64(s.v.wall))
}

// setTimes fills in from when a drafted job may start and when it is given up.
func (s *State) setTimes(j *model.Job) error {
	if text := j.Spec.Begin; text != "" {
		if at := s.instant(text); at > j.Eligible {
			j.Eligible = at
			if j.Hold == model.NotHeld {
				j.Reason = model.Reason{Code: model.ReasonBegin, Until: at}
			}
		}
	}
	if j.Spec.Deadline == "" {
		return nil
	}
	j.Deadline = s.instant(j.Spec.Deadline)
	switch {
	case j.Deadline <= s.v.at:
		return &model.SpecError{Text: fmt.Sprintf("deadline %s has passed", j.Spec.Deadline)}
	case j.PastDue(s.v.at):
		return &model.SpecError{Text: fmt.Sprintf("deadline %s comes before a job that begins then and runs for its time_limit could end", j.Spec.Deadline)}
	}
	return nil
}

// planGiveUp ends a job that waits and can no longer end by its deadline.
func (s *State) planGiveUp(id model.JobID) error {
	j := s.v.Job(id)
	switch {
	case j == nil:
		return model.ErrNoJob
	case !j.Waits():
		return model.ErrWrongState
	case !j.PastDue(s.v.at):
		return model.ErrNotPastDue
	}
	s.giveUp(j, model.PastDue, model.Reason{Code: model.ReasonDeadline, Until: j.Deadline})
	return nil
}

// updateDeadlines keeps the index of waiting jobs with a deadline in step with a job that has changed.
func (s *State) updateDeadlines(old, next *model.Job) {
	switch {
	case next.Deadline != 0 && next.Waits():
		s.v.dated.Set(int64(next.ID), next)
	case old != nil && old.Deadline != 0 && old.Waits():
		s.v.dated.Drop(int64(next.ID))
	}
}

// checkDated compares the index of waiting jobs with a deadline with the jobs.
func (s *State) checkDated(note func(error)) {
	n := 0
	for j := range s.v.jobs.Values() {
		if j.Deadline == 0 || !j.Waits() {
			continue
		}
		n++
		if got, _ := s.v.dated.Get(int64(j.ID)); got != j {
			note(fmt.Errorf("job %d has a deadline and is not in the index of such jobs", j.ID))
		}
	}
	if n != s.v.dated.Size() {
		note(fmt.Errorf("index of jobs with deadlines has %d entries for %d", s.v.dated.Size(), n))
	}
}

// WithDeadline yields the waiting jobs that have a deadline, in order of id.
func (v *View) WithDeadline() iter.Seq[*model.Job] { return v.dated.Values() }
