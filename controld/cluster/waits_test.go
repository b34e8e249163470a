package cluster

import (
	"testing"

	"github.com/rota-hpc/rota/jobspec"
)

// TestLearnWait: what is learnt is the share of first attempts of each class that did not begin at once.
func TestLearnWait(t *testing.T) {
	s := New(Config{})
	s.v.at = 1_000_000
	for i := range 4 * waitsMemory {
		waited := Instant(0)
		if i%4 == 0 {
			waited = 60_000
		}
		s.recordQueueWait(&Job{Class: jobspec.TE, Eligible: s.v.at - atOnceWithin})
		s.recordQueueWait(&Job{Class: jobspec.BE, Eligible: s.v.at - waited})
		s.recordQueueWait(&Job{Class: jobspec.TE, Attempt: 1, Eligible: 0}) // it was displaced: that is no wait for a first start
	}
	w := s.v.statistics.Waits
	if w.TE != 0 {
		t.Errorf("trial-and-error jobs that began at once: %d have waited", w.TE)
	}
	if w.BE < waitsUnit/5 || w.BE > waitsUnit*3/10 {
		t.Errorf("one best-effort job of four has waited, learnt are %d of %d", w.BE, waitsUnit)
	}
}
