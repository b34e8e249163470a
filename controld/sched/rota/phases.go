package rota

import (
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/policy"
	"github.com/rota-hpc/rota/controld/sched/preempt"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// phases is policy rota as a cycle sees it: see [policy.Phases].
type phases struct {
	rota      *rotaPolicy
	preemptor *preemptor
	elastic   *elasticPhases // nil where there has never been an elastic job
}

// New returns policy rota for one cycle. It starts what fits, in order: others pass a blocked job
// within bounds, and some room stays free for the trial-and-error jobs that usually come. Then it
// makes room for waiting jobs: trial-and-error jobs, jobs of accounts and users below their part,
// and jobs that come first in order. The cheapest jobs leave that may, if that is worth it.
func New(t *scratch.State, candidates *preempt.Cache, rooms *Cache) policy.Phases {
	p := newRota(t, rooms)
	m := newPreemptor(p, candidates)
	s := newElasticPhases(p)
	if s != nil {
		m.search.Elastic = s.running
	}
	return &phases{rota: p, preemptor: m, elastic: s}
}

// Shrink lets elastic jobs give up workers for jobs that would start with next to nothing.
func (p *phases) Shrink() {
	if p.elastic != nil {
		p.elastic.shrinkForWaiting()
	}
}

// Serve starts what fits.
func (p *phases) Serve() { p.rota.serve() }

// Resize gives elastic jobs that have just started as many workers as are fitting.
func (p *phases) Resize() {
	if p.elastic != nil {
		p.elastic.enlargeStarts()
	}
}

// Preempt makes room for jobs that still wait.
func (p *phases) Preempt() { p.preemptor.makeRoom() }

// Grow gives running elastic jobs room that has been idle.
func (p *phases) Grow() {
	if p.elastic != nil {
		p.elastic.grow()
	}
}

// Answers is what the policy tells users.
func (p *phases) Answers() *policy.Answers {
	r := p.rota
	a := &policy.Answers{
		Causes: []model.Cause{model.CauseTE, model.CauseReclaim, model.CauseOrder},
		Order:  &r.order, Limit: r.limitOf, Reason: r.reasonOf, Advice: r.advise, Spares: r.spares, Terms: r.termsOf,
	}
	if r.spare != nil {
		a.Keeps = r.spare.keptIn
	}
	return a
}
