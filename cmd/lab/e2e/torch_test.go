package e2e

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
)

// envTorch is set by make test-torch, which installs what these tests need.
const envTorch = "ROTA_TEST_TORCH"

// trainSteps is how many steps the PyTorch jobs train for. On an idle machine a job must still
// train after everything that a test does to it.
const trainSteps = 600

// torchPatience is how long the story of one job may take on a busy machine.
const torchPatience = 25 * time.Minute

// lossTolerance is by what part of it the loss of a step may differ from that of a run with another
// number of processes. They compute in double precision, in which the sum over a batch in another
// order differs by less than 10^-9. A step that is left out, taken twice or taken without the
// optimizer's state changes the next losses by 10^-2.
const lossTolerance = 1e-6

// needs skips a test of real programs unless make test-torch runs it, which has installed them.
func needs(t *testing.T, what, packages string, probe ...string) {
	t.Helper()
	if os.Getenv(envTorch) == "" {
		t.Skipf("needs %s and minutes: make test-torch", what)
	}
	if out, err := exec.Command(probe[0], probe[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("needs %s: apt-get install %s (%v: %s)", what, packages, err, out)
	}
}

func needsTorch(t *testing.T) {
	t.Helper()
	needs(t, "PyTorch", "python3-torch", "/usr/bin/python3", "-c", "import torch.distributed")
}

// torchWorld is a cluster of two nodes whose jobs find the training of examples/torch.
func torchWorld(t *testing.T, config string, gpus int) *world {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cluster.hcl")
	if err := os.WriteFile(path, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	w := startWithin(t, torchPatience, lab.Options{Controllers: 1, Nodes: 2, GPUs: gpus,
		Controld: []string{"--config", path}})
	text, err := os.ReadFile("../../../examples/torch/train.py")
	w.must(err)
	w.must(os.WriteFile(filepath.Join(w.shared, "train.py"), text, 0o644))
	return w
}

var elasticBlock = regexp.MustCompile(`(?s)elastic \{.*?\n    \}`)

// trainsTorch submits examples/torch/train.hcl with another block in the place of its block elastic,
// and so many GPUs for each worker. Workers write to files, which are read without much ado.
func (w *world) trainsTorch(dir, workers string, gpus, steps int, more ...[2]string) *torchRun {
	w.t.Helper()
	file, err := os.ReadFile("../../../examples/torch/train.hcl")
	w.must(err)
	text := elasticBlock.ReplaceAllLiteralString(string(file), workers)
	for _, change := range append([][2]string{
		{"var.steps,", `var.steps, "--double",`},
		{"gpus   = 1", fmt.Sprintf("gpus   = %d", gpus)},
		{"launch {", fmt.Sprintf("log {\n        stdout = \"%s/out.%%r.%%n\"\n      }\n\n      launch {", dir)},
	}, more...) {
		if !strings.Contains(text, change[0]) {
			w.t.Fatalf("examples/torch/train.hcl has no %q", change[0])
		}
		text = strings.Replace(text, change[0], change[1], 1)
	}
	path := dir + ".hcl"
	w.must(os.WriteFile(path, []byte(text), 0o644))
	id := strings.TrimSpace(w.ok("submit", "--parsable", "-var", "dir="+dir, "-var", fmt.Sprint("steps=", steps), path))
	return &torchRun{world: w, id: id, dir: dir, steps: steps}
}

// torchRun is a job that trains with PyTorch.
type torchRun struct {
	*world
	id, dir string
	steps   int
}

// output is what the first worker of an attempt has written so far.
func (tr *torchRun) output(attempt int) string {
	b, _ := os.ReadFile(fmt.Sprintf("%s/out.%d.0", tr.dir, attempt-1)) // there is none before it begins
	return string(b)
}

// lossLine is the line of a step. torchrun may write the beginning of the next line before its end.
var lossLine = regexp.MustCompile(`step (\d+) loss ([\d.]+)`)

// lossesOf returns the losses that an attempt has written so far, and the step of the first.
func (tr *torchRun) lossesOf(attempt int) (first int, losses []float64) {
	tr.t.Helper()
	for i, m := range lossLine.FindAllStringSubmatch(tr.output(attempt), -1) {
		step, err := strconv.Atoi(m[1])
		tr.must(err)
		loss, err := strconv.ParseFloat(m[2], 64)
		tr.must(err)
		if i == 0 {
			first = step
		}
		if step != first+i {
			tr.t.Fatalf("attempt %d writes of step %d after step %d", attempt, step, first+i-1)
		}
		losses = append(losses, loss)
	}
	return first, losses
}

// takes waits until an attempt has taken a step, and returns the first that it took.
func (tr *torchRun) takes(attempt, step int) (first int) {
	tr.t.Helper()
	for n := 1; ; n++ {
		first, losses := tr.lossesOf(attempt)
		if len(losses) > 0 && first+len(losses) > step {
			return first
		}
		if n%50 == 0 {
			if j := tr.status(tr.id); j.Code.Final() {
				tr.t.Fatalf("the job has ended as %s before step %d of attempt %d: %s\n%s", j.Code, step, attempt,
					j.Reason.Text, tr.output(j.Attempt))
			}
		}
		if !lab.Sleep(tr.ctx, 20*time.Millisecond) {
			tr.t.Fatalf("attempt %d does not come to step %d: %+v", attempt, step, tr.status(tr.id))
		}
	}
}

// completes waits for the end of a training, and returns it with the losses of all its steps. Each
// attempt must have gone on with the step after the last one.
func (tr *torchRun) completes() (api.Job, []float64) {
	tr.t.Helper()
	j := tr.ends(tr.id)
	if j.Code != "CD" {
		tr.t.Fatalf("the job ended as %s, %s: %s\n%s", j.Code, exitOf(j), j.Reason.Text, tr.output(j.Attempt))
	}
	var all []float64
	for n := range j.Attempts {
		first, losses := tr.lossesOf(n + 1)
		if len(losses) > 0 && first != len(all)+1 {
			tr.t.Fatalf("attempt %d begins with step %d, after step %d", n+1, first, len(all))
		}
		all = append(all, losses...)
	}
	if len(all) != tr.steps {
		tr.t.Fatalf("it took %d steps of %d", len(all), tr.steps)
	}
	if j.SavedStep != int64(tr.steps) {
		tr.t.Errorf("it has reported that step %d is saved, of %d", j.SavedStep, tr.steps)
	}
	if out, errs, code := tr.rota("check"); code != 0 {
		tr.t.Errorf("check: exit %d\n%s%s", code, out, errs)
	}
	return j, all
}

// sameLosses compares two runs step by step.
func sameLosses(t *testing.T, got, want []float64) {
	t.Helper()
	worst := 0.0
	for i := range want {
		if d := math.Abs(got[i]-want[i]) / want[i]; d > lossTolerance {
			t.Fatalf("the loss of step %d is %v, undisturbed %v: %.2g apart", i+1, got[i], want[i], d)
		} else {
			worst = max(worst, d)
		}
	}
	t.Logf("%d losses, at most %.2g apart; the last is %v", len(want), worst, want[len(want)-1])
}

// waitsFor is a job of so many workers on a GPU each, one on a node, that ends when a file is there.
func waitsFor(name, until string, workers, gpus int) string {
	return fmt.Sprintf(`job %q {
  priority = 90
  group "wait" {
    count = %d
    max_workers_per_node = 1
    task "wait" {
      script = "until [ -e %s ]; do sleep 0.05; done"
      resources {
        cores  = 1
        memory = "64MiB"
        gpus   = %d
      }
    }
  }
}`, name, workers, until, gpus)
}

func fixed(workers int) string { return fmt.Sprintf("count = %d", workers) }

// The real torchrun takes the flags that it gets, or finds the same in its variables, and starts every
// rank once. By c10d it knows nodes by host name and process ID, which are alike for both nodes here.
func TestPyTorchRun(t *testing.T) {
	needsTorch(t)
	w := torchWorld(t, `policy "rota" {}`, 2)
	w.must(os.WriteFile(filepath.Join(w.shared, "ranks.py"), []byte(
		"import os; print(f\"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']}\", flush=True)\n"), 0o644))
	for name, run := range map[string]struct {
		workers       int
		start, launch string
	}{
		"static":      {2, `command = ["ranks.py"]`, `nproc = "gpu"`},
		"c10d":        {1, `command = ["ranks.py"]`, "nproc = 2\n rdzv = \"c10d\"\n max_restarts = 1"},
		"script":      {2, `script = "torchrun ranks.py"`, `nproc = "gpu"`},
		"script-c10d": {1, `script = "torchrun ranks.py"`, "nproc = 2\n rdzv = \"c10d\""},
	} {
		t.Run(name, func(t *testing.T) {
			w, back := w.within(t)
			defer back()
			id := w.submit(fmt.Sprintf(`job %q {
  group "workers" {
    count = %d
    task "ranks" {
      %s
      launch {
        type = "torchrun"
        %s
      }
      env {
        PET_REDIRECTS = "1"
        PET_TEE       = "1"
      }
      resources {
        cores  = 1
        memory = "1GiB"
        gpus   = 2
      }
    }
  }
}`, name, run.workers, run.start, run.launch))
			j := w.ends(id)
			out := w.ok("logs", id)
			if j.Code != "CD" {
				t.Fatalf("it ended as %s, %s\n%s", j.Code, exitOf(j), out)
			}
			for rank := range 2 * run.workers {
				if line := fmt.Sprintf("rank %d of %d", rank, 2*run.workers); strings.Count(out, line) != 1 {
					t.Errorf("%q is not there once:\n%s", line, out)
				}
			}
		})
	}
}

// A PyTorch training under the real torchrun ends with the same loss in every step, whatever is done to it.
func TestPyTorch(t *testing.T) {
	needsTorch(t)
	var alone []float64
	t.Run("undisturbed", func(t *testing.T) { alone = trainedAlone(t) })
	if alone == nil {
		return // there is nothing to compare with
	}
	for name, story := range map[string]func(*testing.T) []float64{
		"resized": trainedResized, "preempted": trainedPreempted, "migrated": trainedMigrated,
		"suspended": trainedSuspended,
	} {
		t.Run(name, func(t *testing.T) { sameLosses(t, story(t), alone) })
	}
}

// trainedAlone trains with four processes on two nodes.
func trainedAlone(t *testing.T) []float64 {
	w := torchWorld(t, `policy "rota" {}`, 2)
	j, losses := w.trainsTorch(w.scratch("alone"), fixed(4), 1, trainSteps).completes()
	if a := j.Attempts; len(a) != 1 || len(a[0].Nodes) != 2 {
		t.Errorf("the attempts: %+v", a)
	}
	return losses
}

// trainedResized starts with two workers, as another job has the other half of the nodes. It grows
// to four when that job has ended, and shrinks to two for a third job.
func trainedResized(t *testing.T) []float64 {
	w := torchWorld(t, `policy "rota" {}`, 2)
	dir := w.scratch("resized")
	before, after := filepath.Join(dir, "before"), filepath.Join(dir, "after")
	holder := w.submit(waitsFor("before", before, 2, 1))
	w.until(holder, "running", func(j api.Job) bool { return j.Code == "R" })
	tr := w.trainsTorch(dir, `elastic {
      min         = 2
      max         = 4
      multiple_of = 2
      cooldown    = "1s"
      grow_after  = "1s"
    }`, 1, trainSteps)
	tr.takes(1, 1)
	w.must(os.WriteFile(before, nil, 0o644))
	tr.takes(2, 1)
	last := w.submit(waitsFor("after", after, 2, 1))
	j, losses := tr.completes()
	w.must(os.WriteFile(after, nil, 0o644))
	w.ends(last)
	var workers []int
	for _, a := range j.Attempts {
		workers = append(workers, a.Workers)
	}
	if !slices.Equal(workers, []int{2, 4, 2}) || j.Attempts[0].Cause != "grow" || j.Attempts[1].Cause != "shrink" {
		t.Errorf("the attempts had %v workers: %+v", workers, j.Attempts)
	}
	return losses
}

// trainedPreempted trains on all GPUs of two nodes, two processes on each. A trial-and-error job takes
// those of one, and ends.
func trainedPreempted(t *testing.T) []float64 {
	w := torchWorld(t, narrow, 2)
	dir := w.scratch("preempted")
	tr := w.trainsTorch(dir, fixed(2), 2, trainSteps)
	tr.takes(1, 1)
	trial := w.ends(w.submit(onGPUs("trial", 2, `class = "te"`, "true")))
	j, losses := tr.completes()
	if trial.Code != "CD" || j.Preemptions != (api.Preemptions{TE: 1}) || len(j.Attempts) != 2 ||
		j.Attempts[0].Cause != "te" || j.Attempts[0].Signal != 0 {
		t.Errorf("the trial ended as %s; preempted %+v, attempts %+v", trial.Code, j.Preemptions, j.Attempts)
	}
	return losses
}

// moving has jobs move as soon as that lets a wider one start.
const moving = "policy \"rota\" {\n  min_turn = \"1s\"\n  min_runtime = \"1s\"\n  migration_worth = 0\n}\n"

// trainedMigrated trains with two processes on one node, and moves to the other so that a job of a
// whole node can start.
func trainedMigrated(t *testing.T) []float64 {
	w := torchWorld(t, moving, 4)
	dir := w.scratch("migrated")
	filled, over := filepath.Join(dir, "filled"), filepath.Join(dir, "over")
	still := w.submit(waitsFor("still", over, 1, 1))
	filler := w.submit(waitsFor("filler", filled, 1, 3))
	there := w.until(filler, "running", func(j api.Job) bool { return j.Code == "R" }).Nodes
	tr := w.trainsTorch(dir, fixed(1), 2, trainSteps)
	tr.takes(1, 1)
	w.must(os.WriteFile(filled, nil, 0o644))
	w.ends(filler)
	large := w.ends(w.submit(onGPUs("large", 4, "", "true")))
	j, losses := tr.completes()
	w.must(os.WriteFile(over, nil, 0o644))
	w.ends(still)
	if a := j.Attempts; len(a) != 2 || a[0].Cause != "migrate" || a[0].Signal != 0 || j.Migrations != 1 ||
		slices.Equal(a[0].Nodes, there) || !slices.Equal(a[1].Nodes, there) || large.Code != "CD" {
		t.Errorf("it was to move to %v; attempts %+v; the large job ended as %s", there, a, large.Code)
	}
	return losses
}

// trainedSuspended trains with two processes on each of two nodes. It pauses with all of them for a
// trial-and-error job, twice, and goes on from there.
func trainedSuspended(t *testing.T) []float64 {
	w := torchWorld(t, narrow, 2)
	dir := w.scratch("suspended")
	tr := w.trainsTorch(dir, fixed(2), 2, trainSteps, [2]string{"preemption {", "preemption {\n    mode = \"suspend\""})
	for n := 1; n <= 2; n++ {
		tr.takes(1, 100*n)
		if trial := w.ends(w.submit(onGPUs("trial", 2, `class = "te"`, "true"))); trial.Code != "CD" {
			t.Errorf("the trial ended as %s", trial.Code)
		}
		w.wait("the training goes on", func() bool { return len(w.events(string(model.EventContinued), tr.id)) >= n })
	}
	j, losses := tr.completes()
	if len(j.Attempts) != 1 || j.Suspensions != 2 {
		t.Errorf("suspended %d times, attempts %+v", j.Suspensions, j.Attempts)
	}
	w.switches(tr.id, 2)
	return losses
}

// TestPyTorchSavesAndResumes measures how long a training of two processes on two nodes takes to
// save and leave, and to go on. It does so at several parts of its progress. It judges no figure.
func TestPyTorchSavesAndResumes(t *testing.T) {
	needsTorch(t)
	const rounds, steps = 2, 1500
	percents := []int{10, 30, 50, 70, 90}
	of, all := map[int]*stopTimes{}, &stopTimes{}
	w := torchWorld(t, `policy "rota" {}`, 1)
	for round := range rounds {
		tr := w.trainsTorch(w.scratch(fmt.Sprint("round", round)), fixed(2), 1, steps)
		for i, percent := range percents {
			tr.takes(i+1, steps*percent/100)
			saved, left, resumed := tr.stopsAndResumes(i + 1)
			if of[percent] == nil {
				of[percent] = &stopTimes{}
			}
			of[percent].add(saved, left, resumed)
			all.add(saved, left, resumed)
		}
		tr.completes()
	}
	t.Log("mean and standard deviation of | until saved | until its exit | start to next step |")
	for _, percent := range percents {
		t.Logf("%d %% %s", percent, of[percent])
	}
	t.Logf("all %s", all)
}

// stopsAndResumes has an operator stop an attempt, which starts again. It returns the times from
// the order until the state is saved and until all processes have ended. It also returns the time
// from the start of the next attempt to the end of its first step.
func (tr *torchRun) stopsAndResumes(attempt int) (saved, left, resumed time.Duration) {
	tr.t.Helper()
	told := time.Now()
	tr.ok("requeue", tr.id)
	var end *api.Time
	for end == nil {
		if !lab.Sleep(tr.ctx, 50*time.Millisecond) {
			tr.t.Fatalf("attempt %d does not end: %+v", attempt, tr.status(tr.id))
		}
		j, _, err := tr.client.JobBy(tr.ctx, tr.id, api.Read{})
		tr.must(err)
		end = j.Attempts[attempt-1].End
	}
	file, err := os.Stat(filepath.Join(tr.dir, "model.pt"))
	tr.must(err)
	first := tr.takes(attempt+1, 1)
	stepped := time.Now()
	a := tr.status(tr.id).Attempts
	saved, left, resumed = file.ModTime().Sub(told), end.Sub(told), stepped.Sub(a[attempt].Start.Time)
	if a[attempt-1].Signal != 0 || saved < 0 {
		tr.t.Errorf("it did not save and leave, but %+v", a[attempt-1])
	}
	tr.t.Logf("attempt %d: saved after %v, left after %v; the next took step %d after %v", attempt, saved, left, first,
		resumed)
	return saved, left, resumed
}

// stopTimes are the times of several stops, in seconds.
type stopTimes struct{ saved, left, resumed []float64 }

func (s *stopTimes) add(saved, left, resumed time.Duration) {
	s.saved, s.left, s.resumed = append(s.saved, saved.Seconds()), append(s.left, left.Seconds()),
		append(s.resumed, resumed.Seconds())
}

func (s *stopTimes) String() string {
	return fmt.Sprintf("| %s | %s | %s |", meanAndDeviation(s.saved), meanAndDeviation(s.left),
		meanAndDeviation(s.resumed))
}

// meanAndDeviation writes the mean and the standard deviation of seconds.
func meanAndDeviation(all []float64) string {
	mean, squares := 0.0, 0.0
	for _, x := range all {
		mean += x / float64(len(all))
	}
	for _, x := range all {
		squares += (x - mean) * (x - mean)
	}
	return fmt.Sprintf("%.2f s (%.2f s)", mean, math.Sqrt(squares/float64(len(all)-1)))
}
