package model

import (
	"slices"
)

// Targets returns the jobs that an unfinished job depends on, ascending.
func (j *Job) Targets() []JobID {
	if j == nil || len(j.Dependencies) == 0 || j.State.Final() {
		return nil
	}
	if len(j.Dependencies) == 1 && len(j.Dependencies[0].Jobs) == 1 {
		return j.Dependencies[0].Jobs
	}
	var ids []JobID
	for i := range j.Dependencies {
		ids = append(ids, j.Dependencies[i].Jobs...)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
