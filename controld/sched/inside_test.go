package sched

import (
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
)

// trialOf returns the scratch state of a cycle that begins.
func trialOf(v *cluster.View, now cluster.Instant) *trial {
	return newTrial(v, now, v.Config().Policy, new(fit.Room))
}

// expired returns the scratch state of a cycle after its first phase.
func expired(v *cluster.View, now cluster.Instant) *trial {
	t := trialOf(v, now)
	expire(t, &pages[cluster.Instant]{})
	return t
}

// rotaOn returns policy rota in a cycle.
func rotaOn(t *trial) *rotaPolicy { return newRota(t, &headroomCache{}) }

// makerOn returns the preemptor of policy rota in a cycle.
func makerOn(t *trial) *maker { return newMaker(rotaOn(t), &candidateCache{}) }

// accountsOn returns what accounts hold, by the rules of the configuration's policy.
func accountsOn(t *trial) *fair {
	if t.policy.Name == "rota" {
		return rotaOn(t).accounts()
	}
	return newFair(&jobOrder{trial: t})
}
