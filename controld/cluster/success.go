package cluster

import "github.com/rota-hpc/rota/jobspec"

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

// succeeded reports whether an attempt has come to what its group calls success, whatever becomes of the workers that still run.
func succeeded(g *jobspec.Group, a *Attempt) bool {
	switch g.Success {
	case successLeader:
		return a.Workers[0].ok()
	case successAny:
		for i := range a.Workers {
			if a.Workers[i].ok() {
				return true
			}
		}
		return false
	}
	for i := range a.Workers {
		if !a.Workers[i].ok() {
			return false
		}
	}
	return true
}

// ignored reports whether the failure of a worker leaves the others alone. What is not its program's doing never does.
func ignored(g *jobspec.Group, w *Worker) bool {
	return g.OnWorkerFailure == onFailureIgnore && w.trouble() == CauseFailed
}
