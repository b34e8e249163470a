package estimate

import (
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// TestWhenAnAttemptEnds notices a time limit that is 60 s too long, or counts from anything but the
// start of the command.
func TestWhenAnAttemptEnds(t *testing.T) {
	const assigned, started = 10_000, 40_000
	stop := &model.Stop{Cause: model.CauseCancelled}
	for _, c := range []struct {
		name     string
		limit    jobspec.Seconds
		deadline model.Instant
		started  model.Instant
		stop     *model.Stop
		want     model.Instant
	}{
		{"its time limit after its start", 600, 0, started, nil, started + 600_000},
		{"the shortest limit", 1, 0, started, nil, started + 1000},
		{"no limit", 0, 0, started, nil, 0},
		{"it has not started", 600, 0, 0, nil, 0},
		{"the deadline comes first", 600, 500_000, started, nil, 500_000},
		{"the limit comes first", 600, 700_000, started, nil, started + 600_000},
		{"a deadline alone", 0, 500_000, started, nil, 500_000},
		{"a deadline before the start", 600, 500_000, 0, nil, 500_000},
		{"it is being stopped", 600, 500_000, started, stop, 0},
	} {
		j := &model.Job{Limit: c.limit, Deadline: c.deadline}
		a := &model.Attempt{Assigned: model.Stamp{At: assigned}, Started: model.Stamp{At: c.started}, Stop: c.stop}
		if got := Ends(j, a); got != c.want {
			t.Errorf("%s: it ends at %d, want %d", c.name, got, c.want)
		}
	}
}
