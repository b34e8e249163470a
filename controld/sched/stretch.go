package sched

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
)

// elasticDepth is how many waiting jobs policy elastic looks at.
const elasticDepth = 256

// elastic serves jobs by priority and age. An elastic job starts with as many workers as fit, but with the least while others of its rank
// wait. Where there is no room, jobs of a lower rank give up workers; where room stays idle, jobs get more, a step at a time, and give them back
// if they did not get faster.
func elastic(t *trial) policyRules {
	s := &stretcher{trial: t, running: flexibles(t), forecast: newForecast(t)}
	return policyRules{serve: s.serve, resize: func() {
		s.goBack()
		s.grow()
	}}
}

// stretcher is policy elastic at work.
type stretcher struct {
	*trial
	running  []*flexible
	forecast *forecast
	head     *cluster.Job // the first that waits in vain; nil: none
}

// line is the waiting jobs that may start, best first.
func (s *stretcher) line() []*cluster.Job {
	var list []*cluster.Job
	for g := range s.view.Groups() {
		if g.Key.Held {
			continue
		}
		for _, j := range g.Jobs[:min(len(g.Jobs), elasticDepth)] {
			if s.startable(j) {
				list = append(list, j)
			}
		}
	}
	slices.SortFunc(list, compare)
	return list[:min(len(list), elasticDepth)]
}

// serve starts what fits and makes way for what does not.
func (s *stretcher) serve() {
	line := s.line()
	for i, j := range line {
		alone := true // nobody of its rank or above waits beside it
		for k, o := range line {
			if k != i && s.started[o.ID] == 0 && (k < i || sameRank(o, j)) {
				alone = false
			}
		}
		if s.startSized(j, alone) || s.promised(j) || s.giveWay(j) {
			continue
		}
		if s.head == nil {
			s.head = j
			s.protect(j, false)
		}
	}
	if s.head != nil {
		s.protect(s.head, true)
	}
}

// sameRank reports whether a job has no lower rank than another, age disregarded.
func sameRank(o, j *cluster.Job) bool {
	return cmp.Or(cmp.Compare(classRank(o.Class), classRank(j.Class)), cmp.Compare(j.Priority, o.Priority)) <= 0
}

// promised reports whether room is being freed for a job.
func (s *stretcher) promised(j *cluster.Job) bool {
	r := s.holders[j.ID]
	return r != nil && r.Firm
}

// startSized starts a job, if it is elastic with as many workers as there is room for, or with the least. It reports whether it could.
func (s *stretcher) startSized(j *cluster.Job, most bool) bool {
	c := newContender(nil, j)
	for {
		spots, ok := s.putSized(c, most)
		if !ok {
			return false
		}
		c.start(s.trial, spots, 0)
		if !c.nextTask() {
			return true
		}
	}
}

// putSized finds spots for a contender and leaves the gang that they are for with it.
func (s *stretcher) putSized(c *contender, most bool) ([]fit.Spot, bool) {
	g := c.gang(s.trial)
	terms, elastic := c.job.Elastic()
	if !elastic {
		return placeTogether(s.trial, g)
	}
	part := g.At(terms.Part)
	size := terms.Min
	if most {
		size = terms.Max
	}
	for ; size >= terms.Min; size -= terms.Unit {
		part.Workers = size
		if spots, ok := placeTogether(s.trial, g); ok {
			return spots, true
		}
	}
	part.Workers = terms.Min
	return nil, false
}

// placeTogether places a gang on one node if it can, the one that is left with least, and else on few.
func placeTogether(t *trial, g *fit.Gang) ([]fit.Spot, bool) {
	return t.room.PlaceTogether(g, func(node int, free cluster.Request) float64 { return fit.Length(free.Active, t.room.Total(node)) })
}

// giveWay lets jobs of a lower rank give up workers for a job, and reports whether that will be enough.
func (s *stretcher) giveWay(j *cluster.Job) bool {
	var list []*flexible
	for _, f := range without(s.running) {
		if compare(j, f.job) < 0 && f.surplus() > 0 {
			list = append(list, f)
		}
	}
	if len(list) == 0 {
		return false
	}
	g := s.gang(j)
	p := shrinks(s.trial, &g, s.running, list, s.pricer(list))
	if p == nil {
		return false
	}
	makeWay(s.trial, j, p)
	return true
}

// pricer returns what it costs that a job gives up workers: the time for which all of its workers stand still, in parts of the most that any
// would, and at equal cost the lowest rank first, and then the greatest surplus.
func (s *stretcher) pricer(list []*flexible) func(*flexible) int64 {
	order := slices.SortedFunc(slices.Values(list), func(a, b *flexible) int {
		return cmp.Or(compare(b.job, a.job), cmp.Compare(b.surplus(), a.surplus()))
	})
	most := int64(1)
	for _, f := range list {
		most = max(most, standstill(s.trial, f))
	}
	return func(f *flexible) int64 {
		return ratio(standstill(s.trial, f), most)/1024*1024 + int64(slices.Index(order, f))
	}
}

// protect keeps room for the first job that waits in vain: from everybody once it has waited for long, and until then, when all that fit have started,
// from growing jobs.
func (s *stretcher) protect(j *cluster.Job, served bool) {
	due := j.Eligible + cluster.Instant(s.policy.ReserveAfterMS)
	if s.holders[j.ID] != nil || len(s.holders) >= maxReservations || served != (due > s.now) {
		return
	}
	g := s.gang(j)
	claims := s.forecast.soonest(&g)
	if claims == nil {
		return
	}
	r := &cluster.Reservation{Job: j.ID, Claims: claims, At: s.now, Until: s.now + cluster.Instant(s.policy.ReserveHoldMS)}
	if served {
		s.wakeAt(due)
		s.room.Claim(r)
		return
	}
	s.reserve(r)
}

// goBack takes from jobs the workers with which they did not get faster.
func (s *stretcher) goBack() {
	for _, f := range without(s.running) {
		if n := superfluous(s.trial, f); n > 0 && settled(s.trial, f) {
			f.drop(n)
			f.resize(s.trial, 0)
		}
	}
}

// grow gives jobs one step more each, those first that gain most from it for their weight, as long as there is idle room that nobody claims.
func (s *stretcher) grow() {
	since := idleSince(s.trial)
	var list []*flexible
	for _, f := range without(s.running) {
		if mayGrow(s.trial, f) && settled(s.trial, f) && idle(s.trial, f, since) {
			list = append(list, f)
		}
	}
	for len(list) > 0 {
		best := 0
		for i := range list {
			if c := cmp.Compare(s.worth(list[i]), s.worth(list[best])); c > 0 || c == 0 && compare(list[i].job, list[best].job) < 0 {
				best = i
			}
		}
		f := list[best]
		list = append(list[:best:best], list[best+1:]...)
		if extend(s.trial, f, f.terms.Step, nil) {
			f.resize(s.trial, 0)
		}
	}
}

// worth is what one step more gains: speedup for each GPU, weighted by priority.
func (s *stretcher) worth(f *flexible) int64 {
	loss := lossOf(f.job)
	width := f.job.WorthOf(f.request().Active) * int64(f.terms.Step)
	return (speedup(f.size+f.terms.Step, loss) - speedup(f.size, loss)) * 1_000_000 / width * int64(1+f.job.Priority)
}
