package fsm

import (
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
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

// ignored reports whether the failure of a worker leaves the others alone. What is not its program's doing never does.
func ignored(j *model.Job, a *model.Attempt, worker int) bool {
	g := &j.Spec.Groups[j.GroupOf(worker)]
	return g.OnWorkerFailure == model.OnFailureIgnore && a.Workers[worker].Trouble() == model.CauseFailed
}
