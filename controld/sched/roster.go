package sched

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
)

// one is 1 as a score or a cost: they are fixed-point numbers, so that they compare alike on every machine.
const one = int64(1) << 32

// victim is a running best-effort job that nobody has asked to stop yet.
type victim struct {
	run     *cluster.Run
	job     *cluster.Job
	attempt *cluster.Attempt
	rooms   []cluster.NodeRoom // what it holds, one for each of its nodes
	size    float64            // of all it holds, as a length: each resource counts in parts of the largest node
	grace   int64              // ms
	score   int64              // what it costs to take it
	taken   bool               // in this cycle
	facts

	index      int32     // of the entry for all of the job
	unsaved    int64     // ms of one GPU of work that would be lost
	reluctance int       // how readily it may be taken by the search at hand: see maker.lawful and maker.tier
	surplus    *flexible // only what this job has beyond its least; nil: all of it
	twin       int32     // number, from 1, of the victim that is the other dish of the same job; 0: there is none
	barred     bool      // left out of the search at hand: its account may not lose so much
}

// facts is what of a run matters for its price, side by side: in a large cluster it takes longer to fetch each run from memory than to price it.
type facts struct {
	since, started cluster.Instant
	saves          int64 // as in the run
	declared       int64 // grace, in ms
	gpus, worth    int64 // of all workers: thousandths of a GPU that they have, and that they count for
	account, queue int32 // by their numbers in the roster
	node           int32 // where it holds all that it holds; -1: on several nodes, or nothing
	again          bool  // it is not its first attempt
	displaced      bool  // it was, within a day or so
}

// factsOf returns what a run says, but for what has a number in the roster.
func factsOf(r *cluster.Run) facts {
	f := facts{
		since: r.Since, started: r.Started, saves: r.Saves, declared: r.Grace, gpus: r.Total.GPUs, worth: r.Worth, node: -1,
		again: r.Number > 1, displaced: len(r.Displaced) > 0,
	}
	if len(r.Rooms) == 1 {
		f.node = int32(r.Rooms[0].Node)
	}
	return f
}

// roster is all that could be asked to leave, and what is leaving already.
type roster struct {
	victims  []victim
	on       [][]int32         // by node: indices of victims that hold room there, ascending
	draining []cluster.Request // by node: held by attempts that are being stopped
	over     []cluster.Instant // by node: when the last of those is killed
	largest  cluster.Vector    // the most that any node that is up has of each resource
	weight   int64             // of grace in the score
	longest  int64             // grace, in ms
	greatest float64           // size

	called map[cluster.JobID]cluster.Instant // when a job was last stopped for this one, of those that are still leaving

	accounts, queues numbering

	// What is kept from cycle to cycle.
	known    pages[sheet]
	before   []victim // of the last cycle, while this one's is being made
	repeated int      // pages of which this one has what that one had
	count    []int32  // see list
	array    []int32
}

// sheet is the entries of a roster for a page of the attempts in progress.
type sheet struct {
	from, to int            // victims
	leaving  []*cluster.Run // asked to stop
}

// newRoster looks at every live attempt once. What has been started in this cycle is not among them: it would be displaced by a later one.
func newRoster(t *trial, cache *candidateCache) *roster {
	r := cache.take()
	r.begin(t)
	ending := t.ending()
	for p := range t.view.RunPages {
		if anyOn(p, ending) {
			r.enter(p, ending)
			continue
		}
		s, known := r.known.recall(p)
		if known {
			r.repeat(&s)
		} else {
			s = r.enter(p, nil)
		}
		r.known.note(p, s)
	}
	r.known.end()
	clear(r.before)
	r.list()
	r.discount(t)
	return r
}

// discount takes GPUs that are broken out of what comes free: nobody gets them when those leave who hold them.
func (r *roster) discount(t *trial) {
	for node := range r.on {
		if t.room.Broken(node) == 0 {
			continue
		}
		for _, id := range t.view.Running(nil, node) {
			run := t.view.Run(id)
			lost := brokenOf(run, t.view.Nodes()[node])
			switch i := r.victimOn(node, id); {
			case lost == 0:
			case i >= 0:
				r.victims[i].rooms = less(r.victims[i].rooms, node, lost)
			case run.Stopping:
				r.draining[node].Active.GPUs -= lost
			}
		}
	}
}

// victimOn returns the number of the victim that is a job on a node, -1 if it is none.
func (r *roster) victimOn(node int, id cluster.JobID) int32 {
	for _, i := range r.on[node] {
		if r.victims[i].job.ID == id {
			return i
		}
	}
	return -1
}

// less returns rooms with fewer GPUs on one node.
func less(list []cluster.NodeRoom, node int, gpus int64) []cluster.NodeRoom {
	list = slices.Clone(list)
	for i := range list {
		if list[i].Node == node {
			list[i].Room.Active.GPUs -= gpus
		}
	}
	return list
}

// anyOn reports whether any of some jobs is on a page.
func anyOn(p cluster.RunPage, ids map[cluster.JobID]bool) bool {
	for id := range ids {
		if p.Has(id) {
			return true
		}
	}
	return false
}

// begin makes the roster empty.
func (r *roster) begin(t *trial) {
	n := len(t.view.Nodes())
	r.on, r.draining, r.over = cleared(r.on, n), cleared(r.draining, n), cleared(r.over, n)
	r.called = map[cluster.JobID]cluster.Instant{}
	r.before, r.victims = r.victims, r.before[:0]
	largest := cluster.Vector{}
	for i := range r.on {
		if t.room.Up(i) {
			largest = fit.Most(largest, t.room.Total(i))
		}
	}
	if largest != r.largest || len(r.accounts.list)+len(r.queues.list) > maxNumbered {
		r.largest, r.accounts, r.queues = largest, numbering{}, numbering{}
		r.known.forget()
	}
	r.known.begin()
	r.repeated = 0
}

// repeat takes over what the last roster had for a page.
func (r *roster) repeat(s *sheet) {
	from := len(r.victims)
	r.repeated++
	r.victims = append(r.victims, r.before[s.from:s.to]...)
	for i := from; i < len(r.victims); i++ {
		r.victims[i].fresh()
	}
	for _, run := range s.leaving {
		r.leave(run)
	}
	s.from, s.to = from, len(r.victims)
}

// fresh forgets what a cycle has noted.
func (v *victim) fresh() {
	v.taken, v.barred, v.surplus, v.twin = false, false, nil, 0
	v.grace, v.score, v.unsaved, v.reluctance, v.rooms = v.declared, 0, 0, 0, v.run.Rooms
}

// enter looks at the runs of a page, but for those that end now.
func (r *roster) enter(p cluster.RunPage, ending map[cluster.JobID]bool) sheet {
	s := sheet{from: len(r.victims)}
	for run := range p.Runs {
		switch {
		case ending[run.Job.ID]:
		case run.Stopping:
			s.leaving = append(s.leaving, run)
			r.leave(run)
		case run.BestEffort:
			r.add(run)
		}
	}
	s.to = len(r.victims)
	return s
}

// list notes which victims are on which node, in one array for all nodes.
func (r *roster) list() {
	all := 0
	r.count = cleared(r.count, len(r.on))
	for i := range r.victims {
		if v := &r.victims[i]; v.node >= 0 {
			r.count[v.node]++
			all++
			continue
		}
		for _, s := range r.victims[i].rooms {
			r.count[s.Node]++
			all++
		}
	}
	r.array = slices.Grow(r.array[:0], all)[:all]
	array := r.array
	for node := range r.on {
		n := r.count[node]
		r.on[node], array = array[:0:n], array[n:]
	}
	for i := range r.victims {
		v := &r.victims[i]
		if v.index = int32(i); v.node >= 0 {
			r.on[v.node] = append(r.on[v.node], int32(i))
			continue
		}
		for _, s := range r.victims[i].rooms {
			r.on[s.Node] = append(r.on[s.Node], int32(i))
		}
	}
}

// numbering numbers names from 0.
type numbering struct {
	list  []string
	known map[string]int32
}

// maxNumbered is how many names are numbered before all are forgotten that may not be in use any more.
const maxNumbered = 1 << 14

func (n *numbering) of(name string) int32 {
	if last := len(n.list) - 1; last >= 0 && n.list[last] == name {
		return int32(last)
	}
	i, known := n.known[name]
	if !known {
		if n.known == nil {
			n.known = map[string]int32{}
		}
		i = int32(len(n.list))
		n.list, n.known[name] = append(n.list, name), i
	}
	return i
}

// leave notes an attempt that is being stopped. Of one that goes on with other workers only those free their room that do not stay.
func (r *roster) leave(run *cluster.Run) {
	stop := run.Attempt.Stop
	for i := range run.Frees {
		r.drain(run.Frees[i], stop.KillAt)
	}
	if stop.For != 0 {
		r.called[stop.For] = max(r.called[stop.For], stop.At)
	}
}

func (r *roster) drain(s cluster.NodeRoom, over cluster.Instant) {
	r.draining[s.Node] = fit.Plus(r.draining[s.Node], s.Room)
	r.over[s.Node] = max(r.over[s.Node], over)
}

// add lists an attempt as a possible victim.
func (r *roster) add(run *cluster.Run) {
	var held cluster.Request
	for i := range run.Rooms {
		held = fit.Plus(held, run.Rooms[i].Room)
	}
	v := victim{
		run: run, job: run.Job, attempt: run.Attempt, rooms: run.Rooms, grace: run.Grace, size: fit.Length(held.Active, r.largest), facts: factsOf(run),
	}
	v.account, v.queue = r.accounts.of(run.Job.Account), r.queues.of(run.Queue)
	r.victims = append(r.victims, v)
}

// at returns what a victim holds on a node.
func (v *victim) at(node int) cluster.Request {
	for i := range v.rooms {
		if v.rooms[i].Node == node {
			return v.rooms[i].Room
		}
	}
	return cluster.Request{}
}

// part returns a / b as a fixed-point number, 0 if b is 0.
func part(a, b float64) int64 {
	if b <= 0 {
		return 0
	}
	return int64(float64(float64(a/b) * float64(one)))
}

// ratio is part for integers; neither is negative, and a is not above b.
func ratio(a, b int64) int64 {
	if b <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(min(a, b)), uint64(one))
	q, _ := bits.Div64(hi, lo, uint64(b))
	return int64(q)
}

// score rates all victims as FitGpp does: size and, weight thousandths of it, grace, each as a part of the greatest.
func (r *roster) score(weight int64) {
	var size float64
	var grace int64
	for i := range r.victims {
		if v := &r.victims[i]; !v.taken {
			size, grace = max(size, v.size), max(grace, v.grace)
		}
	}
	r.weight, r.longest, r.greatest = weight, grace, size
	for i := range r.victims {
		v := &r.victims[i]
		v.score = r.scoreOf(v)
	}
}

// scoreOf is what FitGpp rates a victim at.
func (r *roster) scoreOf(v *victim) int64 {
	return part(v.size, r.greatest) + ratio(v.grace, r.longest)*r.weight/1000
}

// compareVictims orders by score, then by how often they have been displaced, then the later start, then the lower id.
func compareVictims(a, b *victim) int {
	return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(displacements(a.job), displacements(b.job)),
		cmp.Compare(b.attempt.Assigned.At, a.attempt.Assigned.At), cmp.Compare(a.job.ID, b.job.ID))
}

// displacements returns how often a job has been displaced in its life.
func displacements(j *cluster.Job) int { return j.Counters.TE + j.Counters.Reclaim + j.Counters.Order }

// stop asks a victim to leave for a job.
func (r *roster) stop(t *trial, v *victim, cause cluster.Cause, beneficiary cluster.JobID) {
	v.taken = true
	over := t.now + cluster.Instant(v.grace)
	for _, s := range v.rooms {
		r.drain(s, over)
	}
	r.called[beneficiary] = t.now
	t.stop(v.job, v.attempt, cause, beneficiary)
}

// coming returns what a node will have for a part when all have left that are asked to, and nobody else has claimed it. It can be negative.
func (r *roster) coming(t *trial, node int, p *fit.Part) cluster.Request {
	return fit.Plus(t.room.AvailableTo(node, p), r.draining[node])
}
