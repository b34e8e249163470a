package state

import (
	"fmt"
	"iter"
	"math/bits"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/fsm/table"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// LiveAttempts yields the attempts in progress, in order of their jobs' ids.
func (v *View) LiveAttempts() iter.Seq[*estimate.LiveAttempt] { return v.runs.Values() }

// AttemptPage is attempts in progress of jobs whose ids are near each other. Two of them are equal
// only if all is as it was.
type AttemptPage struct {
	page  *table.Page[*estimate.LiveAttempt]
	wrote uint64
	first int64
}

// AttemptPages yields all attempts in progress by pages, in the order of Runs. Callers may remember
// the content of a page until it changes.
func (v *View) AttemptPages(yield func(AttemptPage) bool) {
	for first, p := range v.runs.AllPages {
		if !yield(AttemptPage{p, p.Wrote, first}) {
			return
		}
	}
}

// First returns the least id that the job of an attempt of the page could have.
func (p AttemptPage) First() model.JobID { return model.JobID(p.first) }

// Has reports whether a job's attempt would be on the page.
func (p AttemptPage) Has(id model.JobID) bool {
	return int64(id) >= p.first && int64(id) < p.first+table.PageSize
}

// Runs yields the attempts of a page, in order of their jobs' ids.
func (p AttemptPage) Runs(yield func(*estimate.LiveAttempt) bool) {
	for w, word := range p.page.Used {
		for ; word != 0; word &= word - 1 {
			if !yield(p.page.Vals[w*64+bits.TrailingZeros64(word)]) {
				return
			}
		}
	}
}

// LiveAttempt returns a job's attempt in progress, or nil.
func (v *View) LiveAttempt(id model.JobID) *estimate.LiveAttempt {
	r, _ := v.runs.Get(int64(id))
	return r
}

// JobsOnNode returns the jobs with workers on a node that have not ended, by id. It appends to
// list.
func (v *View) JobsOnNode(list []model.JobID, node int) []model.JobID {
	h, _ := v.holdings.Get(int64(node))
	if h == nil {
		return list
	}
	for i := range h.workers {
		if id := h.workers[i].Job; i == 0 || h.workers[i-1].Job != id {
			list = append(list, id)
		}
	}
	return list
}

// newRun describes a job's attempt in progress. was is what was known of the job before, nil for
// nothing: while no worker ends, an attempt holds what it held.
func (v *View) newRun(j *model.Job, was *estimate.LiveAttempt) *estimate.LiveAttempt {
	a := j.Live()
	r := &estimate.LiveAttempt{
		Job: j, Attempt: a, Number: a.N, Ends: estimate.Ends(j, a), Early: j.EarlyAt(a), BestEffort: j.Class == jobspec.BE,
		Stopping: a.Stop != nil || a.Suspending() || a.Shrinking(), Paused: a.Stop == nil && a.Suspended(),
		Since: a.Assigned.At, Started: a.Started.At, HeldSince: a.HeldSince(),
		Grace: estimate.DeclaredGrace(j.Spec), CheckpointEvery: estimate.SavesEvery(j.Spec),
		GPUEquivalents: j.GPUEquivalents(), Total: j.Total(), Displaced: j.Displaced, Queue: j.Queue,
	}
	if was != nil && was.Attempt.N == a.N && was.Attempt.Resize() == a.Resize() &&
		was.Attempt.Shrinking() == a.Shrinking() && was.Paused == r.Paused && was.Stopping == r.Stopping &&
		(was.Attempt.Stop == nil) == (a.Stop == nil) &&
		shareOf(was.Attempt) == shareOf(a) && stillHolding(was.Attempt) == stillHolding(a) {
		r.Holds, r.Releases, r.Held = was.Holds, was.Releases, was.Held
		return r
	}
	r.Holds = v.roomsOf(j, a, j.Holds, func(int) bool { return true })
	switch r.Releases = r.Holds; {
	case a.Resize() != nil:
		r.Releases = v.roomsOf(j, a, j.Holds, func(worker int) bool { return !a.Keeps(worker) })
	case a.Shrinking():
		r.Releases = v.roomsOf(j, a, j.Holds, func(worker int) bool { return a.Workers[worker].Leaving })
	case a.Stop == nil && a.Suspending():
		r.Releases = v.roomsOf(j, a, j.FreedBySuspension, func(int) bool { return true })
	}
	r.Held = v.HeldBy(j, a)
	return r
}

// shareOf is what an attempt holds of a GPU that it shares, 0 if it shares none.
func shareOf(a *model.Attempt) int64 {
	if a.Packing == nil {
		return 0
	}
	return a.Packing.Share
}

// stillHolding counts the workers of an attempt that have not ended.
func stillHolding(a *model.Attempt) int {
	n := 0
	for i := range a.Workers {
		if !a.Workers[i].State.Final() {
			n++
		}
	}
	return n
}

// roomsOf adds up some amount, by node, for those workers of an attempt that have not ended and that
// count.
func (v *View) roomsOf(j *model.Job, a *model.Attempt, amount func(*model.Attempt, int) model.Request,
	counts func(worker int) bool) []estimate.NodeResources {
	rooms := make([]estimate.NodeResources, 0, min(len(a.Workers), 4))
	for i := range a.Workers {
		w := &a.Workers[i]
		if w.State.Final() || !counts(i) {
			continue
		}
		at, ok := v.position(w.Node)
		if !ok {
			continue // reported by checkHoldings
		}
		k := slices.IndexFunc(rooms, func(r estimate.NodeResources) bool { return r.Node == at })
		if k < 0 {
			rooms = append(rooms, estimate.NodeResources{Node: at, Room: amount(a, i)})
			continue
		}
		rooms[k].Room = rooms[k].Room.Plus(amount(a, i))
	}
	return rooms
}

// updateRun keeps the attempts in progress, and the holdings and requests of their leaves, in step
// with a job that changed from old to next.
func (s *State) updateRun(old, next *model.Job) {
	was, _ := s.v.runs.Get(int64(next.ID))
	var is *estimate.LiveAttempt
	switch {
	case next.Live() != nil:
		is = s.v.newRun(next, was)
		s.v.runs.Set(int64(next.ID), is)
	case was != nil:
		s.v.runs.Drop(int64(next.ID))
	}
	s.v.paused += pausing(is) - pausing(was)
	s.updateUsageCounter(old, next, was, is)
}

// pausing is 1 for an attempt that is suspended or about to be, other than to be stopped, else 0.
func pausing(r *estimate.LiveAttempt) int {
	if r != nil && (r.Paused || r.Attempt.Stop == nil && r.Attempt.Suspending()) {
		return 1
	}
	return 0
}

// AnySuspended reports whether any attempt is suspended or about to be, other than to be stopped.
func (v *View) AnySuspended() bool { return v.paused > 0 }

// rebuildRuns makes all runs, and what leaves hold and ask for, anew: positions of nodes or the
// models that are told apart have changed.
func (s *State) rebuildRuns() {
	s.touched.everything()
	s.v.models = modelsIn(s.v.config)
	s.v.inventory = s.v.inventoryOf()
	var runs table.Table[*estimate.LiveAttempt]
	s.v.paused = 0
	for j := range s.v.live.Values() {
		r := s.v.newRun(j, nil)
		runs.Set(int64(j.ID), r)
		s.v.paused += pausing(r)
	}
	s.v.runs = runs
	s.v.usageCounters = s.usageCountersAnew()
}

// sameModels reports whether the GPUs of two inventories of a node are of the same models.
func sameModels(a, b *model.Node) bool {
	return slices.EqualFunc(a.GPUs, b.GPUs, func(x, y model.GPU) bool { return x.Model == y.Model })
}

// checkRun compares what is known of an attempt in progress with it made anew.
func (s *State) checkRun(j *model.Job) error {
	got, want := s.v.LiveAttempt(j.ID), s.v.newRun(j, nil)
	switch {
	case got == nil || got.Job != j || got.Attempt != want.Attempt:
		return fmt.Errorf("the index of runs is wrong for job %d", j.ID)
	case !slices.Equal(got.Holds, want.Holds), !slices.Equal(got.Releases, want.Releases), !got.Equal(want):
		return fmt.Errorf("the run of job %d is %+v, recomputed %+v", j.ID, *got, *want)
	}
	return nil
}
