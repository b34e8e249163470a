package telemetry

import (
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
)

// TestProblemStays shows that a problem of one worker is not forgotten because another one has none,
// that a worker with nothing but problems takes no step back, and that the next attempt begins anew.
func TestProblemStays(t *testing.T) {
	var s Samples
	put := func(p AttemptProgress) AttemptProgress {
		s.Put(7, p, "", func(model.JobID) bool { return false })
		return s.Of(7)
	}
	put(AttemptProgress{Attempt: 1, Step: 5})
	if p := put(AttemptProgress{Attempt: 1, Problem: "bad"}); p.Step != 5 || p.Problem != "bad" {
		t.Errorf("got %+v", p)
	}
	if p := put(AttemptProgress{Attempt: 1, Step: 6}); p.Step != 6 || p.Problem != "bad" {
		t.Errorf("then %+v", p)
	}
	if p := put(AttemptProgress{Attempt: 2, Step: 1}); p.Step != 1 || p.Problem != "" {
		t.Errorf("in the next attempt %+v", p)
	}
}

// TestAnAttemptThatBeginsAnew notices lost work that is not told of, because the checkpoint of a job has
// vanished between two attempts, and a problem that is told of a job that goes on where it was.
func TestAnAttemptThatBeginsAnew(t *testing.T) {
	var s Samples
	for i, c := range []struct {
		put  AttemptProgress
		want string
	}{
		{AttemptProgress{Attempt: 1, Step: 500, Saved: 450}, ""},
		{AttemptProgress{Attempt: 2}, ""}, // it has not come to a step
		{AttemptProgress{Attempt: 2, Step: 3}, "attempt 2 is at step 3, but an earlier attempt had saved step 450"},
		{AttemptProgress{Attempt: 3, Step: 4}, "attempt 3 is at step 4, but an earlier attempt had saved step 450"},
		{AttemptProgress{Attempt: 3, Step: 5, Problem: "bad"}, "bad"},
		{AttemptProgress{Attempt: 4, Step: 451}, ""},
		{AttemptProgress{Attempt: 5, Step: 9}, "attempt 5 is at step 9, but an earlier attempt had saved step 450"},
		{AttemptProgress{Attempt: 5, Step: 20, Saved: 20}, "attempt 5 is at step 20, but an earlier attempt had saved " +
			"step 450"},
		{AttemptProgress{Attempt: 6, Step: 21}, ""}, // of the checkpoint that attempt 5 saved
		{AttemptProgress{Attempt: 7, Step: 19}, "attempt 7 is at step 19, but an earlier attempt had saved step 20"},
		{AttemptProgress{Attempt: 7, Step: 20}, ""},
	} {
		s.Put(7, c.put, "", func(model.JobID) bool { return false })
		if got := s.Of(7).Problem; (got == "") != (c.want == "") || !strings.HasPrefix(got, c.want) {
			t.Errorf("report %d: problem %q, want %q", i, got, c.want)
		}
	}
}
