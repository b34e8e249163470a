// Package index finds jobs by other keys than their ids: by owner and name, and by the jobs that
// they wait for. It finds submissions by idempotency key. A state keeps each in step with its jobs.
package index

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
)

// withID adds an id to an ascending list that has one owner.
func withID(list []model.JobID, id model.JobID) []model.JobID {
	if n := len(list); n == 0 || list[n-1] < id {
		return append(list, id)
	}
	i, found := slices.BinarySearch(list, id)
	if found {
		return list
	}
	return slices.Insert(list, i, id)
}

// withoutID removes an id from an ascending list that has one owner. It moves what is on the
// shorter side, so that emptying a long list from either end takes no time to speak of.
func withoutID(list []model.JobID, id model.JobID) []model.JobID {
	i, found := slices.BinarySearchFunc(list, id, cmp.Compare[model.JobID])
	switch {
	case !found:
		return list
	case i < len(list)/2:
		copy(list[1:i+1], list[:i])
		return list[1:]
	}
	return slices.Delete(list, i, i+1)
}
