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

// FitGppPolicy is a policy of the FitGpp paper at work: trial-and-error jobs take room from
// best-effort ones, which are served strictly in order. Only jobs of one worker get victims by fit.
// The paper has no gangs; for a gang victims are Drawn at random.
type FitGppPolicy struct {
	State      *scratch.State
	starter    *Starter
	cache      *preempt.Cache
	candidates *preempt.Candidates // nil until it is needed
	choose     func(p *FitGppPolicy, j *model.Job, g *fit.Gang) bool
}

// FitGpp takes the one victim with the least score on whose node the job then fits. Without any it
// draws one at random, and again at the next instant if the job still does not fit.
func FitGpp(t *scratch.State, cache *preempt.Cache) policy.Phases {
	return NewFitGpp(t, cache, (*FitGppPolicy).cheapest)
}

// NewFitGpp returns a policy of the FitGpp paper that makes room for a job as choose does.
func NewFitGpp(t *scratch.State, cache *preempt.Cache, choose func(*FitGppPolicy, *model.Job,
	*fit.Gang) bool) policy.Phases {
	p := &FitGppPolicy{State: t, starter: NewStarter(t), cache: cache, choose: choose}
	return policy.ServeOnly(p.serve)
}

// serve starts jobs that fit and makes room for trial-and-error jobs. Trial-and-error jobs come
// first, and may pass others of their class that do not fit. But it is one queue, served strictly
// in order, so best-effort jobs wait at the instant at which a trial-and-error job finds no room.
// From the next instant on its room is reserved, and it blocks no job.
func (p *FitGppPolicy) serve() {
	blocked := false
	for j := range p.of(jobspec.TE) {
		if p.starter.StartWhole(j) {
			continue
		}
		switch own := p.State.Holders[j.ID]; {
		case own == nil:
			blocked = true
			if g := p.State.Gang(j); !p.Drains(j, &g) && p.State.May(steering.Preemption) {
				p.choose(p, j, &g)
			}
		case own.At == p.State.Now:
			blocked = true
			p.State.WakeAt(p.State.Now + 1)
		}
	}
	if blocked {
		return
	}
	for j := range p.of(jobspec.BE) {
		if !p.starter.StartWhole(j) {
			return
		}
	}
}

// of yields the jobs of a class that may start, oldest first. A displaced job returns to the place
// of its submission, before all jobs that have never run: jobs are served strictly in order.
func (p *FitGppPolicy) of(class jobspec.Class) iter.Seq[*model.Job] {
	return func(yield func(*model.Job) bool) {
		for j := range Waiting(p.State) {
			if j.Class == class && !yield(j) {
				return
			}
		}
	}
}

// All returns the candidates, which are listed once a cycle.
func (p *FitGppPolicy) All() *preempt.Candidates {
	if p.candidates == nil {
		p.candidates = preempt.NewCandidates(p.State, p.cache)
		weight := cmp.Or(p.State.Policy.GraceWeight, fitgppGraceWeight)
		p.candidates.Score(max(0, weight))
	}
	return p.candidates
}

// Drains keeps room for a job on a node where enough is being freed already. It reports whether
// there is one: then no victim is needed. Of several nodes it takes the one that is ready first.
func (p *FitGppPolicy) Drains(j *model.Job, g *fit.Gang) bool {
	if g.Size() > 1 {
		return false
	}
	r, best := p.All(), -1
	for i := range p.State.View.Nodes() {
		if p.State.Room.Usable(i, &g.Component, g.Exclude) && (best < 0 || r.Over[i] < r.Over[best]) &&
			fit.Within(g.Request, r.Coming(p.State, i, &g.Component)) && reserve.SeatsOne(p.State, i, &g.Request, 0) {
			best = i
		}
	}
	if best >= 0 {
		p.keep(j, g, best)
	}
	return best >= 0
}

// keep reserves room for a job on a node.
func (p *FitGppPolicy) keep(j *model.Job, g *fit.Gang, node int) {
	claims := []model.Claim{{Node: p.State.View.Nodes()[node].Name, Resources: fit.AtLeast(g.Request)}}
	r := p.State.NewReservation(j.ID, claims, max(p.State.Now, p.All().Over[node]))
	r.ForPreemptor = true
	p.State.Reserve(r)
}

// MayTake reports whether a candidate may be displaced once more.
func (p *FitGppPolicy) MayTake(v *preempt.Candidate) bool {
	limit := cmp.Or(p.State.Policy.MaxPreempts, fitgppMaxPreempts)
	return limit < 0 || preempt.Displacements(v.Job) < limit
}

// cheapest takes the candidate with the least score and keeps the room on its node, else a victim
// at random.
func (p *FitGppPolicy) cheapest(j *model.Job, g *fit.Gang) bool {
	r := p.All()
	best, on := -1, 0
	for node := range r.On {
		if g.Size() > 1 || len(r.On[node]) == 0 || !p.State.Room.Usable(node, &g.Component, g.Exclude) {
			continue
		}
		have := r.Coming(p.State, node, &g.Component)
		for _, i := range r.On[node] {
			v := &r.List[i]
			if v.Taken || !p.MayTake(v) || !fit.Within(g.Request, have.Plus(v.At(node))) {
				continue
			}
			if (best < 0 || preempt.Compare(v, &r.List[best]) < 0) && reserve.SeatsOne(p.State, node, &g.Request, v.Job.ID) {
				best, on = int(i), node
			}
		}
	}
	if best < 0 {
		return p.RandomVictim(j, g)
	}
	r.Stop(p.State, &r.List[best], model.CauseTE, j.ID)
	p.keep(j, g, on)
	return true
}

// RandomVictim takes a victim at random, once at each instant, and keeps the room on its node if
// that will be enough. The paper's took any; here it obeys P as the others do, unless the policy block
// says otherwise.
func (p *FitGppPolicy) RandomVictim(j *model.Job, g *fit.Gang) bool {
	r := p.All()
	if at, called := r.Asked[j.ID]; called && at >= p.State.Now {
		return false
	}
	v := p.Drawn(j, func(v *preempt.Candidate) bool { return p.State.Policy.RandomUncapped || p.MayTake(v) })
	if v == nil {
		return false
	}
	r.Stop(p.State, v, model.CauseTE, j.ID)
	return p.Drains(j, g)
}

// Drawn draws one of the candidates that will do, nil if there is none.
func (p *FitGppPolicy) Drawn(j *model.Job, will func(*preempt.Candidate) bool) *preempt.Candidate {
	var list []*preempt.Candidate
	r := p.All()
	for _, v := range r.Each() {
		if !v.Taken && will(v) {
			list = append(list, v)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[draw(len(list), p.State.Policy.Seed, p.State.View.Index(), uint64(j.ID), uint64(len(list)))]
}
