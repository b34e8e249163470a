package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/controld/api"
)

// stretches is the elastic trainer: it says every step that it takes, and saves only when it is
// asked to.
func stretches(dir string, steps int) string {
	return fmt.Sprintf(`job "stretch" {
  checkpoint {
    path = %[1]q
  }
  preemption {
    grace_period = "2s"
  }
  group "workers" {
    max_workers_per_node = 4
    elastic {
      min        = 1
      max        = 4
      step       = 2
      cooldown   = "3s"
      grow_after = "1s"
    }
    task "train" {
      command = ["bin/trainer", "-steps", "%[2]d", "-compute", "200ms", "-every", "0", "-log", "1", "-dir", %[1]q]
      resources {
        cores  = 1
        memory = "64MiB"
        gpus   = 1
      }
    }
  }
}`, dir, steps)
}

// waits is an elastic job of at least two workers that runs until a file is there.
func waits(until string) string {
	return fmt.Sprintf(`job "second" {
  priority = 90
  group "workers" {
    max_workers_per_node = 2
    elastic {
      min = 2
      max = 4
    }
    task "wait" {
      script = "while [ ! -e %s ]; do sleep 0.05; done; echo $ROTA_WORKERS of $ROTA_WORKERS_MIN to $ROTA_WORKERS_MAX"
      resources {
        cores  = 1
        memory = "64MiB"
        gpus   = 1
      }
    }
  }
}`, until)
}

// under is a configuration with a policy.
func under(t *testing.T, policy string) string {
	return configFile(t, fmt.Sprintf("policy %q {}\n", policy))
}

// An elastic job has the whole machine, makes room when a second job needs its least, and grows
// again when that has gone. Whatever was done to it, every step is taken once and the loss is that
// of a run that was left alone.
func TestElasticJobMakesRoomAndGrowsAgain(t *testing.T) {
	if !long() {
		t.Skip("takes two minutes: set ROTA_TEST_LONG, as make race does")
	}
	// The policy resizes a job where that saves ten times what a restart costs. This job is short, so a
	// saving of the cost itself is enough here.
	eager := configFile(t, "policy \"rota\" {\n  resize_worth = 1\n  cost_worth   = 1\n}\n")
	w := start(t, lab.Options{Controllers: 1, Nodes: 1, GPUs: 4, Controld: []string{"--config", eager}})
	w.policy("rota")
	dir := w.scratch("stretch")
	const steps = 1800
	id := w.submit(stretches(dir, steps))
	w.until(id, "running with four workers", func(j api.Job) bool { return j.Code == "R" && j.Elastic.Workers == 4 })
	w.lines(filepath.Join(dir, "heartbeat"), 8)
	w.wants(w.ok("queue"), "4/1-4")

	open := filepath.Join(dir, "open")
	second := w.submit(waits(open))
	w.until(second, "running", func(j api.Job) bool { return j.Code == "R" })
	j := w.until(id, "running again", func(j api.Job) bool { return j.Attempt == 2 && j.Code == "R" })
	if e := j.Elastic; e.Workers != 2 || j.GPUs != 2 || j.Attempts[0].Cause != "shrink" || j.Attempts[0].ExitCode != 85 ||
		j.Resizes != 1 {
		t.Errorf("after the second job has come: %+v, attempts %+v", e, j.Attempts)
	}
	w.wants(w.ok("queue"), "2/1-4")
	w.wants(w.ok("status", id), "2/1-4", "it has shrunk from 4 to make room for job "+second)

	w.must(os.WriteFile(open, nil, 0o644))
	if j := w.ends(second); j.Code != "CD" || j.Attempt != 1 {
		t.Errorf("the second job ended as %s in attempt %d", j.Code, j.Attempt)
	}
	w.wants(w.ok("logs", second), "2 of 2 to 4")
	j = w.until(id, "running in its third attempt", func(j api.Job) bool { return j.Attempt == 3 && j.Code == "R" })
	if e := j.Elastic; e.Workers != 4 || j.Attempts[1].Cause != "grow" || j.Resizes != 2 || j.Attempts[1].Rate == 0 {
		t.Errorf("after it has gone: %+v, attempts %+v", e, j.Attempts)
	}
	w.wants(w.ok("status", id), "4/1-4", "it has grown from 2 into free capacity")

	j = w.ends(id)
	if j.Code != "CD" || j.Attempt != 3 || j.Preemptions != (api.Preemptions{}) {
		t.Errorf("it ended as %s in attempt %d, preempted %+v: %s", j.Code, j.Attempt, j.Preemptions, j.Reason.Text)
	}
	w.everyStepOnce(id, j.Attempt, steps)
	if got, want := lastLoss(t, w.ok("logs", id+".0")), lastLoss(t, w.alone(steps)); got != want {
		t.Errorf("the last loss is %s, a run left alone has %s", got, want)
	}
	w.noOverlap(filepath.Join(dir, "heartbeat"))
	w.wants(w.ok("hist", "-j", id), "COMPLETED")
	if out, errs, code := w.rota("check"); code != 0 {
		t.Errorf("check: exit %d\n%s%s", code, out, errs)
	}
}

// everyStepOnce checks in the output of all attempts that each step was taken once, in order.
func (w *world) everyStepOnce(id string, attempts, steps int) {
	w.t.Helper()
	var taken []int
	for n := range attempts {
		for _, m := range regexp.MustCompile(`step (\d+) of`).FindAllStringSubmatch(w.ok("logs", "--attempt",
			strconv.Itoa(n+1), id+".0"), -1) {
			step, err := strconv.Atoi(m[1])
			w.must(err)
			taken = append(taken, step)
		}
	}
	want := make([]int, steps)
	for i := range want {
		want[i] = i + 1
	}
	if !slices.Equal(taken, want) {
		w.t.Errorf("the steps taken are %v", taken)
	}
}

// noOverlap checks in a heartbeat file that no worker of an attempt lived when one of a later
// attempt did.
func (w *world) noOverlap(path string) {
	w.t.Helper()
	b, err := os.ReadFile(path)
	w.must(err)
	latest := 0
	for line := range strings.Lines(string(b)) {
		text, _, _ := strings.Cut(line, " ")
		attempt, err := strconv.Atoi(text)
		if err != nil || attempt < latest {
			w.t.Errorf("attempt %s beats after attempt %d: %s", text, latest, line)
		}
		latest = max(latest, attempt)
	}
}

// A trial takes the workers that an elastic job has beyond its minimum. The node's daemon is killed
// while the workers save, and the job goes on with the remaining ones all the same.
func TestATrialTakesWorkersOfAnElasticJob(t *testing.T) {
	w := start(t, lab.Options{Controllers: 1, Nodes: 1, GPUs: 4, Controld: []string{"--config", under(t, "rota")}})
	w.policy("rota")
	dir := w.scratch("stretch")
	const steps = 200
	id := w.submit(stretches(dir, steps))
	w.until(id, "running with several workers", func(j api.Job) bool { return j.Code == "R" && j.Elastic.Workers >= 3 })
	before := strings.Count(w.lines(filepath.Join(dir, "heartbeat"), 8), "\n")
	w.lines(filepath.Join(dir, "heartbeat"), before+20)
	trial := w.submit(onGPUs("trial", 2, `class = "te"`, "while [ ! -e "+dir+"/open ]; do sleep 0.05; done"))
	w.until(id, "about to shrink", func(j api.Job) bool {
		return j.Elastic.Workers < 3 || slices.Contains(j.Flags, "stopping")
	})
	w.Cluster.Nodes[0].Kill()
	w.must(w.Cluster.Nodes[0].Start())
	tj := w.until(trial, "running", func(j api.Job) bool { return j.Code == "R" })
	j := w.until(id, "running beside the trial", func(j api.Job) bool { return j.Code == "R" && j.Elastic.Workers < 3 })
	if last := j.Attempts[len(j.Attempts)-2]; last.Cause != "shrink" || last.ExitCode != 85 ||
		j.Preemptions != (api.Preemptions{}) || tj.Attempt != 1 {
		t.Errorf("the attempt before: %+v, preempted %+v", last, j.Preemptions)
	}
	w.must(os.WriteFile(filepath.Join(dir, "open"), nil, 0o644))
	w.ends(trial)
	j = w.ends(id)
	if j.Code != "CD" || j.Attempt != 1+j.Resizes {
		t.Errorf("it ended as %s in attempt %d after %d resizes: %s", j.Code, j.Attempt, j.Resizes, j.Reason.Text)
	}
	w.everyStepOnce(id, j.Attempt, steps)
	w.noOverlap(filepath.Join(dir, "heartbeat"))
	if out, errs, code := w.rota("check"); code != 0 {
		t.Errorf("check: exit %d\n%s%s", code, out, errs)
	}
}
