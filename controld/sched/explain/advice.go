package explain

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// advice suggests what would let a job start sooner, or says nothing when waiting is all there is.
func advice(t *scratch.State, j *cluster.Job, name string, why cluster.Reason) string {
	switch why.Code {
	case cluster.ReasonHeldUser, cluster.ReasonMaxRequeue, cluster.ReasonLaunchFailure, cluster.ReasonNeverMet:
		return fmt.Sprintf("rota release %s lets it start", name)
	case cluster.ReasonHeldAdmin:
		return fmt.Sprintf("ask an operator to release job %s", name)
	case cluster.ReasonBadConstraint:
		if why.Need == (cluster.Vector{}) {
			return "change what it says of nodes; rota nodes shows what they have"
		}
		return "ask for less in one worker, or for fewer workers"
	case cluster.ReasonNodeDown, cluster.ReasonNotAvail:
		return "ask an operator about node " + why.Node
	case cluster.ReasonResources, cluster.ReasonFragmentation, cluster.ReasonGang:
		return smaller(t, j)
	}
	return ""
}

// smaller names a smaller gang or a smaller worker that would fit now: fewer workers first, then
// fewer GPUs in each.
func smaller(t *scratch.State, j *cluster.Job) string {
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
