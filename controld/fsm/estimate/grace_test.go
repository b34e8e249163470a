package estimate

import (
	"fmt"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

func graceful(user, name string, declared jobspec.Seconds) *model.Job {
	return &model.Job{Account: "lab", Owner: model.Identity{User: user},
		Spec: &jobspec.Job{Name: name, Preemption: &jobspec.Preemption{GracePeriod: declared}}}
}

// TestMeasuredGrace learns how much of what they declare jobs use. It notices that a long period
// pays for a job that leaves at once, also under a new name or after many that were honest.
func TestMeasuredGrace(t *testing.T) {
	var now *Statistics
	r := NewRecorder(&now)
	expected := func(user, name string, declared int64) int64 {
		return now.ExpectedGrace(GraceKindOf(graceful(user, name, 0)), declared)
	}
	if got := expected("ann", "train", 60_000); got != 60_000 {
		t.Errorf("without a measurement it is %d ms, want what is declared", got)
	}
	r.Epoch = 1
	r.Grace(graceful("ann", "train", 60), 60_000)
	before := now
	for i := range 10 {
		r.Epoch, r.At = uint64(2+i), model.Instant(i)
		r.Grace(graceful("bob", "boast", 1200), 200)
	}
	for _, c := range []struct {
		user, name     string
		declared, want int64
	}{
		{"ann", "train", 60_000, 60_000},
		{"ann", "train", 30_000, 30_000},
		{"ann", "other", 1_200_000, 1_200_000},
		{"bob", "boast", 1_200_000, leastGrace},
		{"bob", "renamed", 1_200_000, leastGrace},
		{"bob", "renamed", 500, 500},
		{"eve", "boast", 1_200_000, 1_200_000},
	} {
		if got := expected(c.user, c.name, c.declared); got != c.want {
			t.Errorf("%s of %s declares %d ms and is expected to take %d, want %d", c.name, c.user, c.declared, got, c.want)
		}
	}
	if len(before.Graces) != 2 {
		t.Errorf("what a view has was written: %v", before.Graces)
	}
	r.Epoch++
	r.Grace(graceful("ann", "train", 1200), 1000)
	if got := expected("ann", "train", 1_200_000); got > 120_000 {
		t.Errorf("one short grace of 20 minutes after a long one of a minute leaves %d ms", got)
	}
}

// TestGracesAreBounded keeps the kinds of which one has left last.
func TestGracesAreBounded(t *testing.T) {
	var now *Statistics
	r := NewRecorder(&now)
	for i := range 3 * maxGraceKinds {
		r.Epoch, r.At = uint64(i/100), model.Instant(i)
		r.Grace(graceful("ann", fmt.Sprintf("j%d", i), 60), model.Instant(i))
	}
	if err := now.Check(); err != nil || len(now.Graces) != maxGraceKinds {
		t.Errorf("%d kinds are kept, %v", len(now.Graces), err)
	}
	if _, known := now.Graces["lab/ann/j0"]; known {
		t.Error("the oldest kind is kept")
	}
	now.Graces["lab/ann/"] = MeasuredGrace{Took: 2, Declared: 1}
	if now.Check() == nil {
		t.Error("more than was declared is accepted")
	}
}
