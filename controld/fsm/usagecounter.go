package fsm

import (
	"fmt"
	"iter"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/fsm/table"
	"github.com/rota-hpc/rota/controld/model"
)

// UsageCounters yields what every leaf holds and asks for that does either, in no particular order.
func (v *View) UsageCounters() iter.Seq[*estimate.UsageCounter] { return v.usageCounters.Values() }

// updateUsageCounter keeps the standing of a leaf in step with a job that has changed, and with its run.
func (s *State) updateUsageCounter(old, next *model.Job, was, is *estimate.LiveAttempt) {
	wanted, wants := old.StartableAttempts(), next.StartableAttempts()
	sameRun := was == is || was != nil && is != nil && was.Since == is.Since && was.Held.Equal(&is.Held)
	if sameRun && wanted == wants && (wants == 0 || sameDemand(old, next)) {
		return
	}
	st := s.ownUsageCounter(next.Association())
	if !sameRun {
		st.AddRun(was, -1)
		st.AddRun(is, 1)
	}
	if wanted > 0 {
		ask := s.v.RequestedBy(old)
		st.Requested.Add(&ask, -wanted)
		st.Jobs--
	}
	if wants > 0 {
		ask := s.v.RequestedBy(next)
		st.Requested.Add(&ask, wants)
		st.Jobs++
	}
	if st.Jobs == 0 {
		s.v.usageCounters.Drop(s.usageCounterAt[st.Association])
		s.freeUsageCounters = append(s.freeUsageCounters, s.usageCounterAt[st.Association])
		delete(s.usageCounterAt, st.Association)
	}
}

// sameDemand reports whether two states of a job ask for the same.
func sameDemand(a, b *model.Job) bool { return a.Total() == b.Total() }

// ownUsageCounter returns the standing of a leaf ready to be written.
func (s *State) ownUsageCounter(of model.Association) *estimate.UsageCounter {
	at, known := s.usageCounterAt[of]
	if !known {
		at = int64(len(s.usageCounterAt))
		if n := len(s.freeUsageCounters); n > 0 {
			at, s.freeUsageCounters = s.freeUsageCounters[n-1], s.freeUsageCounters[:n-1]
		}
		if s.usageCounterAt == nil {
			s.usageCounterAt = map[model.Association]int64{}
		}
		s.usageCounterAt[of] = at
		s.v.usageCounters.Set(at, &estimate.UsageCounter{Association: of, Epoch: s.epoch})
	}
	st, _ := s.v.usageCounters.Get(at)
	if st.Epoch == s.epoch {
		return st
	}
	next := *st
	next.Epoch, next.Since = s.epoch, slices.Clone(st.Since)
	next.Held.Models, next.Requested.Models = slices.Clone(st.Held.Models), slices.Clone(st.Requested.Models)
	s.v.usageCounters.Set(at, &next)
	return &next
}

// indexUsageCounters finds out where the standings are: of the view that a fork is made from.
func (s *State) indexUsageCounters() {
	s.usageCounterAt = map[model.Association]int64{}
	next := int64(0)
	for at, st := range s.v.usageCounters.From(0) {
		for ; next < at; next++ {
			s.freeUsageCounters = append(s.freeUsageCounters, next)
		}
		s.usageCounterAt[st.Association], next = at, at+1
	}
}

// rebuildUsageCounters returns the standings made anew from the jobs and runs, and where each is.
func (s *State) rebuildUsageCounters() (table.Table[*estimate.UsageCounter], map[model.Association]int64) {
	var t table.Table[*estimate.UsageCounter]
	at := map[model.Association]int64{}
	of := func(leaf model.Association) *estimate.UsageCounter {
		i, known := at[leaf]
		if !known {
			i = int64(len(at))
			at[leaf] = i
			t.Set(i, &estimate.UsageCounter{Association: leaf, Epoch: s.epoch})
		}
		st, _ := t.Get(i)
		return st
	}
	for r := range s.v.runs.Values() {
		of(r.Job.Association()).AddRun(r, 1)
	}
	for j := range s.v.jobs.Values() {
		if n := j.StartableAttempts(); n > 0 {
			st, ask := of(j.Association()), s.v.RequestedBy(j)
			st.Requested.Add(&ask, n)
			st.Jobs++
		}
	}
	return t, at
}

// checkUsageCounters compares the standings and the inventory with those made anew.
func (s *State) checkUsageCounters(note func(error)) {
	want, at := s.rebuildUsageCounters()
	for leaf, i := range at {
		st, _ := want.Get(i)
		note(s.checkUsageCounter(leaf, st))
	}
	if len(at) != len(s.usageCounterAt) || s.v.usageCounters.Size() != len(at) {
		note(fmt.Errorf("%d leaves have a standing, and there are %d, for %d", len(s.usageCounterAt), s.v.usageCounters.Size(), len(at)))
	}
	if got, want := s.v.inventory, s.v.inventoryOf(); !got.All.Equal(&want.All) || !got.Up.Equal(&want.Up) || !got.WithGPUs.Equal(&want.WithGPUs) {
		note(fmt.Errorf("the inventory is %+v, made anew %+v", *got, *want))
	}
}

func (s *State) checkUsageCounter(leaf model.Association, want *estimate.UsageCounter) error {
	var got *estimate.UsageCounter
	if i, known := s.usageCounterAt[leaf]; known {
		got, _ = s.v.usageCounters.Get(i)
	}
	if got == nil || got.Association != leaf || got.Jobs != want.Jobs || !got.Held.Equal(&want.Held) || !got.Requested.Equal(&want.Requested) ||
		!slices.EqualFunc(got.Since, want.Since, estimate.HourHoldings.Equal) {
		return fmt.Errorf("the standing of %s in %s is %+v, made anew %+v", leaf.User, leaf.Account, got, want)
	}
	return nil
}
