package rota

import (
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// # Requeue backoff of preempted jobs
//
// A preempted best-effort job with much past service starts again only if that leaves a tenth of
// the cluster free. Until then no job is asked to leave for it. A job that starts may not be asked
// to leave for a turn, in which most new jobs would begin and end. If preempted jobs took at once
// whatever comes free, jobs that cannot be moved would hold ever more of the cluster. The next new
// jobs would have to wait all the same.
//
// If an empty cluster would leave less beside the job, that is enough. Nothing is left free for
// this while no jobs are submitted, nor on few GPUs or cores, nor against an account's quota. A
// wide gang starts wherever it finds its room, and so does a job that counts as new because it has
// waited for long.

// freeCapacity sums up all nodes: the free room, the part of it that is reserved for new jobs, and
// the total.
type freeCapacity struct {
	known           bool
	revision        int // of the room
	free, keep, all model.Vector
}

// backsOff reports whether a waiting job must leave the free room to new jobs.
func (t *rotaPolicy) backsOff(j *model.Job) bool {
	n := len(j.Attempts)
	if n == 0 || !j.Attempts[n-1].Cause.Preempts() || j.OwnRoomFirst || j.Class == jobspec.TE ||
		j.Attained() < cluster.ShortService.Of(&t.state.Policy)*60_000 ||
		j.Width() >= model.WideGPUs || t.state.Holders[j.ID] != nil || !t.jobsCome() {
		return false
	}
	if !t.freeUp.known || t.freeUp.revision != t.state.Revision {
		t.freeUp = t.newFreeCapacity()
	}
	return t.freeUp.short(j.Total()) && !t.withinQuota(j)
}

// short reports whether too little would stay free beside a job. The least is the room to be kept,
// or the rest of an empty cluster if that is less. It compares GPUs, or cores if the job needs no
// GPUs.
func (c *freeCapacity) short(need model.Vector) bool {
	of := func(v model.Vector) int64 {
		if need.GPUs > 0 {
			return v.GPUs
		}
		return v.Cores
	}
	return of(c.keep) > 0 && of(c.free)-of(need) < min(of(c.keep), of(c.all)-of(need))
}

// jobsCome reports whether a job was submitted of late.
func (t *rotaPolicy) jobsCome() bool {
	l := t.state.View.Statistics()
	return l != nil && l.LastSubmitted > 0 && t.state.Now-l.LastSubmitted < arrivals
}

// newFreeCapacity adds up what is free and not reserved on nodes that are up.
func (t *rotaPolicy) newFreeCapacity() freeCapacity {
	all := t.state.Room.TotalUp()
	a := freeCapacity{known: true, revision: t.state.Revision, free: t.state.Room.AvailableUp(), all: all}
	part := cluster.Comeback.Of(&t.state.Policy)
	if all.GPUs >= smallCluster*model.WholeGPU {
		a.keep.GPUs = all.GPUs * part / 1000
	}
	if all.Cores >= smallCluster {
		a.keep.Cores = all.Cores * part / 1000
	}
	return a
}
