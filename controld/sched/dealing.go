package sched

import (
	"cmp"
	"container/heap"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
)

// What is taken of how much elastic jobs still need.
const (
	unseenService = 900_000 // ms of one GPU that a job needs at least, for all that is known, if none like it has completed
	worthPower    = 5       // what further workers do counts by this power of it when they are dealt out, how much the job needs by the first
	leftPart      = 8       // a job that has had what others like it had in all needs one part of so many of that
)

const million = 1_000_000

// prospect is how much an elastic job still needs, as far as that can be told, and with how many workers it should go on. Nobody is asked how
// long his job runs: the jobs of one user with one name are taken to be alike, and those that have completed say what they took. Where none has, one that
// has had much is taken to need as much again, and those like it to need no less in all than it does.
type prospect struct {
	job   *cluster.Job
	terms cluster.Elastic
	curve curve
	left  int64 // service, as cluster.Job.Attained counts it
	most  int   // workers that are worth their room
	size  int   // workers it should have
	asks  cluster.Request
}

// allocation says how the room that elastic jobs have and what is free would be divided best among those that run and those that wait: first
// everybody's least, in order, and then each further worker to whom it helps most for what he needs still. Who needs little is rather done with it
// soon: the others lose less by waiting for him than he by sharing with them.
type allocation struct {
	*sizing
	running []*flexible
	list    []*prospect
	of      map[cluster.JobID]*prospect
	pool    cluster.Request
	offers  []offer
	longest map[kind]int64 // see mostHad
}

// newAllocation divides the room among the elastic jobs that run and those that wait, in order.
func newAllocation(z *sizing, running []*flexible, waiting []*cluster.Job) *allocation {
	p := &allocation{sizing: z, running: running, of: map[cluster.JobID]*prospect{}}
	for i := range p.view.Nodes() {
		if p.room.Up(i) {
			p.pool = fit.Plus(p.pool, p.room.Available(i))
		}
	}
	for _, f := range p.running {
		p.pool = fit.Plus(p.pool, fit.Times(f.request(), f.size))
		p.add(f.job, f.terms, attainedService(f.job, f.attempt, p.now), idleWorthPM)
	}
	for _, j := range waiting {
		terms, _ := j.Elastic()
		p.add(j, terms, j.Attained(), worthPM)
	}
	for _, o := range p.list {
		p.give(o, o.terms.Min)
	}
	for _, o := range p.list {
		p.offer(o)
	}
	for len(p.offers) > 0 {
		o := heap.Pop(p).(offer)
		p.give(o.to, o.size)
		p.offer(o.to) // what does not fit any more may with fewer
	}
	return p
}

// due returns with how many workers a job should run, and how much service it still needs.
func (p *allocation) due(j *cluster.Job) (size int, left int64) {
	if o := p.of[j.ID]; o != nil {
		return o.size, o.left
	}
	return p.fitting(j, worthPM), p.left(j, j.Attained())
}

// offer is the next workers of a job and what they are worth.
type offer struct {
	to    *prospect
	size  int
	worth int64 // what they do, by its power, for how much the job needs still
}

// add takes a job in.
func (p *allocation) add(j *cluster.Job, terms cluster.Elastic, had int64, worth int64) {
	o := &prospect{job: j, terms: terms, curve: p.curveOf(j), left: p.left(j, had), most: p.fitting(j, worth), asks: j.RequestOf(terms.First)}
	p.list = append(p.list, o)
	p.of[j.ID] = o
}

// give lets a job have so many workers if the pool has room for them.
func (p *allocation) give(o *prospect, size int) {
	if need := fit.Times(o.asks, size-o.size); fit.Within(need, p.pool) {
		p.pool = fit.Minus(p.pool, need)
		o.size = size
	}
}

// offer finds the further workers that are worth most to a job, each.
func (p *allocation) offer(o *prospect) {
	if o.size == 0 {
		return // there is no room for its least
	}
	now, one := o.curve.at(o.size), max(1, o.curve.at(o.terms.Min)/int64(o.terms.Min))
	best := offer{to: o}
	for n := o.size + o.terms.Unit; n <= o.most; n += o.terms.Unit {
		then := o.curve.at(n)
		if !fit.Within(fit.Times(o.asks, n-o.size), p.pool) {
			break
		}
		if then*1000 < now*fasterPM {
			continue
		}
		if worth := power(min((then-now)*million/one/int64(n-o.size), 2*million)) * million / max(1, o.left/1000); worth > best.worth {
			best.size, best.worth = n, worth
		}
	}
	if best.size > 0 {
		heap.Push(p, best)
	}
}

// power returns how much it counts what further workers do, in millionths of what one does at best: more than how much the job needs still.
// Workers who do little for a short job are missed by all the others.
func power(part int64) int64 {
	all := int64(million)
	for range worthPower {
		all = all * part / million
	}
	return all
}

// Len implements heap.Interface.
func (p *allocation) Len() int { return len(p.offers) }

// Less implements heap.Interface.
func (p *allocation) Less(i, k int) bool {
	a, b := &p.offers[i], &p.offers[k]
	return cmp.Or(cmp.Compare(b.to.job.Priority, a.to.job.Priority), cmp.Compare(b.worth, a.worth), cmp.Compare(a.to.job.ID, b.to.job.ID)) < 0
}

// Swap implements heap.Interface.
func (p *allocation) Swap(i, k int) { p.offers[i], p.offers[k] = p.offers[k], p.offers[i] }

// Push implements heap.Interface.
func (p *allocation) Push(x any) { p.offers = append(p.offers, x.(offer)) }

// Pop implements heap.Interface.
func (p *allocation) Pop() any {
	last := p.offers[len(p.offers)-1]
	p.offers = p.offers[:len(p.offers)-1]
	return last
}

// left returns how much service a job still needs that has had some, as far as that can be told.
func (p *allocation) left(j *cluster.Job, had int64) int64 {
	all := p.view.UsualService(j)
	if all == 0 {
		all = 2 * max(unseenService, had, p.mostHad()[kindOf(j)])
	}
	return max(all-had, all/leftPart)
}

// kind is who is alike: the jobs of one user with one name.
type kind struct{ user, name string }

func kindOf(j *cluster.Job) kind { return kind{j.Owner.User, j.Spec.Name} }

// mostHad returns the most service that one of the elastic jobs of a kind that run has had, which is looked at once a cycle.
func (p *allocation) mostHad() map[kind]int64 {
	if p.longest == nil {
		p.longest = map[kind]int64{}
		for _, f := range p.running {
			p.longest[kindOf(f.job)] = max(p.longest[kindOf(f.job)], attainedService(f.job, f.attempt, p.now))
		}
	}
	return p.longest
}

// lasts returns for how long a job runs with workers that are so fast, in ms.
func (o *prospect) lasts(rate int64) int64 {
	one := max(1, o.curve.at(o.terms.Min)/int64(o.terms.Min))
	return cluster.MulDiv(cluster.TimeOf(o.left, o.width()), one, max(1, rate))
}

// width is for how many thousandths of a GPU one worker counts.
func (o *prospect) width() int64 { return o.job.WorthOf(o.asks.Active) }
