package cluster

import (
	"fmt"
	"iter"
	"math/bits"
	"slices"

	"github.com/rota-hpc/rota/jobspec"
)

// Run is an attempt in progress as a cycle asks about it. There are tens of thousands of them in a large cluster, and looking at each job, its
// attempts, its workers and their nodes would take most of a decision's time. A Run never changes once it is stored.
type Run struct {
	Job     *Job
	Attempt *Attempt
	Rooms   []NodeRoom // what its workers hold that have not ended: one for each node, in the order of its first worker there
	Frees   []NodeRoom // what of it comes free when they end: all, unless it is being resized
	Ends    Instant    // when its time limit or its job's deadline is over; 0: it has none, does not run yet, or is being stopped

	Number     int // of the attempt
	BestEffort bool
	Stopping   bool      // it has been asked to stop
	Since      Instant   // it was assigned
	Started    Instant   // its workers ran; 0: not yet
	Grace      int64     // ms that it may take to leave, as declared
	Saves      int64     // ms between the times that it saves its state; 0: it saves when it is asked to leave, -1: it does not
	Worth      int64     // of its job, in thousandths of a GPU: see [Job.Worth]
	Total      Vector    // of all workers that its job asks for
	Displaced  []Instant // as in its job
	Queue      string

	held Amounts // what it counts for in its leaf
}

// NodeRoom is room on the node at a position.
type NodeRoom struct {
	Node int
	Room Request
}

// Runs yields the attempts in progress, in order of their jobs' ids.
func (v *View) Runs() iter.Seq[*Run] { return v.runs.values() }

// RunPage is attempts in progress of jobs whose ids are near each other. Two of them are equal only if all is as it was.
type RunPage struct {
	page  *page[*Run]
	wrote uint64
	first int64
}

// RunPages yields all attempts in progress by pages, in the order of Runs: for who remembers what is in a page that has not changed.
func (v *View) RunPages(yield func(RunPage) bool) {
	for first, p := range v.runs.allPages {
		if !yield(RunPage{p, p.wrote, first}) {
			return
		}
	}
}

// First returns the least id that the job of an attempt of the page could have.
func (p RunPage) First() JobID { return JobID(p.first) }

// Has reports whether a job's attempt would be on the page.
func (p RunPage) Has(id JobID) bool { return int64(id) >= p.first && int64(id) < p.first+pageSize }

// Runs yields the attempts of a page, in order of their jobs' ids.
func (p RunPage) Runs(yield func(*Run) bool) {
	for w, word := range p.page.used {
		for ; word != 0; word &= word - 1 {
			if !yield(p.page.vals[w*64+bits.TrailingZeros64(word)]) {
				return
			}
		}
	}
}

// Run returns a job's attempt in progress, or nil.
func (v *View) Run(id JobID) *Run {
	r, _ := v.runs.get(int64(id))
	return r
}

// Running returns the jobs with workers on a node that have not ended, by id. It appends to list.
func (v *View) Running(list []JobID, node int) []JobID {
	h, _ := v.holdings.get(int64(node))
	if h == nil {
		return list
	}
	for i := range h.workers {
		if id := h.workers[i].job; i == 0 || h.workers[i-1].job != id {
			list = append(list, id)
		}
	}
	return list
}

// newRun describes a job's attempt in progress. was is what was known of the job before, nil for nothing: while no worker ends, an attempt
// holds what it held.
func (v *View) newRun(j *Job, was *Run) *Run {
	a := j.Live()
	r := &Run{
		Job: j, Attempt: a, Number: a.N, Ends: ends(j, a), BestEffort: j.Class == jobspec.BE, Stopping: a.Stop != nil, Since: a.Assigned.At, Started: a.Started.At,
		Grace: declaredGrace(j.Spec), Saves: savesEvery(j.Spec), Worth: j.Worth(), Total: j.Total(), Displaced: j.Displaced, Queue: j.Queue,
	}
	if was != nil && was.Attempt.N == a.N && was.Attempt.resize() == a.resize() && stillHolding(was.Attempt) == stillHolding(a) {
		r.Rooms, r.Frees, r.held = was.Rooms, was.Frees, was.held
		return r
	}
	r.Rooms = v.roomsOf(j, a, func(int) bool { return true })
	if r.Frees = r.Rooms; a.resize() != nil {
		r.Frees = v.roomsOf(j, a, func(worker int) bool { return !a.keeps(worker) })
	}
	r.held = v.HeldBy(j, a)
	return r
}

// declaredGrace returns how many milliseconds a job may take to leave.
func declaredGrace(spec *jobspec.Job) int64 {
	if p := spec.Preemption; p != nil && p.GracePeriod > 0 {
		return int64(p.GracePeriod) * 1000
	}
	return defaultGrace * 1000
}

// savesEvery returns what Run.Saves says of a job.
func savesEvery(spec *jobspec.Job) int64 {
	if spec.Checkpoint == nil {
		return -1
	}
	return int64(spec.Checkpoint.Interval) * 1000
}

// equal reports whether two runs of one attempt say the same, but for its rooms.
func (r *Run) equal(o *Run) bool {
	return r.Number == o.Number && r.Ends == o.Ends && r.BestEffort == o.BestEffort && r.Stopping == o.Stopping && r.Since == o.Since && r.Started == o.Started &&
		r.Grace == o.Grace && r.Saves == o.Saves && r.Worth == o.Worth && r.Total == o.Total && slices.Equal(r.Displaced, o.Displaced) && r.Queue == o.Queue &&
		r.held.equal(&o.held)
}

// stillHolding counts the workers of an attempt that have not ended.
func stillHolding(a *Attempt) int {
	n := 0
	for i := range a.Workers {
		if !a.Workers[i].State.Final() {
			n++
		}
	}
	return n
}

func ends(j *Job, a *Attempt) Instant {
	if a.Stop != nil {
		return 0
	}
	end := Instant(0)
	if j.Limit > 0 && a.Started != (Stamp{}) {
		end = a.Started.At.after(j.Limit)
	}
	if j.Deadline > 0 && (end == 0 || j.Deadline < end) {
		end = j.Deadline
	}
	return end
}

// roomsOf returns what those workers of an attempt hold that have not ended and that count.
func (v *View) roomsOf(j *Job, a *Attempt, counts func(worker int) bool) []NodeRoom {
	rooms := make([]NodeRoom, 0, min(len(a.Workers), 4))
	for i := range a.Workers {
		w := &a.Workers[i]
		if w.State.Final() || !counts(i) {
			continue
		}
		at, ok := v.position(w.Node)
		if !ok {
			continue // reported by checkHoldings
		}
		k := slices.IndexFunc(rooms, func(r NodeRoom) bool { return r.Node == at })
		if k < 0 {
			rooms = append(rooms, NodeRoom{Node: at, Room: j.RequestOf(i)})
			continue
		}
		rooms[k].Room = rooms[k].Room.plus(j.RequestOf(i))
	}
	return rooms
}

// updateRun keeps the attempts in progress, and what their leaves hold and ask for, in step with a job that has changed from old to next.
func (s *State) updateRun(old, next *Job) {
	was, _ := s.v.runs.get(int64(next.ID))
	var is *Run
	switch {
	case next.Live() != nil:
		is = s.v.newRun(next, was)
		s.v.runs.set(int64(next.ID), is)
	case was != nil:
		s.v.runs.drop(int64(next.ID))
	}
	s.updateUsageCounter(old, next, was, is)
}

// rebuildRuns makes all runs, and what leaves hold and ask for, anew: positions of nodes or the models that are told apart have changed.
func (s *State) rebuildRuns() {
	s.touched.everything()
	s.v.models = modelsIn(s.v.config)
	s.v.inventory = s.v.inventoryOf()
	var runs table[*Run]
	for j := range s.v.live.values() {
		runs.set(int64(j.ID), s.v.newRun(j, nil))
	}
	s.v.runs = runs
	s.v.usageCounters, s.usageCounterAt = s.rebuildUsageCounters()
	s.freeUsageCounters = nil
}

// sameModels reports whether the GPUs of two inventories of a node are of the same models.
func sameModels(a, b *Node) bool {
	return slices.EqualFunc(a.GPUs, b.GPUs, func(x, y GPU) bool { return x.Model == y.Model })
}

// checkRuns compares the runs with the jobs, each made anew.
func (s *State) checkRuns(note func(error)) {
	n := 0
	for j := range s.v.live.values() {
		n++
		if j.Live() != nil { // else it is reported by checkJob
			note(s.checkRun(j))
		}
	}
	if n != s.v.runs.size() {
		note(fmt.Errorf("index of runs has %d entries for %d", s.v.runs.size(), n))
	}
}

func (s *State) checkRun(j *Job) error {
	got, want := s.v.Run(j.ID), s.v.newRun(j, nil)
	switch {
	case got == nil || got.Job != j || got.Attempt != want.Attempt:
		return fmt.Errorf("job %d and the index of runs do not agree", j.ID)
	case !slices.Equal(got.Rooms, want.Rooms), !slices.Equal(got.Frees, want.Frees), !got.equal(want):
		return fmt.Errorf("the run of job %d is %+v, made anew %+v", j.ID, *got, *want)
	}
	return nil
}
