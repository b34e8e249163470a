package sched

import (
	"cmp"
	"iter"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/jobspec"
)

// The parameters of FitGpp where the policy block does not say.
const (
	paperWeight = 4000 // thousandths of the size: the grace in the score
	paperCap    = 1    // displacements in the life of one job
)

// paper is a policy of the FitGpp paper at work: trial-and-error jobs take room from best-effort ones, which are served strictly in order.
// Only jobs of one worker are chosen for by what fits; for a gang, which the paper does not have, victims are drawn at random.
type paper struct {
	*starter
	cache  *candidateCache
	roster *roster // nil until it is needed
	choose func(p *paper, j *cluster.Job, g *fit.Gang) bool
}

// fitgpp takes the one victim with the least score on whose node the job then fits. Without any it draws one at random, and again at the
// next instant if the job still does not fit.
func fitgpp(t *trial, cache *candidateCache) policyRules {
	return newPaper(t, cache, (*paper).cheapest)
}

func newPaper(t *trial, cache *candidateCache, choose func(*paper, *cluster.Job, *fit.Gang) bool) policyRules {
	p := &paper{starter: newStarter(t), cache: cache, choose: choose}
	return policyRules{serve: p.serve}
}

// serve starts what fits and makes room for trial-and-error jobs. These come first, and each passes those of them that do not fit; but it is
// one queue, served strictly in order, so best-effort jobs wait at the instant at which one of them finds no room. From the next instant
// on its room is promised, and it stands before nobody.
func (p *paper) serve() {
	blocked := false
	for j := range p.of(jobspec.TE) {
		if p.startWhole(j) {
			continue
		}
		switch own := p.holders[j.ID]; {
		case own == nil:
			blocked = true
			if g := p.gang(j); !p.drains(j, &g) {
				p.choose(p, j, &g)
			}
		case own.At == p.now:
			blocked = true
			p.wakeAt(p.now + 1)
		}
	}
	if blocked {
		return
	}
	for j := range p.of(jobspec.BE) {
		if !p.startWhole(j) {
			return
		}
	}
}

// of yields the jobs of a class that may start, oldest first. One that was displaced comes at the place of its submission, which is before
// all that have never run: they are served strictly in order.
func (p *paper) of(class jobspec.Class) iter.Seq[*cluster.Job] {
	return func(yield func(*cluster.Job) bool) {
		for j := range waiting(p.trial) {
			if j.Class == class && !yield(j) {
				return
			}
		}
	}
}

// all returns the roster, which is made once a cycle.
func (p *paper) all() *roster {
	if p.roster == nil {
		p.roster = newRoster(p.trial, p.cache)
		weight := cmp.Or(p.policy.GraceWeight, paperWeight)
		p.roster.score(max(0, weight))
	}
	return p.roster
}

// drains keeps room for a job on a node where enough is being freed already, the one that will be ready first, and reports whether there is
// one: no victim is taken for it then.
func (p *paper) drains(j *cluster.Job, g *fit.Gang) bool {
	if g.Size() > 1 {
		return false
	}
	r, best := p.all(), -1
	for i := range p.view.Nodes() {
		if p.room.Usable(i, &g.Part, g.Exclude) && (best < 0 || r.over[i] < r.over[best]) &&
			fit.Within(g.Request, r.coming(p.trial, i, &g.Part)) && seatsOne(p.trial, i, &g.Request, 0) {
			best = i
		}
	}
	if best >= 0 {
		p.keep(j, g, best)
	}
	return best >= 0
}

// keep reserves room for a job on a node.
func (p *paper) keep(j *cluster.Job, g *fit.Gang, node int) {
	p.reserve(&cluster.Reservation{
		Job: j.ID, At: p.now, Firm: true,
		Claims: []cluster.Claim{{Node: p.view.Nodes()[node].Name, Room: fit.AtLeast(g.Request)}},
		Until:  max(p.now, p.all().over[node]) + cluster.Instant(p.policy.ReserveHoldMS),
	})
}

// mayTake reports whether a victim may be displaced once more.
func (p *paper) mayTake(v *victim) bool {
	limit := cmp.Or(p.policy.MaxPreempts, paperCap)
	return limit < 0 || displacements(v.job) < limit
}

// cheapest takes the candidate with the least score and keeps the room on its node, else a victim at random.
func (p *paper) cheapest(j *cluster.Job, g *fit.Gang) bool {
	r := p.all()
	best, on := -1, 0
	for node := range r.on {
		if g.Size() > 1 || len(r.on[node]) == 0 || !p.room.Usable(node, &g.Part, g.Exclude) {
			continue
		}
		have := r.coming(p.trial, node, &g.Part)
		for _, i := range r.on[node] {
			v := &r.victims[i]
			if v.taken || !p.mayTake(v) || !fit.Within(g.Request, fit.Plus(have, v.at(node))) {
				continue
			}
			if (best < 0 || compareVictims(v, &r.victims[best]) < 0) && seatsOne(p.trial, node, &g.Request, v.job.ID) {
				best, on = int(i), node
			}
		}
	}
	if best < 0 {
		return p.anyone(j, g)
	}
	r.stop(p.trial, &r.victims[best], cluster.CauseTE, j.ID)
	p.keep(j, g, on)
	return true
}

// anyone takes a victim at random, once at each instant, and keeps the room on its node if that will be enough.
func (p *paper) anyone(j *cluster.Job, g *fit.Gang) bool {
	r := p.all()
	if at, called := r.called[j.ID]; called && at >= p.now {
		return false
	}
	v := p.drawn(j, func(v *victim) bool { return !p.policy.PreemptCapped || p.mayTake(v) })
	if v == nil {
		return false
	}
	r.stop(p.trial, v, cluster.CauseTE, j.ID)
	return p.drains(j, g)
}

// drawn draws one of the victims that will do, nil if there is none.
func (p *paper) drawn(j *cluster.Job, will func(*victim) bool) *victim {
	var list []*victim
	r := p.all()
	for i := range r.victims {
		if v := &r.victims[i]; !v.taken && will(v) {
			list = append(list, v)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[draw(len(list), p.policy.Seed, p.view.Index(), uint64(j.ID), uint64(len(list)))]
}
