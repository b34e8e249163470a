package state

import (
	"fmt"
	"iter"

	"github.com/rota-hpc/rota/controld/model"
)

// updateDeadlines keeps the index of waiting jobs with a deadline in step with a job that has
// changed.
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
