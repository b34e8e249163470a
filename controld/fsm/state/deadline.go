package state

import (
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

// WithDeadline yields the waiting jobs that have a deadline, in order of id.
func (v *View) WithDeadline() iter.Seq[*model.Job] { return v.dated.Values() }
