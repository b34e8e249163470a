package state

import (
	"iter"

	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/model"
)

// UsageCounters yields what every leaf holds and asks for that does either, in no particular order.
func (v *View) UsageCounters() iter.Seq[*estimate.UsageCounter] { return v.usageCounters.Values() }

// updateUsageCounter keeps the counter of a leaf in step with a job that has changed, and with its
// attempt in progress.
func (s *State) updateUsageCounter(old, next *model.Job, was, is *estimate.LiveAttempt) {
	wanted, wants := old.StartableAttempts(), next.StartableAttempts()
	sameRun := was == is || was != nil && is != nil && was.HeldSince == is.HeldSince && was.Held.Equal(&is.Held)
	if sameRun && wanted == wants && (wants == 0 || old.Total() == next.Total()) {
		return
	}
	if sameRun {
		was, is = nil, nil
	}
	s.v.usageCounters.Move(next.Association(), was, is, s.v.demandOf(old), s.v.demandOf(next), s.epoch)
}

// demandOf returns what a job asks for.
func (v *View) demandOf(j *model.Job) estimate.Demand {
	n := j.StartableAttempts()
	if n == 0 {
		return estimate.Demand{}
	}
	return estimate.Demand{Attempts: n, Each: v.RequestedBy(j)}
}

// usageCountersAnew returns the counters made anew from the jobs and attempts in progress.
func (s *State) usageCountersAnew() estimate.UsageCounterTable {
	var t estimate.UsageCounterTable
	for r := range s.v.runs.Values() {
		t.Move(r.Job.Association(), nil, r, estimate.Demand{}, estimate.Demand{}, s.epoch)
	}
	for j := range s.v.jobs.Values() {
		if d := s.v.demandOf(j); d.Attempts > 0 {
			t.Move(j.Association(), nil, nil, estimate.Demand{}, d, s.epoch)
		}
	}
	return t
}
