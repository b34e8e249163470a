package estimate

import (
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// TestRecentOfViewsStay does the same for what trial-and-error jobs asked for last.
func TestRecentOfViewsStay(t *testing.T) {
	var now *Statistics
	r := NewRecorder(&now)
	r.Moment = Moment{At: 1, Epoch: 1}
	var views [][]model.Vector
	for i := range 3 * RecentKept {
		r.Arrival(&model.Job{Class: "te", Workers: 1, Request: model.Request{Active: model.Vector{Cores: int64(i)}}})
		if i%5 == 0 || i%5 == 1 {
			views = append(views, now.TE.Recent)
			r.Epoch++
		}
	}
	for _, recent := range views {
		last := recent[len(recent)-1].Cores
		for i, v := range recent {
			if v.Cores != last-int64(len(recent)-1-i) || len(recent) != int(min(last+1, RecentKept)) {
				t.Fatalf("a view whose last worker asks for %d cores has %d workers, the one at %d asking for %d", last,
					len(recent), i, v.Cores)
			}
		}
	}
}

// TestLearnWait: what is learnt is the share of first attempts of each class that did not begin at
// once.
func TestLearnWait(t *testing.T) {
	var now *Statistics
	r := NewRecorder(&now)
	r.At = 1_000_000
	for i := range 4 * WaitsMemory {
		waited := model.Instant(0)
		if i%4 == 0 {
			waited = 60_000
		}
		r.QueueWait(&model.Job{Class: jobspec.TE, Eligible: r.At - AtOnceWithin})
		r.QueueWait(&model.Job{Class: jobspec.BE, Eligible: r.At - waited})
		// it was displaced: that is no wait for a first start
		r.QueueWait(&model.Job{Class: jobspec.TE, Attempt: 1, Eligible: 0})
	}
	w := now.Waits
	if w.TE != 0 {
		t.Errorf("trial-and-error jobs that began at once: %d have waited", w.TE)
	}
	if w.BE < WaitsUnit/5 || w.BE > WaitsUnit*3/10 {
		t.Errorf("one best-effort job of four has waited, learnt are %d of %d", w.BE, WaitsUnit)
	}
}
