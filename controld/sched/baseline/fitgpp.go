package baseline

import (
	"cmp"
	"iter"

	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/policy"
	"github.com/rota-hpc/rota/controld/sched/preempt"
	"github.com/rota-hpc/rota/controld/sched/reserve"
	"github.com/rota-hpc/rota/controld/sched/scratch"
	"github.com/rota-hpc/rota/jobspec"
)

// The parameters of FitGpp where the policy block does not say.
const (
	fitgppGraceWeight = 4000 // thousandths of the size: the grace in the score
	fitgppMaxPreempts = 1    // displacements in the life of one job
)

// fitgppPolicy is a policy of the FitGpp paper at work: trial-and-error jobs take room from
// best-effort ones, which are served strictly in order. Only jobs of one worker are chosen for by
// what fits; for a gang, which the paper does not have, victims are drawn at random.
type fitgppPolicy struct {
	state      *scratch.State
	starter    *starter
	cache      *preempt.Cache
	candidates *preempt.Candidates // nil until it is needed
	choose     func(p *fitgppPolicy, j *model.Job, g *fit.Gang) bool
}

// FitGpp takes the one victim with the least score on whose node the job then fits. Without any it
// draws one at random, and again at the next instant if the job still does not fit.
func FitGpp(t *scratch.State, cache *preempt.Cache) policy.Policy {
	return newFitGpp(t, cache, (*fitgppPolicy).cheapest)
}

func newFitGpp(t *scratch.State, cache *preempt.Cache, choose func(*fitgppPolicy, *model.Job,
	*fit.Gang) bool) policy.Policy {
	p := &fitgppPolicy{state: t, starter: newStarter(t), cache: cache, choose: choose}
	return policy.ServeOnly(p.serve)
}

// serve starts what fits and makes room for trial-and-error jobs. These come first, and each passes
// those of them that do not fit. But it is one queue, served strictly in order, so best-effort jobs
// wait at the instant at which a trial-and-error job finds no room. From the next instant on its
// room is reserved, and it blocks no job.
func (p *fitgppPolicy) serve() {
	blocked := false
	for j := range p.of(jobspec.TE) {
		if p.starter.startWhole(j) {
			continue
		}
		switch own := p.state.Holders[j.ID]; {
		case own == nil:
			blocked = true
			if g := p.state.Gang(j); !p.drains(j, &g) && p.state.May(steering.Preemption) {
				p.choose(p, j, &g)
			}
		case own.At == p.state.Now:
			blocked = true
			p.state.WakeAt(p.state.Now + 1)
		}
	}
	if blocked {
		return
	}
	for j := range p.of(jobspec.BE) {
		if !p.starter.startWhole(j) {
			return
		}
	}
}

// of yields the jobs of a class that may start, oldest first. One that was displaced comes at the
// place of its submission, which is before all that have never run: they are served strictly in
// order.
func (p *fitgppPolicy) of(class jobspec.Class) iter.Seq[*model.Job] {
	return func(yield func(*model.Job) bool) {
		for j := range waiting(p.state) {
			if j.Class == class && !yield(j) {
				return
			}
		}
	}
}

// all returns the candidates, which are listed once a cycle.
func (p *fitgppPolicy) all() *preempt.Candidates {
	if p.candidates == nil {
		p.candidates = preempt.NewCandidates(p.state, p.cache)
		weight := cmp.Or(p.state.Policy.GraceWeight, fitgppGraceWeight)
		p.candidates.Score(max(0, weight))
	}
	return p.candidates
}

// drains keeps room for a job on a node where enough is being freed already, the one that will be
// ready first, and reports whether there is one: no victim is taken for it then.
func (p *fitgppPolicy) drains(j *model.Job, g *fit.Gang) bool {
	if g.Size() > 1 {
		return false
	}
	r, best := p.all(), -1
	for i := range p.state.View.Nodes() {
		if p.state.Room.Usable(i, &g.Part, g.Exclude) && (best < 0 || r.Over[i] < r.Over[best]) &&
			fit.Within(g.Request, r.Coming(p.state, i, &g.Part)) && reserve.SeatsOne(p.state, i, &g.Request, 0) {
			best = i
		}
	}
	if best >= 0 {
		p.keep(j, g, best)
	}
	return best >= 0
}

// keep reserves room for a job on a node.
func (p *fitgppPolicy) keep(j *model.Job, g *fit.Gang, node int) {
	claims := []model.Claim{{Node: p.state.View.Nodes()[node].Name, Resources: fit.AtLeast(g.Request)}}
	r := p.state.NewReservation(j.ID, claims, max(p.state.Now, p.all().Over[node]))
	r.ForPreemptor = true
	p.state.Reserve(r)
}

// mayTake reports whether a candidate may be displaced once more.
func (p *fitgppPolicy) mayTake(v *preempt.Candidate) bool {
	limit := cmp.Or(p.state.Policy.MaxPreempts, fitgppMaxPreempts)
	return limit < 0 || preempt.Displacements(v.Job) < limit
}

// cheapest takes the candidate with the least score and keeps the room on its node, else a victim
// at random.
func (p *fitgppPolicy) cheapest(j *model.Job, g *fit.Gang) bool {
	r := p.all()
	best, on := -1, 0
	for node := range r.On {
		if g.Size() > 1 || len(r.On[node]) == 0 || !p.state.Room.Usable(node, &g.Part, g.Exclude) {
			continue
		}
		have := r.Coming(p.state, node, &g.Part)
		for _, i := range r.On[node] {
			v := &r.List[i]
			if v.Taken || !p.mayTake(v) || !fit.Within(g.Request, have.Plus(v.At(node))) {
				continue
			}
			if (best < 0 || preempt.Compare(v, &r.List[best]) < 0) && reserve.SeatsOne(p.state, node, &g.Request, v.Job.ID) {
				best, on = int(i), node
			}
		}
	}
	if best < 0 {
		return p.randomVictim(j, g)
	}
	r.Stop(p.state, &r.List[best], model.CauseTE, j.ID)
	p.keep(j, g, on)
	return true
}

// randomVictim takes a victim at random, once at each instant, and keeps the room on its node if
// that will be enough. The paper's took any; here it obeys P as the others do, unless the policy block
// says otherwise.
func (p *fitgppPolicy) randomVictim(j *model.Job, g *fit.Gang) bool {
	r := p.all()
	if at, called := r.Asked[j.ID]; called && at >= p.state.Now {
		return false
	}
	v := p.drawn(j, func(v *preempt.Candidate) bool { return p.state.Policy.RandomUncapped || p.mayTake(v) })
	if v == nil {
		return false
	}
	r.Stop(p.state, v, model.CauseTE, j.ID)
	return p.drains(j, g)
}

// drawn draws one of the candidates that will do, nil if there is none.
func (p *fitgppPolicy) drawn(j *model.Job, will func(*preempt.Candidate) bool) *preempt.Candidate {
	var list []*preempt.Candidate
	r := p.all()
	for _, v := range r.Each() {
		if !v.Taken && will(v) {
			list = append(list, v)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[draw(len(list), p.state.Policy.Seed, p.state.View.Index(), uint64(j.ID), uint64(len(list)))]
}
