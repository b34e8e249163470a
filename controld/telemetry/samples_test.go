package telemetry

import (
	"testing"

	"github.com/rota-hpc/rota/controld/model"
)

// TestProblemStays shows that a problem of one worker is not forgotten because another one has none,
// that a worker with nothing but problems takes no step back, and that the next attempt begins anew.
func TestProblemStays(t *testing.T) {
	var s Samples
	put := func(p Progress) Progress {
		s.Put(7, p, "", func(model.JobID) bool { return false })
		return s.Of(7)
	}
	put(Progress{Attempt: 1, Step: 5})
	if p := put(Progress{Attempt: 1, Problem: "bad"}); p.Step != 5 || p.Problem != "bad" {
		t.Errorf("got %+v", p)
	}
	if p := put(Progress{Attempt: 1, Step: 6}); p.Step != 6 || p.Problem != "bad" {
		t.Errorf("then %+v", p)
	}
	if p := put(Progress{Attempt: 2, Step: 1}); p.Step != 1 || p.Problem != "" {
		t.Errorf("in the next attempt %+v", p)
	}
}
