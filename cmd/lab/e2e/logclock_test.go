package e2e

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/cmd/lab/training"
	"github.com/rota-hpc/rota/controld/api"
)

// The log's clock goes on from the last leader's time, although nothing is written meanwhile. A
// job's time limit holds over take-overs on a quiet cluster, and its charge agrees with its own
// heartbeats. A clock that begins at the last entry of the log would give it seconds each time.
func TestTheLogClockGoesOn(t *testing.T) {
	const (
		limit     = 20 * time.Second
		takeOvers = 2
		between   = 60 // heartbeats: 6 s
		gpus      = 50 // so that GPU seconds tell 20 ms of a job
	)
	w := start(t, lab.Options{Controllers: 3, Nodes: 1, GPUs: gpus})
	dir := w.scratch("clock")
	beats := filepath.Join(dir, training.File)
	id := w.submit(fmt.Sprintf(`job "clock" {
  time_limit = "%ds"
  task "t" {
    command     = ["bin/trainer", "-steps", "100000", "-pause", "50ms", "-dir", %q]
    kill_signal = "SIGKILL"
    resources {
      memory = "64MiB"
      gpus   = %d
    }
  }
}`, limit/time.Second, dir, gpus))
	for n := range takeOvers {
		w.lines(beats, between*(n+1))
		leader, err := w.Leader(w.ctx)
		w.must(err)
		leader.Kill()
		_, err = w.Leader(w.ctx)
		w.must(err)
		w.must(leader.Start())
	}
	j := w.ends(id)
	if j.Code != "TO" || j.Attempt != 1 {
		t.Errorf("it ended as %s in attempt %d", j.Code, j.Attempt)
	}
	lives, err := training.Lives(beats)
	if err != nil || len(lives) != 1 {
		t.Fatalf("%d attempts beat, %v", len(lives), err)
	}
	life := lives[0]
	ran := life.Last.Sub(life.First)
	if ran < limit-time.Second || ran > limit+takeOvers*time.Second {
		t.Errorf("with %d take-overs it ran for %v, its limit is %v", takeOvers, ran, limit)
	}
	held := life.Last.Sub(w.assignedAt(j))
	charged := time.Duration(j.GPUSeconds) * time.Second / gpus
	if off := charged - held; off.Abs() > 500*time.Millisecond { // a wrong clock is off by a silence of 6 s
		t.Errorf("it held its GPUs for %v by its own heartbeats, and is charged for %v", held, charged)
	}
	t.Logf("it ran for %v, held its GPUs for %v, and is charged for %v", ran, held, charged)
}

// assignedAt returns when a job got its place, which is from when it is charged.
func (w *world) assignedAt(j api.Job) time.Time {
	w.t.Helper()
	list, _, err := w.client.Events(w.ctx, 0, 0)
	w.must(err)
	for _, e := range list.Items {
		if e.Job == j.ID && e.Type == "assigned" {
			return e.At.Time
		}
	}
	w.t.Fatalf("no event tells when job %d got its place", j.ID)
	return time.Time{}
}
