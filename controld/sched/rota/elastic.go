package rota

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/sched/elastic"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/preempt"
	"github.com/rota-hpc/rota/controld/sched/scratch"
	"github.com/rota-hpc/rota/jobspec"
)

// elasticPhases is the phases of policy rota for elastic jobs. It acts on the allocation that
// package elastic computes: see [elastic.Allocation], a greedy division by marginal gain. The
// minimum workers of elastic jobs count as other jobs do. Further workers are allocated in the
// order of all jobs, in three phases. Jobs that start get them out of free room. Jobs that would
// start with next to nothing get them from jobs that come later or have much more than is fitting.
// Running jobs get them when room has been idle for a while.
type elasticPhases struct {
	state   *scratch.State
	rota    *rotaPolicy
	running []*elastic.RunningJob
	divided *elastic.Allocation           // nil until it is needed
	rested  map[model.Instant]fit.NodeSet // see restedFor
}

// newElasticPhases returns the phases, nil where there has never been an elastic job.
func newElasticPhases(t *rotaPolicy) *elasticPhases {
	if l := t.state.View.Statistics(); t.state.Policy.Rigid || l == nil ||
		l.LastElasticStart == 0 && t.state.View.ElasticHeads() == 0 {
		return nil
	}
	return &elasticPhases{state: t.state, rota: t, running: elastic.Running(t.state)}
}

// allocation returns how elastic jobs should run, which is computed once a cycle.
func (s *elasticPhases) allocation() *elastic.Allocation {
	if s.divided == nil {
		s.divided = elastic.NewAllocation(s.rota.sizes, s.running, s.waitingJobs())
	}
	return s.divided
}

// due returns with how many workers a job should run, and how much service it still needs.
func (s *elasticPhases) due(j *model.Job) (size int, left int64) { return s.allocation().Due(j) }

// waitingJobs is the elastic jobs that may start, in order.
func (s *elasticPhases) waitingJobs() []*model.Job {
	if s.state.View.ElasticHeads() == 0 {
		return nil
	}
	var list []*model.Job
	for g := range s.state.View.QueueGroups() {
		if !g.Head.Elastic || g.Head.Held || g.Head.TE {
			continue
		}
		for _, j := range g.Jobs[:min(len(g.Jobs), maxElastic)] {
			if _, elastic := j.Elastic(); elastic && s.state.Holders[j.ID] == nil && j.Children == nil && s.rota.startable(j) {
				list = append(list, j) // jobs with a fixed number of workers may wait too
			}
		}
	}
	slices.SortFunc(list, s.rota.order.Compare)
	return list[:min(len(list), maxElastic)]
}

// shrinkForWaiting lets jobs give up workers for those that would start with next to nothing. Room
// is promised to these, and they wait for it.
func (s *elasticPhases) shrinkForWaiting() {
	line := s.waitingJobs()
	if len(line) == 0 {
		return
	}
	if s.allocation(); len(s.running) == 0 { // divided before any job has started
		return
	}
	slices.SortStableFunc(line, func(a, b *model.Job) int {
		_, first := s.due(a)
		_, second := s.due(b)
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(first, second))
	})
	// On a copy of the room, each job takes what it would find when its turn comes. Only a job that
	// would find less than a part of its due gets room from others.
	try := s.state.Room.Copy()
	for _, j := range line {
		terms, _ := j.Elastic()
		want, _ := s.due(j)
		want = max(want, terms.Min)
		g := s.state.Gang(j)
		have := takeUpTo(try, &g, terms, want)
		if have*scantPart >= want && have > 0 {
			continue
		}
		s.shrinkFor(j, terms, have, want)
	}
}

// takeUpTo takes room for as many elastic workers of a gang as fit, up to a number. It returns how
// many those are: 0 if not even the least fit.
func takeUpTo(r *fit.Room, g *fit.Gang, terms model.Elastic, most int) int {
	part := g.At(terms.Part)
	for part.Workers = most; part.Workers >= terms.Min; part.Workers -= terms.Unit {
		if spots, ok := r.Place(g); ok {
			r.Take(g, spots)
			return part.Workers
		}
	}
	return 0
}

// shrinkFor lets jobs give up workers for a job that would start with few. It makes room for as
// many as are fitting, or for fewer if that restarts fewer jobs. Where there is no room for its
// minimum, any job with more than its own minimum may have to give some.
func (s *elasticPhases) shrinkFor(j *model.Job, terms model.Elastic, have, want int) {
	// Four sizes, the greatest first: a full search of all sizes would cost a search for victims each.
	sizes := []int{want, want * 3 / 4, want / 2, want / 4}
	if s.giveAny(j, terms, sizes, 2*have, func(f *elastic.RunningJob) bool { return s.mayGive(f, j) }) || have > 0 {
		return
	}
	s.giveAny(j, terms, []int{terms.Min}, 0, s.canGive)
}

// giveAny looks for the plan with the fewest jobs that give up workers, of those that may, and
// carries it out. It reports whether there was one.
func (s *elasticPhases) giveAny(j *model.Job, terms model.Elastic, sizes []int, least int,
	may func(*elastic.RunningJob) bool) bool {
	list := slices.DeleteFunc(preempt.Unchanged(s.running), func(f *elastic.RunningJob) bool { return !may(f) })
	if len(list) == 0 {
		return false
	}
	// The plan that restarts the fewest jobs wins. Sizes come from the greatest down; once there is a
	// plan, the last size is too small to be worth another search.
	part := preempt.StandstillPart(s.state, list)
	price := func(f *elastic.RunningJob) int64 { return max(1, part(f)) }
	var best *preempt.ShrinkPlan
	for i, size := range sizes {
		size = max(terms.Min, size/terms.Unit*terms.Unit)
		if size < least || best != nil && i == len(sizes)-1 {
			break
		}
		g := s.state.Gang(j)
		g.At(terms.Part).Workers = size
		p := preempt.PlanShrink(s.state, &g, s.running, list, price)
		if p != nil && (best == nil || len(p.Jobs) < len(best.Jobs)) {
			best = p
		}
	}
	if best == nil {
		return false
	}
	preempt.Shrink(s.state, j, best)
	return true
}

// canGive reports whether a job has more than its least, and has had it for so long that starting
// it again costs little of that.
func (s *elasticPhases) canGive(f *elastic.RunningJob) bool {
	if f.Surplus() == 0 || f.Job.Class != jobspec.BE {
		return false
	}
	at := f.Attempt.Started.At + model.Instant(elastic.RestartCost(f.Job))
	s.state.WakeAt(at)
	return at <= s.state.Now && (f.Terms.Signal ||
		preempt.UnsavedWork(s.state, s.state.View.LiveAttempt(f.Job.ID)) <= preempt.MuchUnsaved)
}

// mayGive reports whether a job may be asked to give up workers for another. It must have more
// workers than it should, and still need much more service than the other job.
func (s *elasticPhases) mayGive(f *elastic.RunningJob, j *model.Job) bool {
	size, left := s.due(f.Job)
	_, needs := s.due(j)
	return s.canGive(f) && f.Size > size && left >= cluster.OrderWorth.Of(&s.state.Policy)*needs
}

// enlargeStarts gives jobs that start in this cycle more workers out of free room, in order, up to
// what is fitting. As long as it is not known whether others will find room for their least, only
// those get any that were promised it.
func (s *elasticPhases) enlargeStarts() {
	for _, action := range s.state.Actions {
		a, ok := action.(*fsm.StartJob)
		if !ok {
			continue
		}
		j := s.state.View.Job(a.Job)
		terms, elastic := j.Elastic()
		if r := s.state.View.Reservation(a.Job); !elastic || s.state.EndsEarly() && (r == nil || !r.ForPreemptor) {
			continue
		}
		s.enlarge(a, j, terms)
	}
}

// enlarge places a start anew with as many workers as there is room for, up to what is fitting.
func (s *elasticPhases) enlarge(a *fsm.StartJob, j *model.Job, terms model.Elastic) {
	want, _ := s.due(j)
	for want > terms.Min && !s.state.MayGrow(j, terms.Fixed+want, nil) {
		want -= terms.Unit
	}
	g := s.state.Gang(j)
	g.For = 0 // its own reservation is lifted already
	// Take the start back on a copy, and place it anew with more workers. Only if that succeeds does
	// the copy become the room of the cycle.
	try := s.state.Room.Copy()
	for i, p := range a.Places {
		_, node := s.state.View.Node(p.Node)
		try.Release(node, j.RequestOf(i), p.GPUs)
	}
	spots := s.compact(try, &g, j, terms, want)
	if spots == nil || !s.state.MayGrow(j, len(spots), s.state.NodesOf(spots)) {
		return
	}
	s.state.Grow(j, len(spots), s.state.NodesOf(spots))
	s.state.Room = try
	s.state.Revision++
	a.Port = s.state.Room.Take(&g, spots)
	for _, p := range a.Places {
		_, node := s.state.View.Node(p.Node)
		s.rota.spare.took([]fit.Spot{{Node: node}})
	}
	s.rota.spare.took(spots)
	a.Places = s.state.Places(spots)
}

// compact finds room for as many elastic workers as are fitting, or as there is room for, and
// leaves their number with the gang. It prefers a smaller number on no more nodes than needed, as
// long as that is at least half as many. Nil: for no more than the least.
func (s *elasticPhases) compact(r *fit.Room, g *fit.Gang, j *model.Job, terms model.Elastic, want int) []fit.Spot {
	part := g.At(terms.Part)
	c := s.rota.sizes.CurveOf(j)
	each := c.Best(terms, want)
	var first []fit.Spot
	// From the greatest size down. A size counts if it leaves the headroom free and each worker is
	// worth its room at the speed of that spread. The first that counts is kept in case none is on few
	// nodes.
	for part.Workers = want; part.Workers > terms.Min && part.Workers*2 >= len(first); part.Workers -= terms.Unit {
		spots, ok := r.Place(g)
		if !ok || !s.rota.leavesHeadroom(r, spots, g) ||
			c.Spread(part.Workers, scattered(spots))*1_000_000/int64(part.Workers) < each*elastic.WorthPM {
			continue
		}
		if first == nil {
			first = spots
		}
		if s.closeBy(spots, part) {
			return spots
		}
	}
	if first != nil {
		part.Workers = len(first) - terms.Fixed
	}
	return first
}

// scattered reports whether spots are on several nodes.
func scattered(spots []fit.Spot) bool {
	return slices.ContainsFunc(spots, func(o fit.Spot) bool { return o.Node != spots[0].Node })
}

// closeBy reports whether workers are on no more nodes than they would need if the largest were
// empty.
func (s *elasticPhases) closeBy(spots []fit.Spot, p *fit.Component) bool {
	nodes := map[int]bool{}
	for _, spot := range spots {
		nodes[spot.Node] = true
	}
	most := 1
	for node := range s.state.View.Nodes() {
		most = max(most, fit.Capacity(p, fit.Both(s.state.Room.Total(node))))
	}
	return len(nodes) <= (p.Workers+most-1)/most
}

// leavesHeadroom reports whether enough stays free for trial-and-error jobs to come if a gang has
// its spots.
func (t *rotaPolicy) leavesHeadroom(r *fit.Room, spots []fit.Spot, g *fit.Gang) bool {
	if t.spare == nil {
		return true
	}
	try := r.Copy()
	try.Take(g, spots)
	return t.spare.keptIn(try)
}

// grow gives running jobs more workers out of room that has been idle, in order. It does so where a
// restart pays if the jobs run for as long as they have run.
func (s *elasticPhases) grow() {
	if len(s.state.Started) > 0 {
		return
	}
	// Workers that do not make a job faster leave; jobs that could be faster and have rested may grow.
	var list []*elastic.RunningJob
	for _, f := range preempt.Unchanged(s.running) {
		if _, asked := s.state.Stopping[f.Job.ID]; asked {
			continue // to leave, in this cycle
		}
		if n := elastic.Superfluous(s.state, f); n > 0 && f.Job.Class == jobspec.BE && elastic.Settled(s.state, f) {
			f.Drop(n)
			f.Resize(s.state, 0)
			continue
		}
		if f.Job.Class == jobspec.BE && s.couldGrow(f) && elastic.Settled(s.state, f) && s.hasRested(f) {
			list = append(list, f)
		}
	}
	slices.SortFunc(list, func(a, b *elastic.RunningJob) int {
		_, first := s.due(a.Job)
		_, second := s.due(b.Job)
		return cmp.Or(cmp.Compare(b.Job.Priority, a.Job.Priority), cmp.Compare(first, second),
			cmp.Compare(a.Job.ID, b.Job.ID))
	})
	// First up to what the allocation has for each, the job that needs least first.
	for _, f := range list {
		s.growInto(f, s.allocation().Of[f.Job.ID].Size)
	}
	for _, f := range preempt.Unchanged(list) { // the rest is of no use to the jobs that it was meant for
		s.growInto(f, s.rota.sizes.Fitting(f.Job, elastic.WorthPM))
	}
}

// hasRested reports whether a job that was started again has run undisturbed for long enough.
// Another restart for its own sake then costs little of its time.
func (s *elasticPhases) hasRested(f *elastic.RunningJob) bool {
	if f.Attempt.N == 1 {
		return true
	}
	at := f.Attempt.Started.At + model.Instant(cluster.CostWorth.Of(&s.state.Policy)*elastic.RestartCost(f.Job))
	s.state.WakeAt(at)
	return at <= s.state.Now
}

// restedFor returns the nodes with room that has been free for so long; nil: none.
func (s *elasticPhases) restedFor(wait model.Instant) fit.NodeSet {
	if only, known := s.rested[wait]; known {
		return only
	}
	var nodes []int
	for node := range s.state.View.Nodes() {
		if s.state.Room.Available(node).Active == (model.Vector{}) {
			continue
		}
		at := s.state.View.FreedAt(node) + wait
		if s.state.WakeAt(at); at <= s.state.Now {
			nodes = append(nodes, node)
		}
	}
	var only fit.NodeSet
	if nodes != nil {
		only = s.state.Room.Nodes(nodes...)
	}
	if s.rested == nil {
		s.rested = map[model.Instant]fit.NodeSet{}
	}
	s.rested[wait] = only
	return only
}

// couldGrow reports whether a job would be faster with more workers, or with those that it has on
// one node.
func (s *elasticPhases) couldGrow(f *elastic.RunningJob) bool {
	if s.rota.sizes.Fitting(f.Job, elastic.IdleWorthPM) > f.Size {
		return true
	}
	c := s.rota.sizes.CurveOf(f.Job)
	return f.Apart() && f.Size <= c.Node && c.Spread(f.Size, false)*1000 >= s.speedOf(f, &c)*growsByPM
}

// speedOf returns how fast a job that runs is, in the unit of its curve.
func (s *elasticPhases) speedOf(f *elastic.RunningJob, c *elastic.Curve) int64 {
	if f.Attempt.Rate > 0 {
		return f.Attempt.Rate
	}
	return c.Spread(f.Size, f.Apart())
}

// growInto grows one job to the largest size, at most most, that has room and is worth it. If the
// job is faster still on one node, it moves there.
func (s *elasticPhases) growInto(f *elastic.RunningJob, most int) {
	nodes := s.restedFor(elastic.GrowAfter(s.state, f))
	if nodes == nil {
		return
	}
	c := s.rota.sizes.CurveOf(f.Job)
	was := s.speedOf(f, &c)
	each := c.Best(f.Terms, max(f.Size, c.Node))
	o := s.allocation().Of[f.Job.ID]
	cost := cluster.ResizeWorth.Of(&s.state.Policy) * standstillOf(f.Job, f.Terms)
	worth := func(n int, apart bool) bool {
		is := c.Spread(n, apart)
		return is*1000 >= was*growsByPM && is*1_000_000/int64(n) >= each*elastic.IdleWorthPM &&
			o.Lasts(was)-o.Lasts(is) >= cost
	}
	// Bounds: what is worth it at all, and how much room there is.
	fitting := min(most, s.rota.sizes.Fitting(f.Job, elastic.IdleWorthPM))
	most = min(fitting, f.Size+s.roomFor(f, nodes))
	s.wakeOnceItPays(f, o, o.Lasts(was)-o.Lasts(c.At(most)), cost)
	node, size := s.nodeToConsolidateOn(f, nodes, min(fitting, c.Node))
	if node >= 0 && !worth(size, false) {
		node = -1
	}
	// From the greatest size down: the first that is worth its restart is taken, since each restart
	// costs the same. It costs one placement for each size.
	for n := f.Size + (most-f.Size)/f.Terms.Unit*f.Terms.Unit; n > f.Size; n -= f.Terms.Unit {
		if elastic.Extend(s.state, f, n-f.Size, nodes, func(spots []fit.Spot, request model.Request) bool {
			apart := f.Apart() || spots[0].Node != f.Nodes[0] || scattered(spots)
			return worth(n, apart) && (node < 0 || c.Spread(n, apart) > c.Spread(size, false) || !apart && n >= size) &&
				s.rota.spare.allowsMore(spots, request)
		}) {
			f.Resize(s.state, 0)
			return
		}
	}
	if node >= 0 && s.consolidateOn(f, node, size) {
		f.Resize(s.state, 0)
	}
}

// standstillOf returns for how long a job stands still when it grows, in ms: not at all if it is
// resized while it runs.
func standstillOf(j *model.Job, terms model.Elastic) int64 {
	if terms.Signal {
		return 0
	}
	return scratch.GraceOf(j) + elastic.RestartCost(j)
}

// wakeOnceItPays asks for a cycle when more workers will save a job enough, if they save it
// something already. Until a job like it has completed, the estimate of its remaining need equals
// its past service, which grows.
func (s *elasticPhases) wakeOnceItPays(f *elastic.RunningJob, o *elastic.Prospect, saves, cost int64) {
	if saves <= 0 || saves >= cost || s.state.View.Statistics().MeanService(f.Job) > 0 {
		return
	}
	after := model.TimeOf(model.MulDiv(o.Left, cost-saves, saves), int64(f.Size)*o.Width())
	s.state.WakeAt(s.state.Now + model.Instant(min(max(after, growRecheck), scratch.Day)))
}

// nodeToConsolidateOn returns the node that could hold the most workers of a job if all of them
// moved there, and how many. Of equal nodes it returns the one where the job has more workers
// already. -1: no other node than its own is better.
func (s *elasticPhases) nodeToConsolidateOn(f *elastic.RunningJob, nodes fit.NodeSet, most int) (node, size int) {
	node = -1
	if f.Terms.Fixed > 0 || f.Terms.Signal {
		return node, 0
	}
	g := s.state.Gang(f.Job)
	part := *g.At(f.Terms.Part)
	part.Workers = most
	for on := range s.state.View.Nodes() {
		// Skip nodes where the job is whole already, and those that could not take one more worker.
		own := f.On(on)
		if own == f.Size || !nodes.Has(on) ||
			own == 0 && s.state.Room.Available(on).Active.GPUs < part.Request.Active.GPUs ||
			s.state.Room.Whole(on) || !s.state.Room.Usable(on, &part, g.Exclude) {
			continue
		}
		n := own + max(0, fit.Capacity(&part, s.state.Room.Available(on)))
		n = min(n, most, part.PerNode) / f.Terms.Unit * f.Terms.Unit
		if n >= own && n >= f.Terms.Min && (n > size || n == size && own > f.On(node)) {
			node, size = on, n
		}
	}
	return node, size
}

// consolidateOn moves all workers of a job to one node, where it then has size workers. It reports
// whether there is room.
func (s *elasticPhases) consolidateOn(f *elastic.RunningJob, node, size int) bool {
	g := s.state.Gang(f.Job)
	if more := g.Only(f.Terms.Part, size-f.On(node)); more.Workers > 0 {
		spots, ok := s.state.Room.PlaceOn(more, node)
		if workers := f.Terms.Fixed + size; !ok || !s.rota.spare.allowsMore(spots, more.Request) ||
			!s.state.MayGrow(f.Job, workers, s.state.NodesOf(spots)) {
			return false
		}
		s.state.Grow(f.Job, f.Terms.Fixed+size, s.state.NodesOf(spots))
		s.state.Room.Take(more, spots)
		f.Join = append(f.Join, s.state.Places(spots)...)
	}
	for i, on := range f.Nodes {
		if on != node {
			f.Leave = append(f.Leave, i)
		}
	}
	return true
}

// roomFor bounds how many more workers of a job there could be room for.
func (s *elasticPhases) roomFor(f *elastic.RunningJob, nodes fit.NodeSet) int {
	g := s.state.Gang(f.Job)
	part, n := g.At(f.Terms.Part), 0
	for node := range s.state.View.Nodes() {
		if nodes.Has(node) && s.state.Room.Usable(node, part, g.Exclude) && !s.state.Room.Whole(node) {
			n += max(0, fit.Capacity(part, s.state.Room.Available(node)))
		}
	}
	return n
}
