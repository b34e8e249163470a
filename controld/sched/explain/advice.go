package explain

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// advice suggests changes that let a job start sooner. It is "" if only waiting helps.
func advice(t *scratch.State, j *model.Job, name string, why model.Reason) string {
	switch why.Code {
	case model.ReasonHeldUser, model.ReasonMaxRequeue, model.ReasonLaunchFailure, model.ReasonNeverMet:
		return fmt.Sprintf("rota release %s lets it start", name)
	case model.ReasonHeldAdmin:
		return fmt.Sprintf("ask an operator to release job %s", name)
	case model.ReasonBadConstraint:
		if why.Need == (model.Vector{}) {
			return "change its conditions on nodes; rota nodes shows the nodes' labels and resources"
		}
		return "request fewer resources for each worker, or fewer workers"
	case model.ReasonNodeDown, model.ReasonNotAvail:
		return "ask an operator about node " + why.Node
	case model.ReasonResources, model.ReasonFragmentation, model.ReasonGang:
		return smaller(t, j)
	}
	return ""
}

// smaller names a smaller gang or a smaller worker that would fit now: fewer workers first, then
// fewer GPUs in each.
func smaller(t *scratch.State, j *model.Job) string {
	g := t.Gang(j)
	if len(g.More) > 0 {
		return ""
	}
	workers := g.Workers
	for g.Workers = workers - 1; g.Workers > 0; g.Workers-- {
		if t.Room.Fits(&g) {
			return fmt.Sprintf("with count = %d it would fit now", g.Workers)
		}
	}
	g.Workers = workers
	for gpus := j.Request.Active.GPUs/1000 - 1; gpus > 0; gpus-- {
		g.Request.Active.GPUs, g.Request.Resident.GPUs = gpus*1000, gpus*1000
		if t.Room.Fits(&g) {
			return fmt.Sprintf("with gpus = %d it would fit now", gpus)
		}
	}
	return ""
}
