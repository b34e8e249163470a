package cluster

import (
	"cmp"
	"slices"
)

// moves is what the present command has to do in the middle of a group. It is done once, when the command is over, so that ten thousand jobs
// that leave or enter a group of a hundred thousand cost one copy of it and not one each.
type moves struct {
	leaving  []JobID // still in Group.Jobs
	arriving []*Job  // not yet there
}

// movesOf returns the moves of a group that are collected.
func (s *State) movesOf(k GroupKey) *moves {
	m := s.moves[k]
	if m == nil {
		m = &moves{}
		if s.moves == nil {
			s.moves = map[GroupKey]*moves{}
		}
		s.moves[k] = m
		s.moved = append(s.moved, k)
	}
	return m
}

// enqueue adds a job to its group. A new job is the youngest and goes to the end, into the array that views share but see less of; one
// that returns goes to its place by id.
func (s *State) enqueue(j *Job) {
	k := groupKey(j)
	g := s.ownGroup(k)
	if n := len(g.Jobs); n == 0 || g.Jobs[n-1].ID < j.ID {
		g.Jobs = append(g.Jobs, j)
		return
	}
	if _, leaves := findJob(g.Jobs, j.ID); leaves {
		s.regroup(k)
		s.enqueue(j)
		return
	}
	m := s.movesOf(k)
	m.arriving = append(m.arriving, j)
}

// dequeue removes a job from its group.
func (s *State) dequeue(j *Job) {
	k := groupKey(j)
	g := s.ownGroup(k)
	i, found := findJob(g.Jobs, j.ID)
	switch {
	case !found && s.moves[k] == nil:
		return
	case !found: // it arrived a moment ago
		s.regroup(k)
		s.dequeue(j)
	case len(g.Jobs) == 1 && s.moves[k] == nil:
		s.dropGroup(g)
	case i == 0 && len(g.Jobs) > 1:
		g.Jobs = g.Jobs[1:]
	default:
		m := s.movesOf(k)
		m.leaving = append(m.leaving, j.ID)
	}
}

// requeue replaces a job that stays where it is.
func (s *State) requeue(j *Job) {
	k := groupKey(j)
	g := s.ownGroup(k)
	if i, found := findJob(g.Jobs, j.ID); found {
		s.ownArray(g)
		g.Jobs[i] = j
		return
	}
	if s.moves[k] != nil {
		s.regroup(k)
		s.requeue(j)
	}
}

// regroupAll carries out all moves and sees to the fronts of the groups.
func (s *State) regroupAll() {
	for _, k := range s.moved {
		if s.moves[k] != nil {
			s.regroup(k)
		}
	}
	s.moved = s.moved[:0]
	s.updateQueueHeads()
}

// regroup carries out the moves of one group, in an array that no view shares.
func (s *State) regroup(k GroupKey) {
	m := s.moves[k]
	delete(s.moves, k)
	g := s.ownGroup(k)
	slices.Sort(m.leaving)
	slices.SortFunc(m.arriving, func(a, b *Job) int { return cmp.Compare(a.ID, b.ID) })
	jobs := make([]*Job, 0, len(g.Jobs)+len(m.arriving)-len(m.leaving))
	leaving, arriving := m.leaving, m.arriving
	for _, j := range g.Jobs {
		for len(arriving) > 0 && arriving[0].ID < j.ID {
			jobs, arriving = append(jobs, arriving[0]), arriving[1:]
		}
		for len(leaving) > 0 && leaving[0] < j.ID {
			leaving = leaving[1:]
		}
		if len(leaving) == 0 || leaving[0] != j.ID {
			jobs = append(jobs, j)
		}
	}
	g.Jobs, g.array = append(jobs, arriving...), s.epoch
	if len(g.Jobs) == 0 {
		s.dropGroup(g)
	}
}
