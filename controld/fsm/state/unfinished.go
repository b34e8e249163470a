package state

import (
	"fmt"
	"maps"

	"github.com/rota-hpc/rota/controld/model"
)

// Unfinished returns how many unfinished jobs a user has. An array counts with all its tasks until
// it ends. The first call counts all jobs.
func (s *State) Unfinished(uid uint32) int {
	if s.unfinished == nil {
		s.unfinished = s.countUnfinished()
	}
	return s.unfinished[uid]
}

func (s *State) countUnfinished() map[uint32]int {
	counts := map[uint32]int{}
	for j := range s.v.Jobs() {
		if n := unfinishedWeight(j); n > 0 {
			counts[j.Owner.UID] += n
		}
	}
	return counts
}

func unfinishedWeight(j *model.Job) int {
	if j == nil || j.State.Final() {
		return 0
	}
	return j.Weight()
}

// updateUnfinished keeps the counts in step with a job that has changed.
func (s *State) updateUnfinished(old, next *model.Job) {
	by := unfinishedWeight(next) - unfinishedWeight(old)
	if s.unfinished == nil || by == 0 {
		return
	}
	uid := next.Owner.UID
	if s.unfinished[uid] += by; s.unfinished[uid] == 0 {
		delete(s.unfinished, uid)
	}
}

// checkUnfinished compares the counts with ones made anew.
func (s *State) checkUnfinished(note func(error)) {
	if s.unfinished == nil {
		return
	}
	if want := s.countUnfinished(); !maps.Equal(s.unfinished, want) {
		note(fmt.Errorf("the counts of users' unfinished jobs are %v, recomputed %v", s.unfinished, want))
	}
}
