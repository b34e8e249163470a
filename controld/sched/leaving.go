package sched

import (
	"slices"

	"github.com/rota-hpc/rota/controld/cluster"
	shares "github.com/rota-hpc/rota/controld/sched/share"
)

// stays reports whether the room of a worker is kept although its attempt is being stopped: the job goes on there with another number of workers.
func stays(a *cluster.Attempt, worker int) bool {
	return a.Stop != nil && a.Stop.Resize != nil && !slices.Contains(a.Stop.Resize.Leave, worker)
}

// leavingBy returns what the workers of an attempt hold that have not ended and do not stay.
func (f *fair) leavingBy(j *cluster.Job, a *cluster.Attempt) shares.Amount {
	if a.Stop == nil || a.Stop.Resize == nil {
		return f.heldBy(j, a)
	}
	left := *a
	left.Workers = slices.Clone(a.Workers)
	for i := range left.Workers {
		if stays(a, i) {
			left.Workers[i].State = cluster.WorkerExited
		}
	}
	return f.heldBy(j, &left)
}
