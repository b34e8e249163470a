package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
)

// pausing is what a job says whose program can pause.
const pausing = "preemption {\n mode = \"suspend\"\n grace_period = \"60s\"\n }\n"

// A job that can pause makes room for trial-and-error jobs where it is. It goes on in the same
// attempt, with all that it had in memory, and its loss is that of a run left alone.
func TestATrainingPausesForATrial(t *testing.T) {
	w := start(t, lab.Options{Controllers: 1, Nodes: 2, GPUs: 2})
	w.policy("rota")
	t.Run("a gang pauses by itself, while daemons are killed", w.gangPauses)
	t.Run("a program that knows nothing of it is frozen", w.frozen)
	t.Run("a job that is cancelled while it is suspended saves", w.cancelledWhileSuspended)
	if out, errs, code := w.rota("check"); code != 0 {
		t.Errorf("check: exit %d\n%s%s", code, out, errs)
	}
}

// trial is a trial-and-error job that holds GPUs until a file exists.
func (w *world) trial(dir string, gpus int) string {
	return w.submit(onGPUs("trial", gpus, `class = "te"`, fmt.Sprintf("until [ -e %s/over ]; do sleep 0.02; done", dir)))
}

func (w *world) over(dir string) { w.must(os.WriteFile(filepath.Join(dir, "over"), nil, 0o644)) }

// suspended waits until a job is suspended.
func (w *world) suspended(id string) api.Job {
	w.t.Helper()
	return w.until(id, "suspended", func(j api.Job) bool { return j.Code == "S" })
}

func (w *world) gangPauses(t *testing.T) {
	w, back := w.within(t)
	defer back()
	dir := w.scratch("gang")
	const steps = 200
	train := w.submit(fmt.Sprintf(`job "train" {
  %s
  group "workers" {
    count = 2
    max_workers_per_node = 1
    task "t" {
      command = ["bin/trainer", "-steps", %d, "-pause", "20ms", "-every", 0, "-log", 1, "-dir", %q]
      resources {
        memory = "64MiB"
        gpus   = 2
      }
    }
  }
}`, pausing, steps, dir))
	w.lines(filepath.Join(dir, "heartbeat"), 6)
	for n, kill := range []func(){
		func() {},
		func() { // the node daemons die while the job is suspended, and the controller too
			for _, d := range append(slices.Clone(w.Cluster.Nodes), w.Cluster.Controllers...) {
				d.Kill()
				w.must(d.Start())
			}
		},
	} {
		at := w.scratch(fmt.Sprintf("trial%d", n))
		id := w.trial(at, 1)
		w.suspended(train)
		w.until(id, "running", func(j api.Job) bool { return j.Code == "R" })
		time.Sleep(beat) // it says at which step it has paused
		before := w.lastStep(dir)
		kill()
		time.Sleep(beat) // what still runs would go on, and say so
		if after := w.lastStep(dir); after != before {
			t.Errorf("a suspended job went from step %s to %s", before, after)
		}
		w.over(at)
		w.ends(id)
		w.wait("the training goes on", func() bool { return len(w.events(string(model.EventContinued), train)) > n })
	}
	j := w.ends(train)
	if j.Code != "CD" || j.Attempt != 1 {
		t.Errorf("it ended as %s in attempt %d: %s", j.Code, j.Attempt, j.Reason.Text)
	}
	w.oneAttempt(filepath.Join(dir, "heartbeat"))
	if got, want := lastLoss(t, w.ok("logs", train)), lastLoss(t, w.alone(steps)); got != want {
		t.Errorf("last loss is %s, a run left alone has %s", got, want)
	}
	w.switches(train, 2)
}

// beat is time in which a trainer says where it is, and one that runs takes steps.
const beat = 300 * time.Millisecond

// lastStep returns the step that a trainer was at when it last said so.
func (w *world) lastStep(dir string) (step string) {
	w.t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "heartbeat"))
	w.must(err)
	for line := range strings.Lines(string(b)) {
		step = strings.Fields(line)[2]
	}
	return step
}

// switches checks how often a job was suspended and went on.
func (w *world) switches(id string, times int) {
	w.t.Helper()
	for _, kind := range []model.EventType{model.EventSuspending, model.EventSuspended, model.EventResuming,
		model.EventContinued} {
		if got := w.events(string(kind), id); len(got) != times {
			w.t.Errorf("%s: %v, want %d", kind, got, times)
		}
	}
}

func (w *world) frozen(t *testing.T) {
	w, back := w.within(t)
	defer back()
	dir := w.scratch("frozen")
	count := filepath.Join(dir, "count")
	id := w.submit(onGPUs("plain", 2, pausing, fmt.Sprintf(
		`n=0; until [ -e %[1]s/done ]; do n=$((n+1)); echo $n > %[1]s/new; mv %[1]s/new %[1]s/count; sleep 0.01; done`, dir)))
	other := w.submit(onGPUs("other", 2, "", fmt.Sprintf("until [ -e %s/done ]; do sleep 0.02; done", dir)))
	w.until(other, "running", func(j api.Job) bool { return j.Code == "R" })
	counted := func() int {
		b, _ := os.ReadFile(count)
		n, _ := strconv.Atoi(strings.TrimSpace(string(b)))
		return n
	}
	w.wait("the program counts", func() bool { return counted() > 3 })
	trial := w.trial(dir, 2)
	w.suspended(id)
	w.until(trial, "running", func(j api.Job) bool { return j.Code == "R" })
	before := counted()
	time.Sleep(beat)
	if after := counted(); after != before {
		t.Errorf("a frozen program counts from %d to %d", before, after)
	}
	w.over(dir)
	w.wait("the program counts again", func() bool { return counted() > before })
	w.must(os.WriteFile(filepath.Join(dir, "done"), nil, 0o644))
	if j := w.ends(id); j.Code != "CD" || j.Attempt != 1 {
		t.Errorf("it ended as %s in attempt %d: %s", j.Code, j.Attempt, j.Reason.Text)
	}
	w.ends(other)
	w.switches(id, 1)
}

func (w *world) cancelledWhileSuspended(t *testing.T) {
	w, back := w.within(t)
	defer back()
	dir := w.scratch("cancelled")
	var jobs []string
	for n := range 2 { // both nodes are full
		at := w.scratch(fmt.Sprintf("cancelled%d", n))
		jobs = append(jobs, w.submit(onGPUs("train", 2, pausing, fmt.Sprintf(
			"exec bin/trainer -steps 100000 -pause 20ms -every 0 -dir %s", at))))
		w.lines(filepath.Join(at, "heartbeat"), 3)
	}
	trial := w.trial(dir, 2)
	w.until(trial, "running", func(j api.Job) bool { return j.Code == "R" })
	count := 0
	for _, id := range jobs {
		suspended := w.status(id).Code == "S"
		if suspended {
			count++
		}
		w.ok("cancel", id)
		if j := w.ends(id); j.Code != "CA" {
			t.Errorf("job %s ended as %s", id, j.Code)
		}
		if out := w.ok("logs", id); suspended && !strings.Contains(out, "saved") {
			t.Errorf("it has not saved:\n%s", out)
		}
	}
	if count != 1 {
		t.Errorf("%d jobs were suspended for one trial", count)
	}
	w.over(dir)
	w.ends(trial)
}
