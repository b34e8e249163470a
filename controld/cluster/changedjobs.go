package cluster

// maxChangedJobs bounds what is remembered of changes that nobody has asked for; beyond it everything counts as changed.
const maxChangedJobs = 1 << 16

// changedJobs remembers which jobs have changed, for those who keep indexes of their own beside the state.
type changedJobs struct {
	on   bool
	lost bool
	ids  []JobID
}

// Track makes the state remember which jobs change, until [State.Changed] asks.
func (s *State) Track() { s.changedJobs.on = true }

// Changed returns the jobs that were stored or dropped since it was last called, in order and perhaps repeatedly, and forgets them. False:
// there were too many to remember, so any may have changed.
func (s *State) Changed() ([]JobID, bool) {
	ids, lost := s.changedJobs.ids, s.changedJobs.lost
	s.changedJobs.ids, s.changedJobs.lost = nil, false
	return ids, !lost
}

// add remembers a change.
func (t *changedJobs) add(id JobID) {
	switch {
	case !t.on || t.lost:
	case len(t.ids) >= maxChangedJobs:
		t.ids, t.lost = nil, true
	default:
		t.ids = append(t.ids, id)
	}
}
