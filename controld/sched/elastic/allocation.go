package elastic

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

const million = 1_000_000

// Prospect is how much service an elastic job still needs, by estimate, and with how many workers
// it should go on. No user is asked how long a job runs. Jobs of one user with one name are taken
// to be alike: a job needs as much as those that have completed took. If none has completed, a job
// is taken to need as much again as it has had. Jobs like it are taken to need no less in all.
type Prospect struct {
	job   *model.Job
	terms model.Elastic
	curve Curve
	Left  int64 // service, as model.Job.Attained counts it
	most  int   // the most workers that are worth their room
	Size  int   // workers it should have
	asks  model.Request
}

// Allocation divides free room, and the room that elastic jobs have, among those that run and those
// that wait. Each gets its minimum first, in order. Then each further worker goes to the job that
// gains most by it for its remaining service. So short jobs come first: other jobs lose less by
// waiting for a short job than it would lose by sharing with them.
//
// The algorithm is greedy allocation by marginal gain (Fox, Discrete Optimization via Marginal
// Analysis, 1966). It is optimal where speed grows ever more slowly with each worker. Measured
// curves have steps where a job outgrows a node. So an offer is the next size with the best gain for
// each worker, not the next worker. It costs O(jobs x sizes) for each size that is given.
type Allocation struct {
	state   *scratch.State
	sizing  *Sizing
	running []*RunningJob
	list    []*Prospect
	Of      map[model.JobID]*Prospect
	pool    model.Request
	offers  []offer        // the best one last
	longest map[kind]int64 // see mostHad
}

// NewAllocation divides the room among the elastic jobs that run and those that wait, in order.
func NewAllocation(z *Sizing, running []*RunningJob, waiting []*model.Job) *Allocation {
	p := &Allocation{state: z.state, sizing: z, running: running, Of: map[model.JobID]*Prospect{}}
	// The pool is one amount for the whole cluster: what is free, and what elastic jobs hold now. Which
	// node has it does not count here.
	for i := range p.state.View.Nodes() {
		if p.state.Room.Up(i) {
			p.pool = p.pool.Plus(p.state.Room.Available(i))
		}
	}
	for _, f := range p.running {
		p.pool = p.pool.Plus(f.Request().Times(f.Size))
		p.add(f.Job, f.Terms, scratch.AttainedService(f.Job, f.Attempt, p.state.Now), IdleWorthPM)
	}
	for _, j := range waiting {
		terms, _ := j.Elastic()
		p.add(j, terms, j.Attained(), WorthPM)
	}
	// First the minimum of each, running jobs before waiting ones.
	for _, o := range p.list {
		p.give(o, o.terms.Min)
	}
	// Then the best offer of all jobs, again and again. A job that takes one makes its next offer.
	for _, o := range p.list {
		p.offer(o)
	}
	for len(p.offers) > 0 {
		last := len(p.offers) - 1
		o := p.offers[last]
		p.offers = p.offers[:last]
		p.give(o.to, o.size)
		p.offer(o.to) // a smaller size may still fit
	}
	return p
}

// Due returns with how many workers a job should run, and how much service it still needs.
func (p *Allocation) Due(j *model.Job) (size int, left int64) {
	if o := p.Of[j.ID]; o != nil {
		return o.Size, o.Left
	}
	return p.sizing.Fitting(j, WorthPM), p.Left(j, j.Attained())
}

// offer is a job's next size and its worth.
type offer struct {
	to    *Prospect
	size  int
	worth int64 // power of their gain for each second that the job still needs
}

// add takes a job in.
func (p *Allocation) add(j *model.Job, terms model.Elastic, had int64, worth int64) {
	o := &Prospect{job: j, terms: terms, curve: p.sizing.CurveOf(j), Left: p.Left(j, had),
		most: p.sizing.Fitting(j, worth), asks: j.RequestOf(terms.First)}
	p.list = append(p.list, o)
	p.Of[j.ID] = o
}

// give sets a job's size if the pool has room for it; else the job keeps its size.
func (p *Allocation) give(o *Prospect, size int) {
	if need := o.asks.Times(size - o.Size); fit.Within(need, p.pool) {
		p.pool = p.pool.Minus(need)
		o.Size = size
	}
}

// offer finds the next size at which each further worker is worth most to a job, and puts it into
// the list of offers. It costs O(sizes + log offers).
func (p *Allocation) offer(o *Prospect) {
	if o.Size == 0 {
		return // there is no room for its least
	}
	// now is the speed at its size, one that of a single worker at its least size.
	now, one := o.curve.At(o.Size), max(1, o.curve.At(o.terms.Min)/int64(o.terms.Min))
	best := offer{to: o}
	for n := o.Size + o.terms.Unit; n <= o.most; n += o.terms.Unit {
		// A size counts if the pool has room for it and the job is clearly faster. Its worth is the gain
		// of each further worker, weighted by power, for each second that the job still needs.
		then := o.curve.At(n)
		if !fit.Within(o.asks.Times(n-o.Size), p.pool) {
			break
		}
		if then*1000 < now*tunables.FasterPM {
			continue
		}
		if worth := power(min((then-now)*million/one/int64(n-o.Size), 2*million)) * million / max(1,
			o.Left/1000); worth > best.worth {
			best.size, best.worth = n, worth
		}
	}
	// The list of offers is sorted, the best one last.
	if best.size > 0 {
		at, _ := slices.BinarySearchFunc(p.offers, best, compareOffers)
		p.offers = slices.Insert(p.offers, at, best)
	}
}

// power returns the weight of the gain of each further worker, in millionths: the gain to the power
// WorthPower. So the gain counts for more than the remaining service. Workers that add little to a
// short job would be missed by all other jobs.
func power(part int64) int64 {
	all := int64(million)
	for range tunables.WorthPower {
		all = all * part / million
	}
	return all
}

// compareOffers orders offers by the priority of the job, then by what they are worth, then by age:
// the best one last.
func compareOffers(a, b offer) int {
	return cmp.Or(cmp.Compare(a.to.job.Priority, b.to.job.Priority), cmp.Compare(a.worth, b.worth),
		cmp.Compare(b.to.job.ID, a.to.job.ID))
}

// Left returns how much service a job still needs that has had some, as far as that can be told.
func (p *Allocation) Left(j *model.Job, had int64) int64 {
	// If no job like it has completed, it needs as much again as the longest of its kind has had. Some
	// remainder is left in any case, since an estimate may be too low.
	all := p.state.View.Statistics().MeanService(j)
	if all == 0 {
		all = 2 * max(tunables.UnseenServiceMS, had, p.mostHad()[kindOf(j)])
	}
	return max(all-had, all/tunables.LeftPart)
}

// kind is a user and a job name. Jobs of one kind are taken to be alike.
type kind struct{ user, name string }

func kindOf(j *model.Job) kind { return kind{j.Owner.User, j.Spec.Name} }

// mostHad returns, by kind, the most service that a running elastic job has had. It is computed
// once a cycle.
func (p *Allocation) mostHad() map[kind]int64 {
	if p.longest == nil {
		p.longest = map[kind]int64{}
		for _, f := range p.running {
			p.longest[kindOf(f.Job)] = max(p.longest[kindOf(f.Job)], scratch.AttainedService(f.Job, f.Attempt, p.state.Now))
		}
	}
	return p.longest
}

// Lasts returns the remaining run time at a rate, in ms.
func (o *Prospect) Lasts(rate int64) int64 {
	one := max(1, o.curve.At(o.terms.Min)/int64(o.terms.Min))
	return model.MulDiv(model.TimeOf(o.Left, o.Width()), one, max(1, rate))
}

// Width is the GPU equivalents of one worker, in thousandths.
func (o *Prospect) Width() int64 { return o.job.GPUEquivalentsOf(o.asks.Active) }
