package cluster

// maxTracked bounds what is remembered of changes that nobody has asked for; beyond it everything counts as changed.
const maxTracked = 1 << 16

// tracker remembers which jobs have changed, for those who keep indexes of their own beside the state.
type tracker struct {
	on   bool
	lost bool
	ids  []JobID
}

// Track makes the state remember which jobs change, until [State.Changed] asks.
func (s *State) Track() { s.tracked.on = true }

// Changed returns the jobs that were stored or dropped since it was last called, in order and perhaps repeatedly, and forgets them. False:
// there were too many to remember, so any may have changed.
func (s *State) Changed() ([]JobID, bool) {
	ids, lost := s.tracked.ids, s.tracked.lost
	s.tracked.ids, s.tracked.lost = nil, false
	return ids, !lost
}

// note remembers a change.
func (t *tracker) note(id JobID) {
	switch {
	case !t.on || t.lost:
	case len(t.ids) >= maxTracked:
		t.ids, t.lost = nil, true
	default:
		t.ids = append(t.ids, id)
	}
}
