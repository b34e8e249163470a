package compare

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/elastic"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/policy"
	"github.com/rota-hpc/rota/controld/sched/preempt"
	"github.com/rota-hpc/rota/controld/sched/queue"
	"github.com/rota-hpc/rota/controld/sched/reserve"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// elasticDepth is how many waiting jobs policy elastic looks at.
const elasticDepth = 256

// Elastic serves jobs by priority and age. An elastic job starts with as many workers as fit, but
// with the least while others of its rank wait. Where room is short, jobs of a lower rank give up
// workers. Where room stays idle, jobs grow by one step at a time, and shrink again if they did not
// get faster.
func Elastic(t *scratch.State) policy.Phases {
	return &elasticPolicy{state: t, running: elastic.Running(t), forecast: reserve.NewForecast(t)}
}

// elasticPolicy is policy elastic at work.
type elasticPolicy struct {
	policy.Idle
	state    *scratch.State
	running  []*elastic.RunningJob
	forecast *reserve.Forecast
	head     *model.Job // the first that waits in vain; nil: none
}

// line is the waiting jobs that may start, best first.
func (s *elasticPolicy) line() []*model.Job {
	var list []*model.Job
	for g := range s.state.View.QueueGroups() {
		if g.Key.Held {
			continue
		}
		for _, j := range g.Jobs[:min(len(g.Jobs), elasticDepth)] {
			if s.state.Startable(j) {
				list = append(list, j)
			}
		}
	}
	slices.SortFunc(list, queue.Compare)
	return list[:min(len(list), elasticDepth)]
}

// Serve starts jobs that fit and makes way for the others.
func (s *elasticPolicy) Serve() {
	line := s.line()
	for i, j := range line {
		alone := true // no other job of its rank or above waits
		for k, o := range line {
			if k != i && s.state.Started[o.ID] == 0 && (k < i || sameRank(o, j)) {
				alone = false
			}
		}
		if s.startSized(j, alone) || s.state.AwaitsVictims(j.ID) || s.giveWay(j) {
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
func sameRank(o, j *model.Job) bool {
	return cmp.Or(cmp.Compare(queue.ClassRank(o.Class), queue.ClassRank(j.Class)),
		cmp.Compare(j.Priority, o.Priority)) <= 0
}

// startSized starts a job, if it is elastic with as many workers as there is room for, or with the
// least. It reports whether it could.
func (s *elasticPolicy) startSized(j *model.Job, most bool) bool {
	c := queue.NewContender(nil, j)
	return c.StartAll(s.state, func() ([]fit.Spot, bool) { return s.putSized(c, most) })
}

// putSized finds spots for a contender and leaves the gang that they are for with it.
func (s *elasticPolicy) putSized(c *queue.Contender, most bool) ([]fit.Spot, bool) {
	g := c.Gang(s.state)
	terms, elastic := c.Job.Elastic()
	if !elastic {
		return placeTogether(s.state, g)
	}
	part := g.At(terms.Part)
	size := terms.Min
	if most {
		size = terms.Max
	}
	for ; size >= terms.Min; size -= terms.Unit {
		part.Workers = size
		if spots, ok := placeTogether(s.state, g); ok {
			return spots, true
		}
	}
	part.Workers = terms.Min
	return nil, false
}

// placeTogether places a gang on one node if it can, the tightest one, and else on few.
func placeTogether(t *scratch.State, g *fit.Gang) ([]fit.Spot, bool) {
	return t.Room.PlaceTogether(g, func(node int, free model.Request) float64 {
		return fit.Length(free.Active,
			t.Room.Total(node))
	})
}

// giveWay lets jobs of a lower rank give up workers for a job, and reports whether that will be
// enough.
func (s *elasticPolicy) giveWay(j *model.Job) bool {
	if !s.state.May(steering.Preemption) {
		return false
	}
	var list []*elastic.RunningJob
	for _, f := range preempt.Unchanged(s.running) {
		if queue.Compare(j, f.Job) < 0 && f.Surplus() > 0 {
			list = append(list, f)
		}
	}
	if len(list) == 0 {
		return false
	}
	g := s.state.Gang(j)
	p := preempt.PlanShrink(s.state, &g, s.running, list, s.pricer(list))
	if p == nil {
		return false
	}
	preempt.Shrink(s.state, j, p)
	return true
}

// pricer returns the cost of taking workers from a job. All of its workers stand still for some
// time, and the cost is that time relative to the longest one. At equal cost the lowest rank comes
// first, and then the greatest surplus.
func (s *elasticPolicy) pricer(list []*elastic.RunningJob) func(*elastic.RunningJob) int64 {
	order := slices.SortedFunc(slices.Values(list), func(a, b *elastic.RunningJob) int {
		return cmp.Or(queue.Compare(b.Job, a.Job), cmp.Compare(b.Surplus(), a.Surplus()))
	})
	part := preempt.StandstillPart(s.state, list)
	return func(f *elastic.RunningJob) int64 { return part(f)/1024*1024 + int64(slices.Index(order, f)) }
}

// protect keeps room for the first job that waits in vain. Once it has waited for long, its room is
// kept from all jobs; until then, when all that fit have started, only from growing jobs.
func (s *elasticPolicy) protect(j *model.Job, served bool) {
	due := j.Eligible + model.Instant(s.state.Policy.ReserveAfterMS)
	if s.state.Holders[j.ID] != nil || len(s.state.Holders) >= reserve.MaxReservations || served != (due > s.state.Now) {
		return
	}
	g := s.state.Gang(j)
	claims := s.forecast.Soonest(&g)
	if claims == nil {
		return
	}
	r := s.state.NewReservation(j.ID, claims, s.state.Now)
	if served {
		s.state.WakeAt(due)
		s.state.Room.Claim(r)
		return
	}
	s.state.Reserve(r)
}

// Resize gives jobs the room that is idle, and takes back workers that were of no use.
func (s *elasticPolicy) Resize() {
	s.goBack()
	s.grow()
}

// goBack takes from jobs the workers with which they did not get faster.
func (s *elasticPolicy) goBack() {
	for _, f := range preempt.Unchanged(s.running) {
		if n := elastic.Superfluous(s.state, f); n > 0 && elastic.Settled(s.state, f) {
			f.Drop(n)
			f.Resize(s.state, 0)
		}
	}
}

// grow gives jobs one step more each, as long as there is idle room that no job claims. Jobs that
// gain most for their weight come first.
func (s *elasticPolicy) grow() {
	since := elastic.IdleSince(s.state)
	var list []*elastic.RunningJob
	for _, f := range preempt.Unchanged(s.running) {
		if elastic.MayGrow(s.state, f) && elastic.Settled(s.state, f) && elastic.RoomIdle(s.state, f, since) {
			list = append(list, f)
		}
	}
	for len(list) > 0 {
		best := 0
		for i := range list {
			if c := cmp.Compare(s.worth(list[i]), s.worth(list[best])); c > 0 || c == 0 &&
				queue.Compare(list[i].Job, list[best].Job) < 0 {
				best = i
			}
		}
		f := list[best]
		list = append(list[:best:best], list[best+1:]...)
		if elastic.Extend(s.state, f, f.Terms.Step, nil, nil) {
			f.Resize(s.state, 0)
		}
	}
}

// worth is the gain of one step more: speedup for each GPU, weighted by priority.
func (s *elasticPolicy) worth(f *elastic.RunningJob) int64 {
	loss := elastic.LossOf(s.state, f.Job)
	width := f.Job.GPUEquivalentsOf(f.Request().Active) * int64(f.Terms.Step)
	return (elastic.Speedup(f.Size+f.Terms.Step, loss) - elastic.Speedup(f.Size,
		loss)) * 1_000_000 / width * int64(1+f.Job.Priority)
}
