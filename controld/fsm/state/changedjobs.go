package state

import (
	"github.com/rota-hpc/rota/controld/model"
)

// maxChangedJobs bounds what is remembered of changes that were not asked for; beyond it everything
// counts as changed.
const maxChangedJobs = 1 << 16

// changedJobs remembers which jobs have changed, for callers that keep indexes of their own beside
// the state.
type changedJobs struct {
	on   bool
	lost bool
	ids  []model.JobID
}

// TrackChanges makes the state remember which jobs change, until [State.Changed] asks.
func (s *State) TrackChanges() { s.changedJobs.on = true }

// ChangedJobs returns the jobs that were stored or dropped since it was last called, in order and
// perhaps repeatedly, and forgets them. False: there were too many to remember, so any may have
// changed.
func (s *State) ChangedJobs() ([]model.JobID, bool) {
	ids, lost := s.changedJobs.ids, s.changedJobs.lost
	s.changedJobs.ids, s.changedJobs.lost = nil, false
	return ids, !lost
}

// add remembers a change.
func (t *changedJobs) add(id model.JobID) {
	switch {
	case !t.on || t.lost:
	case len(t.ids) >= maxChangedJobs:
		t.ids, t.lost = nil, true
	default:
		t.ids = append(t.ids, id)
	}
}
