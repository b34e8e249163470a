package sched

import (
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
)

// random takes them by chance.
func random(t *trial, cache *candidateCache) policyRules {
	return newPaper(t, cache, func(p *paper, j *cluster.Job, g *fit.Gang) bool {
		return p.until(j, g, func() *victim { return p.drawn(j, p.mayTake) })
	})
}
