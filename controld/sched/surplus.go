package sched

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/jobspec"
)

// How policy rota deals with what elastic jobs have beyond their least.
const (
	scantPart   = 4    // a job that would start with less than one in so many of its fitting workers gets room from others
	giveAfter   = 1    // for how many times its own restart cost a job keeps its size before it gives up workers
	growsAfter  = 3    // the same before it grows, if it has been started again
	givesBeyond = 2    // who gives up workers still needs so many times what the other needs
	growPays    = 10   // a job grows only if it will save so many times what it costs to start it again
	growsByPM   = 1100 // a job that runs gets more workers only if it will be faster by this, in thousandths
	surplusJobs = 64   // waiting elastic jobs that are looked at in one cycle

	leastWake = 60_000 // ms until it is looked again whether workers pay by then
)

// surplus is the phases of policy rota for elastic jobs. Their least workers count as other jobs do. What they have beyond is dealt out in the
// order of all jobs: to those that start, out of free room; to those that would start with next to nothing, out of what jobs have that come after
// them or have much more than is fitting; and to those that run, when room has been idle for a while.
type surplus struct {
	*rotaPolicy
	running []*flexible
	divided *allocation                  // nil until it is needed
	rested  map[cluster.Instant][]uint64 // see restedFor
}

// newSurplus returns the phases, nil where there has never been an elastic job.
func newSurplus(t *rotaPolicy) *surplus {
	if l := t.view.Learned(); t.policy.Rigid || l == nil || l.Elastic == 0 && t.view.ElasticFirst() == 0 {
		return nil
	}
	return &surplus{rotaPolicy: t, running: flexibles(t.trial)}
}

// allocation returns how elastic jobs should run, which is computed once a cycle.
func (s *surplus) allocation() *allocation {
	if s.divided == nil {
		s.divided = newAllocation(s.sizes, s.running, s.line())
	}
	return s.divided
}

// due returns with how many workers a job should run, and how much service it still needs.
func (s *surplus) due(j *cluster.Job) (size int, left int64) { return s.allocation().due(j) }

// line is the elastic jobs that may start, in order.
func (s *surplus) line() []*cluster.Job {
	if s.view.ElasticFirst() == 0 {
		return nil
	}
	var list []*cluster.Job
	for g := range s.view.Groups() {
		if !g.Front.Elastic || g.Front.Held || g.Front.TE {
			continue
		}
		for _, j := range g.Jobs[:min(len(g.Jobs), surplusJobs)] {
			if _, elastic := j.Elastic(); elastic && s.holders[j.ID] == nil && j.Family == nil && s.startable(j) {
				list = append(list, j) // beside it, jobs of as many workers for good may wait
			}
		}
	}
	slices.SortFunc(list, s.order.compare)
	return list[:min(len(list), surplusJobs)]
}

// provide lets jobs give up workers for those that would start with next to nothing. Room is promised to these, and they wait for it.
func (s *surplus) provide() {
	if s == nil {
		return
	}
	line := s.line()
	if len(line) == 0 {
		return
	}
	if s.allocation(); len(s.running) == 0 { // told before anybody has started
		return
	}
	slices.SortStableFunc(line, func(a, b *cluster.Job) int {
		_, first := s.due(a)
		_, second := s.due(b)
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(first, second))
	})
	try := s.room.Copy()
	for _, j := range line {
		terms, _ := j.Elastic()
		want, _ := s.due(j)
		want = max(want, terms.Min)
		g := s.gang(j)
		have := takeUpTo(try, &g, terms, want)
		if have*scantPart >= want && have > 0 {
			continue
		}
		s.giveWay(j, terms, have, want)
	}
}

// takeUpTo takes room for as many elastic workers of a gang as there is, up to a number, and returns it: 0 if not even the least fit.
func takeUpTo(r *fit.Room, g *fit.Gang, terms cluster.Elastic, most int) int {
	part := g.At(terms.Part)
	for part.Workers = most; part.Workers >= terms.Min; part.Workers -= terms.Unit {
		if spots, ok := r.Place(g); ok {
			r.Take(g, spots)
			return part.Workers
		}
	}
	return 0
}

// giveWay lets jobs give up workers for one that could have no more than a few: for as many as are fitting, or for fewer if not so many others have
// to be started again then. Where there is no room for its least, whoever has more than his own least may have to give some.
func (s *surplus) giveWay(j *cluster.Job, terms cluster.Elastic, have, want int) {
	sizes := []int{want, want * 3 / 4, want / 2, want / 4}
	if s.giveAny(j, terms, sizes, 2*have, func(f *flexible) bool { return s.mayGive(f, j) }) || have > 0 {
		return
	}
	s.giveAny(j, terms, []int{terms.Min}, 0, s.canGive)
}

// giveAny looks for the plan with the fewest jobs that give up workers, of those that may, and carries it out. It reports whether there was one.
func (s *surplus) giveAny(j *cluster.Job, terms cluster.Elastic, sizes []int, least int, may func(*flexible) bool) bool {
	list := slices.DeleteFunc(without(s.running), func(f *flexible) bool { return !may(f) })
	if len(list) == 0 {
		return false
	}
	var best *shrinkPlan
	for i, size := range sizes {
		size = max(terms.Min, size/terms.Unit*terms.Unit)
		if size < least || best != nil && i == len(sizes)-1 {
			break
		}
		g := s.gang(j)
		g.At(terms.Part).Workers = size
		p := shrinks(s.trial, &g, s.running, list, priceOf(s.trial, list))
		if p.undo(); p != nil && (best == nil || len(p.jobs) < len(best.jobs)) {
			best = p
		}
	}
	if best == nil {
		return false
	}
	best.redo()
	makeWay(s.trial, j, best)
	return true
}

// canGive reports whether a job has more than its least, and has had it for so long that starting it again costs little of that.
func (s *surplus) canGive(f *flexible) bool {
	if f.surplus() == 0 || f.job.Class != jobspec.BE {
		return false
	}
	at := f.attempt.Started.At + cluster.Instant(giveAfter*relaunchOf(f.job))
	s.wakeAt(at)
	return at <= s.now && unsaved(s.trial, s.view.Run(f.job.ID)) <= tooMuchUnsaved
}

// mayGive reports whether a job may have to give up workers for another: it can, should have fewer than it has, and still needs much more than the
// other.
func (s *surplus) mayGive(f *flexible, j *cluster.Job) bool {
	size, left := s.due(f.job)
	_, needs := s.due(j)
	return s.canGive(f) && f.size > size && left >= givesBeyond*needs
}

// priceOf returns what it costs that one of a list gives up workers, in parts of the most that any would cost.
func priceOf(t *trial, list []*flexible) func(*flexible) int64 {
	most := int64(1)
	for _, f := range list {
		most = max(most, standstill(t, f))
	}
	return func(f *flexible) int64 { return max(1, ratio(standstill(t, f), most)) }
}

// swell gives jobs that start in this cycle more workers out of free room, in order, up to what is fitting. As long as it is not known whether
// others will find room for their least, only those get any that were promised it.
func (s *surplus) swell() {
	if s == nil {
		return
	}
	for i := range s.actions {
		a := s.actions[i].Start
		if a == nil {
			continue
		}
		j := s.view.Job(a.Job)
		terms, elastic := j.Elastic()
		if r := s.view.Reservation(a.Job); !elastic || s.freed && (r == nil || !r.Firm) {
			continue
		}
		s.enlarge(a, j, terms)
	}
}

// enlarge places a start anew with as many workers as there is room for, up to what is fitting.
func (s *surplus) enlarge(a *cluster.StartJob, j *cluster.Job, terms cluster.Elastic) {
	want, _ := s.due(j)
	g := s.gang(j)
	g.For = 0 // its own reservation is lifted already
	try := s.room.Copy()
	for i, p := range a.Places {
		_, node := s.view.Node(p.Node)
		try.Release(node, j.RequestOf(i), p.GPUs)
	}
	spots := s.compact(try, &g, j, terms, want)
	if spots == nil {
		return
	}
	s.trial.room = try
	s.revision++
	a.Port = s.room.Take(&g, spots)
	for _, p := range a.Places {
		_, node := s.view.Node(p.Node)
		s.spare.took([]fit.Spot{{Node: node}})
	}
	s.spare.took(spots)
	a.Places = make([]cluster.Place, 0, len(spots))
	for _, spot := range spots {
		a.Places = append(a.Places, cluster.Place{Node: s.view.Nodes()[spot.Node].Name, GPUs: spot.GPUs, Port: spot.Port})
	}
}

// compact finds room for as many elastic workers as are fitting, or as there is room for, and leaves their number with the gang: rather for fewer
// that are on no more nodes than they have to be, as long as these are at least half as many. Nil: for no more than the least.
func (s *surplus) compact(r *fit.Room, g *fit.Gang, j *cluster.Job, terms cluster.Elastic, want int) []fit.Spot {
	part := g.At(terms.Part)
	c := s.sizes.curveOf(j)
	each := c.best(terms, want)
	var first []fit.Spot
	for part.Workers = want; part.Workers > terms.Min && part.Workers*2 >= len(first); part.Workers -= terms.Unit {
		spots, ok := r.Place(g)
		if !ok || !s.leavesHeadroom(r, spots, g) || c.spread(part.Workers, scattered(spots))*1_000_000/int64(part.Workers) < each*worthPM {
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

// closeBy reports whether workers are on no more nodes than they would need if the largest were empty.
func (s *surplus) closeBy(spots []fit.Spot, p *fit.Part) bool {
	nodes := map[int]bool{}
	for _, spot := range spots {
		nodes[spot.Node] = true
	}
	most := 1
	for node := range s.view.Nodes() {
		most = max(most, fit.Capacity(p, fit.Both(s.room.Total(node))))
	}
	return len(nodes) <= (p.Workers+most-1)/most
}

// leavesHeadroom reports whether enough stays free for trial-and-error jobs to come if a gang has its spots.
func (t *rotaPolicy) leavesHeadroom(r *fit.Room, spots []fit.Spot, g *fit.Gang) bool {
	if t.spare == nil {
		return true
	}
	try := r.Copy()
	try.Take(g, spots)
	return t.spare.keptIn(try)
}

// grow gives jobs that run more workers out of room that has been idle, in order, where it will have been worth starting them again if they run for
// as long as they have run.
func (s *surplus) grow() {
	if s == nil || len(s.started) > 0 {
		return
	}
	var list []*flexible
	for _, f := range without(s.running) {
		if _, asked := s.stopping[f.job.ID]; asked {
			continue // to leave, in this cycle
		}
		if n := superfluous(s.trial, f); n > 0 && f.job.Class == jobspec.BE && settled(s.trial, f) {
			f.drop(n)
			f.resize(s.trial, 0)
			continue
		}
		if f.job.Class == jobspec.BE && s.couldGrow(f) && settled(s.trial, f) && s.hasRested(f) {
			list = append(list, f)
		}
	}
	slices.SortFunc(list, func(a, b *flexible) int {
		_, first := s.due(a.job)
		_, second := s.due(b.job)
		return cmp.Or(cmp.Compare(b.job.Priority, a.job.Priority), cmp.Compare(first, second), cmp.Compare(a.job.ID, b.job.ID))
	})
	for _, f := range list {
		s.growInto(f, s.allocation().of[f.job.ID].size)
	}
	for _, f := range without(list) { // what is left then is of no use to those whom it was dealt out to
		s.growInto(f, s.sizes.fitting(f.job, worthPM))
	}
}

// hasRested reports whether a job that was started again has been left alone for so long that doing it once more for its own sake does not come to
// much of its time.
func (s *surplus) hasRested(f *flexible) bool {
	if f.attempt.N == 1 {
		return true
	}
	at := f.attempt.Started.At + cluster.Instant(growsAfter*relaunchOf(f.job))
	s.wakeAt(at)
	return at <= s.now
}

// restedFor returns on which nodes there is room that has been free for so long, as bits; nil: on none.
func (s *surplus) restedFor(wait cluster.Instant) []uint64 {
	if only, known := s.rested[wait]; known {
		return only
	}
	var only []uint64
	for node := range s.view.Nodes() {
		if s.room.Available(node).Active == (cluster.Vector{}) {
			continue
		}
		at := s.view.FreedAt(node) + wait
		if s.wakeAt(at); at > s.now {
			continue
		}
		if only == nil {
			only = make([]uint64, (len(s.view.Nodes())+63)/64)
		}
		only[node/64] |= 1 << (node % 64)
	}
	if s.rested == nil {
		s.rested = map[cluster.Instant][]uint64{}
	}
	s.rested[wait] = only
	return only
}

// couldGrow reports whether a job would be faster with more workers, or with those that it has on one node.
func (s *surplus) couldGrow(f *flexible) bool {
	if s.sizes.fitting(f.job, idleWorthPM) > f.size {
		return true
	}
	c := s.sizes.curveOf(f.job)
	return f.apart() && f.size <= c.node && c.spread(f.size, false)*1000 >= s.speedOf(f, &c)*growsByPM
}

// speedOf returns how fast a job that runs is, in the unit of its curve.
func (s *surplus) speedOf(f *flexible, c *curve) int64 {
	if f.attempt.Rate > 0 {
		return f.attempt.Rate
	}
	return c.spread(f.size, f.apart())
}

// growInto gives one job as many more workers as there is room for and as are worth it, up to a number of all that it has then, or gathers it on one
// node if that makes it faster still.
func (s *surplus) growInto(f *flexible, most int) {
	if f.only = s.restedFor(growAfter(s.trial, f)); f.only == nil {
		return
	}
	c := s.sizes.curveOf(f.job)
	was := s.speedOf(f, &c)
	each := c.best(f.terms, max(f.size, c.node))
	o := s.allocation().of[f.job.ID]
	cost := growPays * (graceOf(f.job) + relaunchOf(f.job))
	worth := func(n int, apart bool) bool {
		is := c.spread(n, apart)
		return is*1000 >= was*growsByPM && is*1_000_000/int64(n) >= each*idleWorthPM && o.lasts(was)-o.lasts(is) >= cost
	}
	fitting := min(most, s.sizes.fitting(f.job, idleWorthPM))
	most = min(fitting, f.size+s.roomFor(f))
	s.wakeOnceItPays(f, o, o.lasts(was)-o.lasts(c.at(most)), cost)
	node, size := s.gathering(f, min(fitting, c.node))
	if node >= 0 && !worth(size, false) {
		node = -1
	}
	for n := f.size + (most-f.size)/f.terms.Unit*f.terms.Unit; n > f.size; n -= f.terms.Unit {
		if extend(s.trial, f, n-f.size, func(spots []fit.Spot, request cluster.Request) bool {
			apart := f.apart() || spots[0].Node != f.nodes[0] || scattered(spots)
			return worth(n, apart) && (node < 0 || c.spread(n, apart) > c.spread(size, false) || !apart && n >= size) && s.spare.allowsMore(spots, request)
		}) {
			f.resize(s.trial, 0)
			return
		}
	}
	if node >= 0 && s.gather(f, node, size) {
		f.resize(s.trial, 0)
	}
}

// wakeOnceItPays asks for a cycle when more workers will save a job enough, if they save it something already. As long as none like it has completed
// it is taken to need as much again as it has had, which is more and more.
func (s *surplus) wakeOnceItPays(f *flexible, o *prospect, saves, cost int64) {
	if saves <= 0 || saves >= cost || s.view.UsualService(f.job) > 0 {
		return
	}
	after := cluster.TimeOf(cluster.MulDiv(o.left, cost-saves, saves), int64(f.size)*o.width())
	s.wakeAt(s.now + cluster.Instant(min(max(after, leastWake), day)))
}

// gathering returns the node on which a job would have most of its workers if it had all of them there, and how many: rather one where it has
// some already. -1: no other node than its own is better.
func (s *surplus) gathering(f *flexible, most int) (node, size int) {
	node = -1
	if f.terms.Fixed > 0 {
		return node, 0
	}
	g := s.gang(f.job)
	part := *g.At(f.terms.Part)
	part.Workers = most
	for on := range s.view.Nodes() {
		own := f.on(on)
		if own == f.size || !f.mayUse(on) || own == 0 && s.room.Available(on).Active.GPUs < part.Request.Active.GPUs || s.room.Whole(on) || !s.room.Usable(on, &part, g.Exclude) {
			continue
		}
		n := own + max(0, fit.Capacity(&part, s.room.Available(on)))
		n = min(n, most, part.PerNode) / f.terms.Unit * f.terms.Unit
		if n >= own && n >= f.terms.Min && (n > size || n == size && own > f.on(node)) {
			node, size = on, n
		}
	}
	return node, size
}

// gather moves the workers of a job to one of its nodes, where there are so many then. It reports whether there is room.
func (s *surplus) gather(f *flexible, node, size int) bool {
	g := s.gang(f.job)
	more := fit.Gang{Part: *g.At(f.terms.Part), Exclude: g.Exclude}
	if more.Workers = size - f.on(node); more.Workers > 0 {
		spots, ok := s.room.PlaceOn(&more, node)
		if !ok || !s.spare.allowsMore(spots, more.Request) {
			return false
		}
		s.room.Take(&more, spots)
		for _, o := range spots {
			f.join = append(f.join, cluster.Place{Node: s.view.Nodes()[o.Node].Name, GPUs: o.GPUs})
		}
	}
	for i, on := range f.nodes {
		if on != node {
			f.leave = append(f.leave, i)
		}
	}
	return true
}

// roomFor bounds how many more workers of a job there could be room for.
func (s *surplus) roomFor(f *flexible) int {
	g := s.gang(f.job)
	part, n := g.At(f.terms.Part), 0
	for node := range s.view.Nodes() {
		if f.mayUse(node) && s.room.Usable(node, part, g.Exclude) && !s.room.Whole(node) {
			n += max(0, fit.Capacity(part, s.room.Available(node)))
		}
	}
	return n
}
