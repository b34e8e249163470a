package sched

import (
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// # Coming back
//
// A best-effort job that has had much and had to leave comes back where that leaves a tenth of the cluster free, and asks nobody to leave for it until
// then. Whoever starts may not be asked to leave for a turn, in which most new jobs would begin and end. If those who had to leave took at once whatever comes
// free, ever more of the cluster would be held by jobs that cannot be moved, and the next new jobs had to wait all the same.
//
// Nothing is left free for this while nobody submits anything, nor on few GPUs or cores, nor against what an account was promised. A wide gang
// comes back wherever it finds its room, and so does who begins anew, having waited for long.

// Bounds of the room that is left to new jobs.
const (
	amplePart  = 10              // one part of so many of the cluster is left free
	ampleLeast = 32              // GPUs, or cores: smaller clusters leave nothing free
	hadMuch    = 4 * servedLeast // in the unit of [cluster.Job.Attained]
	comingMS   = 60 * 60 * 1000  // new jobs are expected for so long after the last one
)

// ample is how much is free on all nodes together, of what most jobs ask for, and how much of it is left to new jobs, of how much. Nobody waits for more than an empty cluster would leave beside him.
type ample struct {
	known           bool
	free, keep, all cluster.Vector
}

// holdsBack reports whether a job that waits leaves the room that is free to new jobs.
func (t *trial) holdsBack(j *cluster.Job) bool {
	if !t.byService || j.Attempt == 0 || j.First || j.Class == jobspec.TE || j.Attained() < hadMuch || j.Width() >= cluster.WideGPUs ||
		t.holders[j.ID] != nil || t.promoted(j) || !t.jobsCome() {
		return false
	}
	if !t.ample.known {
		t.ample = t.newAmple()
	}
	a, need := &t.ample, j.Total()
	if need.GPUs > 0 {
		return a.free.GPUs-need.GPUs < min(a.keep.GPUs, a.all.GPUs-need.GPUs)
	}
	return a.free.Cores-need.Cores < min(a.keep.Cores, a.all.Cores-need.Cores)
}

// jobsCome reports whether somebody has submitted a job of late.
func (t *trial) jobsCome() bool {
	id := t.view.LastJob()
	last := t.view.Job(id)
	if last == nil {
		last, _ = t.view.Element(id)
	}
	return last != nil && t.now-last.Submitted.At < comingMS
}

// newAmple adds up what is free on nodes that are up and reserved for nobody.
func (t *trial) newAmple() ample {
	all := t.roomUp()
	a := ample{known: true, all: all}
	for i := range t.view.Nodes() {
		if t.room.Up(i) {
			free := t.room.Available(i).Active
			a.free.GPUs, a.free.Cores = a.free.GPUs+free.GPUs, a.free.Cores+free.Cores
		}
	}
	if all.GPUs >= ampleLeast*cluster.WholeGPU {
		a.keep.GPUs = all.GPUs / amplePart
	}
	if all.Cores >= ampleLeast {
		a.keep.Cores = all.Cores / amplePart
	}
	return a
}
