package cluster

import (
	"slices"

	"github.com/rota-hpc/rota/jobspec"
)

// Whose success is a group's, and what a worker's failure means for the others.
const (
	successAll       = "all"
	successLeader    = "leader"
	successAny       = "any"
	onFailureRestart = "restart_group"
	onFailureIgnore  = "ignore"
)

// mainTask returns the task that stands for a group: the leader of its main tasks.
func mainTask(g *jobspec.Group) *jobspec.Task {
	var first *jobspec.Task
	for i := range g.Tasks {
		t := &g.Tasks[i]
		switch {
		case t.Lifecycle != nil:
		case t.Leader != nil && *t.Leader:
			return t
		case first == nil:
			first = t
		}
	}
	if first == nil {
		return &g.Tasks[0]
	}
	return first
}

// succeeded reports whether an attempt has come to what its group calls success, whatever becomes of the workers that still run. In a gang
// of several groups those that say leader or any speak for all, so that servers need not end by themselves.
func succeeded(j *Job, a *Attempt) bool {
	parts := j.Parts
	if len(parts) == 0 {
		parts = []Part{{Group: j.Group(), Workers: len(a.Workers)}}
	}
	workers, decided := a.Workers, false
	for _, p := range parts {
		switch j.Spec.Groups[p.Group].Success {
		case successLeader:
			decided = true
			if !workers[0].ok() {
				return false
			}
		case successAny:
			decided = true
			if !slices.ContainsFunc(workers[:p.Workers], func(w Worker) bool { return w.ok() }) {
				return false
			}
		}
		workers = workers[p.Workers:]
	}
	return decided || !slices.ContainsFunc(a.Workers, func(w Worker) bool { return !w.ok() })
}

// ignored reports whether the failure of a worker leaves the others alone. What is not its program's doing never does.
func ignored(j *Job, a *Attempt, worker int) bool {
	g := &j.Spec.Groups[j.GroupOf(worker)]
	return g.OnWorkerFailure == onFailureIgnore && a.Workers[worker].trouble() == CauseFailed
}
