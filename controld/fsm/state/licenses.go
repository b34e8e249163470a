package state

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/model"
)

// LacksLicenses says which licences are missing for a job to start, or nothing if none are.
func (v *View) LacksLicenses(j *model.Job) model.Reason {
	if len(j.Spec.Licenses) == 0 {
		return model.Reason{}
	}
	return v.config.LacksLicenses(j, model.HeldLicenses(v.Live()))
}

// checkLicenses says whether more licences are held than there are. An attempt that was assigned
// before the configuration came into force may hold what was there then.
func (s *State) checkLicenses() error {
	held := model.HeldLicenses(s.v.Live())
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
				return fmt.Errorf("%d of licence %s are held, and there are %d (job %d)", held[name], name,
					s.v.config.Licenses[name], j.ID)
			}
		}
	}
	return nil
}
