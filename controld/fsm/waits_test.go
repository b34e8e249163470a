package fsm

import (
	"testing"

	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// TestLearnWait: what is learnt is the share of first attempts of each class that did not begin at once.
func TestLearnWait(t *testing.T) {
	s := New(model.Config{})
	s.v.at = 1_000_000
	for i := range 4 * estimate.WaitsMemory {
		waited := model.Instant(0)
		if i%4 == 0 {
			waited = 60_000
		}
		s.recordQueueWait(&model.Job{Class: jobspec.TE, Eligible: s.v.at - estimate.AtOnceWithin})
		s.recordQueueWait(&model.Job{Class: jobspec.BE, Eligible: s.v.at - waited})
		s.recordQueueWait(&model.Job{Class: jobspec.TE, Attempt: 1, Eligible: 0}) // it was displaced: that is no wait for a first start
	}
	w := s.v.statistics.Waits
	if w.TE != 0 {
		t.Errorf("trial-and-error jobs that began at once: %d have waited", w.TE)
	}
	if w.BE < estimate.WaitsUnit/5 || w.BE > estimate.WaitsUnit*3/10 {
		t.Errorf("one best-effort job of four has waited, learnt are %d of %d", w.BE, estimate.WaitsUnit)
	}
}
