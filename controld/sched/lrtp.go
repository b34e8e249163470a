package sched

import (
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
)

// lrtp takes those with most of their time limit left, which is what it is told of how long they run.
func lrtp(t *trial, cache *candidateCache) policyRules {
	return newPaper(t, cache, func(p *paper, j *cluster.Job, g *fit.Gang) bool {
		return p.until(j, g, func() *victim {
			var best *victim
			r := p.all()
			for i := range r.victims {
				v := &r.victims[i]
				if !v.taken && p.mayTake(v) && (best == nil || timeLeft(v.job, p.now) > timeLeft(best.job, p.now)) {
					best = v
				}
			}
			return best
		})
	})
}

// until takes one victim after another until a node has enough for the job, or all it may take are taken. Of a gang it takes one at each
// instant.
func (p *paper) until(j *cluster.Job, g *fit.Gang, next func() *victim) bool {
	r := p.all()
	if g.Size() > 1 {
		return p.anyone(j, g)
	}
	for {
		v := next()
		if v == nil {
			return false
		}
		r.stop(p.trial, v, cluster.CauseTE, j.ID)
		if p.drains(j, g) {
			return true
		}
	}
}

// timeLeft returns what is left of a job's time limit after all its attempts, in ms.
func timeLeft(j *cluster.Job, now cluster.Instant) int64 {
	left := int64(j.Limit) * 1000
	for i := range j.Attempts {
		left -= ranFor(&j.Attempts[i], now)
	}
	return left
}
