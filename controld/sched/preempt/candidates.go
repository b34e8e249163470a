package preempt

import (
	"cmp"
	"iter"
	"math/bits"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/elastic"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// one is 1 as a score or a cost: they are fixed-point numbers, so that they compare alike on every
// machine.
const one = int64(1) << 32

// Candidate is a running best-effort job that is not asked to stop yet, or the workers that such a
// job could give up.
type Candidate struct {
	run     *estimate.LiveAttempt
	Job     *model.Job
	Attempt *model.Attempt
	Rooms   []estimate.NodeResources // its room on each of its nodes
	size    float64                  // Euclidean length of all its room, each resource relative to the largest node
	Grace   int64                    // ms
	Score   int64                    // its cost as a victim
	Taken   bool                     // it was asked to leave in this cycle
	facts
	kind estimate.GraceKind

	Index       int32               // of the entry for all of the job
	Unsaved     int64               // ms of one GPU of work that would be lost
	Surplus     *elastic.RunningJob // only the surplus workers of this job; nil: the whole job
	alternative int32               // number, from 1, of the other entry of a job that could lose less than all; 0: none
	Pauses      bool                // it is suspended where it is, and keeps its memory; false: it is stopped
}

// facts copies the fields of a run that its price depends on into one place. In a large cluster,
// fetching each run from memory takes longer than pricing it.
type facts struct {
	Since, Started model.Instant
	Saves          int64         // as in the run
	declared       int64         // grace, in ms
	Gpus, worth    int64         // of all workers: thousandths of a GPU held, and GPU equivalents
	Account, queue int32         // by their numbers in Candidates
	node           int32         // its only node; -1: several nodes, or none
	Again          bool          // it is not its first attempt, or it was suspended for another job
	once           bool          // it must not be started again
	canPause       bool          // its job can: see MayPause
	resumed        model.Instant // see ResumedAt
}

// factsOf copies the facts of a run, except those that are numbers in Candidates.
func factsOf(r *estimate.LiveAttempt) facts {
	f := facts{
		Since: r.Since, Started: r.Started, Saves: r.CheckpointEvery, declared: r.Grace, Gpus: r.Total.GPUs,
		worth: r.GPUEquivalents, node: -1, Again: r.Number > 1 || len(r.Displaced) > 0, once: r.Job.Spec.RunsOnce(),
		canPause: r.Job.CanSuspend(), resumed: ResumedAt(r.Attempt),
	}
	if len(r.Holds) == 1 {
		f.node = int32(r.Holds[0].Node)
	}
	return f
}

// Candidates lists the possible victims of a cycle, and the room that is being freed already.
type Candidates struct {
	List       []Candidate
	On         [][]int32       // by node: indices of candidates that hold room there, ascending
	Draining   []model.Request // by node: room of attempts that are being stopped
	Over       []model.Instant // by node: when the last of them is killed
	largest    model.Vector    // the maximum of each resource over the nodes that are up
	weight     int64           // of grace in the score
	lossWeight int64
	longest    int64   // grace, in ms
	greatest   float64 // size

	returning []estimate.NodeResources // draining room that goes back to its holders, because its takers are gone

	Asked map[model.JobID]model.Instant // when a job that is still leaving was last stopped for this one

	Accounts, queues numbering

	// Kept from cycle to cycle:
	known    scratch.Pages[sheet]
	before   []Candidate // the last cycle's list, while this cycle's is being made
	repeated int         // pages that were taken over from the last cycle
	count    []int32     // see list
	array    []int32
}

// sheet holds the entries made from one page of live attempts.
type sheet struct {
	from, to int                     // candidates
	leaving  []*estimate.LiveAttempt // asked to stop
}

// NewCandidates lists the jobs that could be asked to leave, and the room that others are leaving.
// Jobs that were started in this cycle are not among them. It looks at every live attempt, but
// takes over pages of attempts that have not changed since the last cycle.
func NewCandidates(t *scratch.State, cache *Cache) *Candidates { return newCandidates(t, cache, false) }

// newCandidates is NewCandidates; pauses says that jobs may be suspended in place of being stopped.
func newCandidates(t *scratch.State, cache *Cache, pauses bool) *Candidates {
	// 1. Start empty, in the memory of the last cycle.
	r := cache.take()
	r.begin(t)
	ending := t.Ending()
	// 2. List the attempts page by page. A page that has not changed, and from which nothing ends now,
	// is taken over from the last cycle.
	for p := range t.View.AttemptPages {
		if anyOn(p, ending) {
			r.enter(t, p, ending)
			continue
		}
		s, known := r.known.Recall(p)
		if known {
			r.repeat(t, &s)
		} else {
			s = r.enter(t, p, nil)
		}
		r.known.Note(p, s)
	}
	r.known.End()
	clear(r.before)
	// 3. Jobs that can pause get a second entry for that. Then index all entries by node, and correct
	// the values that change in a run: broken GPUs, and measured grace periods.
	if pauses {
		r.offerPauses(t)
	}
	r.list()
	r.discount(t)
	r.expectGraces(t)
	return r
}

// Each yields the candidates with their numbers.
func (r *Candidates) Each() iter.Seq2[int, *Candidate] {
	return func(yield func(int, *Candidate) bool) {
		for i := range r.List {
			if !yield(i, &r.List[i]) {
				return
			}
		}
	}
}

// discount removes broken GPUs from the room that victims free: no job can use them.
func (r *Candidates) discount(t *scratch.State) {
	for node := range r.On {
		if t.Room.Broken(node) == 0 {
			continue
		}
		for _, id := range t.View.JobsOnNode(nil, node) {
			run := t.View.LiveAttempt(id)
			// Each entry of the job on this node, or the room that it is leaving, gets smaller by its broken
			// GPUs.
			lost := scratch.BrokenOf(run, t.View.Nodes()[node])
			switch i := r.candidateOn(node, id); {
			case lost == 0:
			case i >= 0:
				r.List[i].Rooms = less(r.List[i].Rooms, node, lost)
				if k := r.List[i].alternative - 1; k >= 0 {
					r.List[k].Rooms = less(r.List[k].Rooms, node, lost)
				}
			case run.Stopping:
				r.Draining[node].Active.GPUs -= lost
			}
		}
	}
}

// candidateOn returns the number of a job's whole entry on a node, -1 if it is no candidate.
func (r *Candidates) candidateOn(node int, id model.JobID) int32 {
	for _, i := range r.On[node] {
		if r.List[i].Job.ID == id {
			return i
		}
	}
	return -1
}

// less returns rooms with fewer GPUs on one node.
func less(list []estimate.NodeResources, node int, gpus int64) []estimate.NodeResources {
	list = slices.Clone(list)
	for i := range list {
		if list[i].Node == node {
			list[i].Room.Active.GPUs -= gpus
		}
	}
	return list
}

// anyOn reports whether any of some jobs is on a page.
func anyOn(p state.AttemptPage, ids map[model.JobID]bool) bool {
	for id := range ids {
		if p.Has(id) {
			return true
		}
	}
	return false
}

// begin makes the list empty.
func (r *Candidates) begin(t *scratch.State) {
	n := len(t.View.Nodes())
	r.On, r.Draining, r.Over = scratch.Cleared(r.On, n), scratch.Cleared(r.Draining, n), scratch.Cleared(r.Over, n)
	r.Asked = map[model.JobID]model.Instant{}
	r.before, r.List, r.returning = r.List, r.before[:0], r.returning[:0]
	largest := model.Vector{}
	for i := range r.On {
		if t.Room.Up(i) {
			largest = largest.Most(t.Room.Total(i))
		}
	}
	// Sizes are relative to the largest node, and names have numbers. If either changes, no page of
	// the last cycle can be taken over.
	if largest != r.largest || len(r.Accounts.List)+len(r.queues.List) > tunables.MaxNumbered {
		r.largest, r.Accounts, r.queues = largest, numbering{}, numbering{}
		r.known.Forget()
	}
	r.known.Begin()
	r.repeated = 0
}

// repeat takes over the last cycle's entries of a page.
func (r *Candidates) repeat(t *scratch.State, s *sheet) {
	from := len(r.List)
	r.repeated++
	r.List = append(r.List, r.before[s.from:s.to]...)
	for i := from; i < len(r.List); i++ {
		r.List[i].fresh()
	}
	for _, run := range s.leaving {
		r.leave(t, run)
	}
	s.from, s.to = from, len(r.List)
}

// fresh clears the marks of the last cycle.
func (v *Candidate) fresh() {
	v.Taken, v.Surplus, v.alternative = false, nil, 0
	v.Grace, v.Score, v.Unsaved, v.Rooms = v.declared, 0, 0, v.run.Holds
}

// enter makes the entries of a page, without attempts that end now.
func (r *Candidates) enter(t *scratch.State, p state.AttemptPage, ending map[model.JobID]bool) sheet {
	s := sheet{from: len(r.List)}
	for run := range p.Runs {
		switch {
		case ending[run.Job.ID]:
		case run.Stopping:
			s.leaving = append(s.leaving, run)
			r.leave(t, run)
		case run.BestEffort && !run.Paused:
			r.add(run)
		}
	}
	s.to = len(r.List)
	return s
}

// list notes which candidates are on which node, in one array for all nodes.
func (r *Candidates) list() {
	all := 0
	r.count = scratch.Cleared(r.count, len(r.On))
	for i, v := range r.Each() {
		if v.node >= 0 {
			r.count[v.node]++
			all++
			continue
		}
		for _, s := range r.List[i].Rooms {
			r.count[s.Node]++
			all++
		}
	}
	// One array is cut into a list for each node, by the numbers just counted.
	r.array = slices.Grow(r.array[:0], all)[:all]
	array := r.array
	for node := range r.On {
		n := r.count[node]
		r.On[node], array = array[:0:n], array[n:]
	}
	for i, v := range r.Each() {
		if v.Index = int32(i); v.node >= 0 {
			r.On[v.node] = append(r.On[v.node], int32(i))
			continue
		}
		for _, s := range r.List[i].Rooms {
			r.On[s.Node] = append(r.On[s.Node], int32(i))
		}
	}
}

// numbering numbers names from 0.
type numbering struct {
	List  []string
	known map[string]int32
}

func (n *numbering) of(name string) int32 {
	if last := len(n.List) - 1; last >= 0 && n.List[last] == name {
		return int32(last)
	}
	i, known := n.known[name]
	if !known {
		if n.known == nil {
			n.known = map[string]int32{}
		}
		i = int32(len(n.List))
		n.List, n.known[name] = append(n.List, name), i
	}
	return i
}

// leave notes an attempt that is being stopped. If the job goes on with other workers, only the
// leaving ones free their room.
func (r *Candidates) leave(t *scratch.State, run *estimate.LiveAttempt) {
	beneficiary, at, over := run.Leaves()
	for i := range run.Releases {
		r.drain(run.Releases[i], over)
	}
	if t.Returns(run) {
		r.returning = append(r.returning, run.Releases...)
	}
	if beneficiary != 0 {
		r.Asked[beneficiary] = max(r.Asked[beneficiary], at)
	}
}

func (r *Candidates) drain(s estimate.NodeResources, over model.Instant) {
	r.Draining[s.Node] = r.Draining[s.Node].Plus(s.Room)
	r.Over[s.Node] = max(r.Over[s.Node], over)
}

// add lists an attempt as a candidate.
func (r *Candidates) add(run *estimate.LiveAttempt) {
	var held model.Request
	for i := range run.Holds {
		held = held.Plus(run.Holds[i].Room)
	}
	v := Candidate{
		run: run, Job: run.Job, Attempt: run.Attempt, Rooms: run.Holds, Grace: run.Grace,
		size: fit.Length(held.Active, r.largest), facts: factsOf(run),
		kind: estimate.GraceKindOf(run.Job),
	}
	v.Account, v.queue = r.Accounts.of(run.Job.Account), r.queues.of(run.Queue)
	r.List = append(r.List, v)
}

// At returns what a candidate holds on a node.
func (v *Candidate) At(node int) model.Request {
	for i := range v.Rooms {
		if v.Rooms[i].Node == node {
			return v.Rooms[i].Room
		}
	}
	return model.Request{}
}

// part returns a / b as a fixed-point number, 0 if b is 0.
func part(a, b float64) int64 {
	if b <= 0 {
		return 0
	}
	return int64(float64(float64(a/b) * float64(one)))
}

// Ratio is part for integers; neither is negative, and a is not above b.
func Ratio(a, b int64) int64 {
	if b <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(min(a, b)), uint64(one))
	q, _ := bits.Div64(hi, lo, uint64(b))
	return int64(q)
}

// Score rates all candidates as FitGpp does: size plus weight thousandths times grace, each
// relative to the greatest value.
func (r *Candidates) Score(weight int64) {
	var size float64
	var grace int64
	for _, v := range r.Each() {
		if !v.Taken {
			size, grace = max(size, v.size), max(grace, v.Grace)
		}
	}
	r.weight, r.longest, r.greatest = weight, grace, size
	for _, v := range r.Each() {
		v.Score = r.scoreOf(v)
	}
}

// Compare orders by score, then by how often they have been displaced, then the later start, then
// the lower id.
func Compare(a, b *Candidate) int {
	return cmp.Or(cmp.Compare(a.Score, b.Score), cmp.Compare(Displacements(a.Job), Displacements(b.Job)),
		cmp.Compare(b.Attempt.Assigned.At, a.Attempt.Assigned.At), cmp.Compare(a.Job.ID, b.Job.ID))
}

// sort puts some candidates, by number, in the order of [Compare]; at equal cost a suspension comes
// before a stop.
func (r *Candidates) sort(list []int32) {
	slices.SortFunc(list, func(a, b int32) int {
		if c := Compare(&r.List[a], &r.List[b]); c != 0 || r.List[a].Pauses == r.List[b].Pauses {
			return c
		}
		if r.List[a].Pauses {
			return -1
		}
		return 1
	})
}

// Displacements returns how often a job has been displaced in its life.
func Displacements(j *model.Job) int {
	return int(j.Counters.TE + j.Counters.Reclaim + j.Counters.Order)
}

// Stop asks a candidate to leave for a job, or to pause.
func (r *Candidates) Stop(t *scratch.State, v *Candidate, cause model.Cause, beneficiary model.JobID) {
	v.Taken = true
	over := t.Now + model.Instant(v.Grace)
	for _, s := range v.Rooms {
		r.drain(s, over)
	}
	r.Asked[beneficiary] = t.Now
	if v.Pauses {
		t.Suspend(v.Job, v.Attempt, cause, beneficiary)
		return
	}
	t.Stop(v.Job, v.Attempt, cause, beneficiary)
}

// Coming returns the room that a node will have for a part once all leaving jobs have left, less
// the claims of others. It can be negative.
func (r *Candidates) Coming(t *scratch.State, node int, p *fit.Component) model.Request {
	return t.Room.AvailableTo(node, p).Plus(r.Draining[node])
}

// Delay is the cost of waiting for the jobs that are leaving a node. It is priced like the grace of
// a victim.
func (r *Candidates) Delay(now model.Instant, node int) int64 {
	return r.waitingCosts(int64(max(0, r.Over[node]-now)))
}
