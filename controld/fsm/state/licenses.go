package state

import (
	"fmt"
	"maps"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
)

// LacksLicenses says which licences are missing for a job to start, or nothing if none are.
func (v *View) LacksLicenses(j *model.Job) model.Reason {
	if len(j.Spec.Licenses) == 0 {
		return model.Reason{}
	}
	return v.config.LacksLicenses(j, v.licenses)
}

// HeldLicenses returns how many of each licence attempts in progress hold, those of suspended ones
// included. The caller must not change it.
func (v *View) HeldLicenses() map[string]int { return v.licenses }

// updateLicenses keeps the counts in step with a job that has changed. Earlier views keep theirs.
func (s *State) updateLicenses(old, next *model.Job) {
	was, is := old != nil && old.Live() != nil, next.Live() != nil
	if was == is || len(next.Spec.Licenses) == 0 {
		return
	}
	held := maps.Clone(s.v.licenses)
	if held == nil {
		held = map[string]int{}
	}
	for name, n := range next.Spec.Licenses {
		if was {
			n = -n
		}
		if held[name] += n; held[name] == 0 {
			delete(held, name)
		}
	}
	s.v.licenses = held
}

// checkLicenses says whether the counts are wrong, or more licences are held than there are. An attempt
// that was assigned before the configuration came into force may hold what was there then.
func (s *State) checkLicenses() error {
	held := cluster.HeldLicenses(s.v.Live())
	if !maps.Equal(s.v.licenses, held) {
		return fmt.Errorf("the counts of held licences are %v, recomputed %v", s.v.licenses, held)
	}
	if held == nil {
		return nil
	}
	since := model.Instant(-1)
	if all := s.v.versions.Versions; len(all) > 0 {
		since = all[len(all)-1].Made.At
	}
	for j := range s.v.Live() {
		if a := j.Live(); a == nil || a.Assigned.At <= since {
			continue
		}
		for name := range j.Spec.Licenses {
			if held[name] > s.v.config.Licenses[name] {
				return fmt.Errorf("jobs hold %d of licence %s, but the cluster has %d (job %d)", held[name], name,
					s.v.config.Licenses[name], j.ID)
			}
		}
	}
	return nil
}
