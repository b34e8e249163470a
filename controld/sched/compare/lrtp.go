package compare

import (
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/baseline"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/policy"
	"github.com/rota-hpc/rota/controld/sched/preempt"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// LRTP takes the jobs with most of their time limit left: the limit is all that it knows about run
// times.
func LRTP(t *scratch.State, cache *preempt.Cache) policy.Phases {
	return baseline.NewFitGpp(t, cache, func(p *baseline.FitGppPolicy, j *model.Job, g *fit.Gang) bool {
		return until(p, j, g, func() *preempt.Candidate {
			var best *preempt.Candidate
			r := p.All()
			for _, v := range r.Each() {
				if !v.Taken && p.MayTake(v) && (best == nil || timeLeft(v.Job, p.State.Now) > timeLeft(best.Job, p.State.Now)) {
					best = v
				}
			}
			return best
		})
	})
}

// until takes one victim after another until a node has enough for the job, or all it may take are
// taken. Of a gang it takes one at each instant.
func until(p *baseline.FitGppPolicy, j *model.Job, g *fit.Gang, next func() *preempt.Candidate) bool {
	r := p.All()
	if g.Size() > 1 {
		return p.RandomVictim(j, g)
	}
	for {
		v := next()
		if v == nil {
			return false
		}
		r.Stop(p.State, v, model.CauseTE, j.ID)
		if p.Drains(j, g) {
			return true
		}
	}
}

// timeLeft returns the rest of a job's time limit after all its attempts, in ms.
func timeLeft(j *model.Job, now model.Instant) int64 {
	return int64(j.Limit)*1000 - scratch.RanInAll(j, now)
}
