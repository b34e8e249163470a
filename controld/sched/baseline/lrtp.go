package baseline

import (
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/policy"
	"github.com/rota-hpc/rota/controld/sched/preempt"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// LRTP takes those with most of their time limit left, which is what it is told of how long they
// run.
func LRTP(t *scratch.State, cache *preempt.Cache) policy.Policy {
	return newFitGpp(t, cache, func(p *fitgppPolicy, j *model.Job, g *fit.Gang) bool {
		return p.until(j, g, func() *preempt.Candidate {
			var best *preempt.Candidate
			r := p.all()
			for _, v := range r.Each() {
				if !v.Taken && p.mayTake(v) && (best == nil || timeLeft(v.Job, p.state.Now) > timeLeft(best.Job, p.state.Now)) {
					best = v
				}
			}
			return best
		})
	})
}

// until takes one victim after another until a node has enough for the job, or all it may take are
// taken. Of a gang it takes one at each instant.
func (p *fitgppPolicy) until(j *model.Job, g *fit.Gang, next func() *preempt.Candidate) bool {
	r := p.all()
	if g.Size() > 1 {
		return p.randomVictim(j, g)
	}
	for {
		v := next()
		if v == nil {
			return false
		}
		r.Stop(p.state, v, model.CauseTE, j.ID)
		if p.drains(j, g) {
			return true
		}
	}
}

// timeLeft returns what is left of a job's time limit after all its attempts, in ms.
func timeLeft(j *model.Job, now model.Instant) int64 {
	return int64(j.Limit)*1000 - scratch.RanInAll(j, now)
}
