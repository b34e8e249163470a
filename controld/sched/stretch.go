package sched

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
)

// What policy elastic does where neither the policy block nor the job says otherwise.
const (
	elasticGainPM = 50  // thousandths by which a job must get faster with more workers to keep them
	elasticDepth  = 256 // waiting jobs that are looked at
)

// elastic serves jobs by priority and age. An elastic job starts with as many workers as fit, but with the least while others of its rank
// wait. Where there is no room, jobs of a lower rank give up workers; where room stays idle, jobs get more, a step at a time, and give them back
// if they did not get faster.
func elastic(t *trial) {
	s := &stretcher{trial: t, running: t.flexibles()}
	s.serve()
	s.goBack()
	s.grow()
}

// stretcher is policy elastic at work.
type stretcher struct {
	*trial
	running []*flexible
	head    *cluster.Job // the first that waits in vain; nil: none
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
	c := &contender{job: j}
	for {
		spots, ok := s.putSized(c, most)
		if !ok {
			return false
		}
		s.start(c, spots, 0)
		if !c.advance(s.trial) {
			return true
		}
	}
}

// putSized finds spots for a contender and leaves the gang that they are for with it.
func (s *stretcher) putSized(c *contender, most bool) ([]fit.Spot, bool) {
	g := c.asks(s.trial)
	terms, elastic := c.job.Elastic()
	if !elastic {
		return s.together(g)
	}
	part := g.At(terms.Part)
	size := terms.Min
	if most {
		size = terms.Max
	}
	for ; size >= terms.Min; size -= terms.Unit {
		part.Workers = size
		if spots, ok := s.together(g); ok {
			return spots, true
		}
	}
	part.Workers = terms.Min
	return nil, false
}

// together places a gang on one node if it can, the one that is left with least, and else on few.
func (t *trial) together(g *fit.Gang) ([]fit.Spot, bool) {
	return t.room.PlaceTogether(g, func(node int, free cluster.Request) float64 { return length(free.Active, t.room.Total(node)) })
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
	p := s.shrinks(&g, s.running, list, s.pricer(list))
	if p == nil {
		return false
	}
	s.makeWay(j, p)
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
		most = max(most, s.standstill(f))
	}
	return func(f *flexible) int64 {
		return ratio(s.standstill(f), most)/1024*1024 + int64(slices.Index(order, f))
	}
}

// standstill is what a resize costs: the grace of a job and what it loses of its work, times what it holds, in ms of one GPU.
func (t *trial) standstill(f *flexible) int64 {
	return f.job.ServiceOf(graceOf(f.job)+relaunchOf(f.job)) + unsaved(t, t.view.Run(f.job.ID))
}

// protect keeps room for the first job that waits in vain: from everybody once it has waited for long, and until then, when all that fit have started,
// from growing jobs.
func (s *stretcher) protect(j *cluster.Job, served bool) {
	due := j.Eligible + cluster.Instant(s.policy.ReserveAfterMS)
	if s.holders[j.ID] != nil || len(s.holders) >= MaxReservations || served != (due > s.now) {
		return
	}
	claims := soonest(s.trial, &contender{job: j})
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

// static serves jobs by priority and age with a fixed number of workers, elastic ones with the most that the cluster could ever hold, and lets
// others pass those that do not fit.
func static(t *trial) {
	s := &stretcher{trial: t}
	for _, j := range s.line() {
		c := &contender{job: j}
		for c.fix(t) {
			spots, ok := t.together(&c.gang)
			if !ok {
				break
			}
			t.start(c, spots, 0)
			if !c.advance(t) {
				break
			}
		}
	}
}

// fix sets the size of an elastic job that waits to the most that the cluster could hold if it were empty. False: it could not hold the least.
func (c *contender) fix(t *trial) bool {
	g := c.asks(t)
	terms, elastic := c.job.Elastic()
	if !elastic {
		return true
	}
	part := g.At(terms.Part)
	for part.Workers = terms.Max; part.Workers >= terms.Min; part.Workers -= terms.Unit {
		if t.everHolds(g) {
			return true
		}
	}
	return false
}
