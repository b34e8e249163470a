package elastic

import (
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// How much each worker must do for a size to be worth its room. Evidence: cmd/lab/papers.md,
// "Elastic jobs with measured speeds".
const (
	WorthPM     = 800 // thousandths: least work of each worker, relative to its best
	IdleWorthPM = 650 // the same for workers in idle room
)

// Curve is the speed of a kind of job by number of workers, on one node or on several. It is
// measured where such jobs have run, and estimated beyond.
type Curve struct {
	near, apart speeds
	Node        int // as many workers as one node could hold
}

// speeds are known speeds by the number of workers, ascending.
type speeds struct {
	known []estimate.StepRate
	loss  int64 // of workers beyond the largest measured size
}

func newSpeeds(known []estimate.StepRate) speeds {
	p := speeds{known: known, loss: tunables.UnseenLoss}
	if n := len(known); n > 1 {
		p.loss = lossBetween(known[n-2], known[n-1])
	}
	return p
}

// CurveOf returns the known speeds of jobs of the same user and name. The speed of a single worker
// is the first point of both curves.
func (z *Sizing) CurveOf(j *model.Job) Curve {
	var near, apart []estimate.StepRate
	for _, p := range z.state.View.Statistics().StepRatesOf(j) {
		if !p.Spread {
			near = append(near, p)
		}
		if p.Spread || p.Size == 1 {
			apart = append(apart, p)
		}
	}
	c := Curve{near: newSpeeds(near), apart: newSpeeds(apart), Node: z.onOneNode(j)}
	if len(apart) == 0 || !apart[len(apart)-1].Spread {
		c.apart = c.near
	} else if len(near) == 0 {
		c.near = newSpeeds(apart[:1])
	}
	return c
}

// At returns the speed with n workers as close together as they can be. It has no unit: only speeds
// of one curve can be compared.
func (c *Curve) At(n int) int64 { return c.Spread(n, n > c.Node) }

// Spread returns the speed with n workers on one node or on several.
func (c *Curve) Spread(n int, apart bool) int64 {
	if apart {
		return c.apart.at(n)
	}
	return c.near.at(n)
}

func (c *speeds) at(n int) int64 {
	if len(c.known) == 0 {
		return Speedup(n, tunables.UnseenLoss)
	}
	first, last := c.known[0], c.known[len(c.known)-1]
	switch {
	case n <= first.Size:
		return first.Rate * Speedup(n, tunables.UnseenLoss) / max(1, Speedup(first.Size, tunables.UnseenLoss))
	case n >= last.Size:
		return last.Rate * Speedup(n, c.loss) / max(1, Speedup(last.Size, c.loss))
	}
	i := slices.IndexFunc(c.known, func(p estimate.StepRate) bool { return p.Size >= n })
	return between(c.known[i-1], c.known[i], n)
}

// between estimates the speed with n workers from two measurements, with fewer and with at least as
// many. It assumes that one part of each step's time is shared among the workers and the rest is
// not. A straight line between the speeds would say too little, and sizes that were never tried
// never would be.
func between(a, b estimate.StepRate, n int) int64 {
	shared, all := int64(b.Size)*int64(n-a.Size), int64(n)*int64(b.Size-a.Size)
	if shared == 0 {
		return a.Rate
	}
	return model.MulDiv(model.MulDiv(a.Rate, all, shared), b.Rate, max(1,
		a.Rate+model.MulDiv(b.Rate, int64(a.Size)*int64(b.Size-n), shared)))
}

// Fitting returns with how many workers a job is worth its room. It is the greatest size at which
// the job is faster than with fewer workers, and each does nearly as much as at best.
func (z *Sizing) Fitting(j *model.Job, worthPM int64) int {
	terms, _ := j.Elastic()
	most := max(terms.Min, min(terms.Max, z.mostWorkers(j, terms)))
	c := z.CurveOf(j)
	if len(c.near.known) == 0 { // it is unknown what being apart costs
		most = max(terms.Min, min(most, c.Node/terms.Unit*terms.Unit))
	}
	each := c.Best(terms, most)
	best, speed := terms.Min, c.At(terms.Min)
	for n := terms.Min + terms.Unit; n <= most; n += terms.Unit {
		if v := c.At(n); v*1_000_000/int64(n) >= each*worthPM && v*1000 > speed*tunables.FasterPM {
			best, speed = n, v
		}
	}
	return best
}

// Best returns the most that each of up to so many workers does, in thousandths of the curve's
// unit.
func (c *Curve) Best(terms model.Elastic, most int) int64 {
	each := int64(0)
	for n := terms.Min; n <= most; n += terms.Unit {
		each = max(each, c.At(n)*1000/int64(n))
	}
	return each
}

// onOneNode is how many workers of a job the largest node would hold if it were empty.
func (z *Sizing) onOneNode(j *model.Job) int {
	terms, _ := j.Elastic()
	g := z.state.Gang(j)
	part := *g.At(terms.Part)
	part.Workers = terms.Max
	n := 1
	for _, all := range z.capacities().kinds {
		n = max(n, fit.Capacity(&part, fit.Both(all)))
	}
	return n
}

// mostWorkers is how many workers of a job a part of the whole cluster would hold, or the largest
// node.
func (z *Sizing) mostWorkers(j *model.Job, terms model.Elastic) int {
	c := z.capacities()
	r := j.RequestOf(terms.First).Active
	n := max(c.part.Cores, c.largest.Cores) / max(1, r.Cores)
	if r.GPUs > 0 {
		n = max(c.part.GPUs, c.largest.GPUs) / r.GPUs
	}
	return int(n) / terms.Unit * terms.Unit
}

// capacities bound the size of one job.
type capacities struct {
	part    model.Vector   // of all nodes that are up
	largest model.Vector   // the most that one of them has
	kinds   []model.Vector // what nodes have, up or not, each once
}

// Sizing says how many workers elastic jobs should have.
type Sizing struct {
	state *scratch.State
	whole *capacities // nil until it is needed
}

// NewSizing returns what a cycle knows of sizes.
func NewSizing(t *scratch.State) *Sizing { return &Sizing{state: t} }

// capacities returns what nodes have, which is looked at once a cycle.
func (z *Sizing) capacities() *capacities {
	if z.whole != nil {
		return z.whole
	}
	c := &capacities{}
	seen := map[model.Vector]bool{}
	for i := range z.state.View.Nodes() {
		all := z.state.Room.Total(i)
		if !seen[all] {
			seen[all], c.kinds = true, append(c.kinds, all)
		}
		if z.state.Room.Up(i) {
			c.part, c.largest = c.part.Plus(all), c.largest.Most(all)
		}
	}
	c.part.Cores /= tunables.ClusterPart
	c.part.GPUs /= tunables.ClusterPart
	z.whole = c
	return c
}
