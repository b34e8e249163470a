package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/controld/api"
)

// Three controllers and three nodes, each on a machine of its own; a gang trains on two nodes while
// the leader is killed. The job must neither notice nor run twice, and its loss must be that of a
// run that was left alone.
func TestGangRunsWhileTheLeaderIsKilled(t *testing.T) {
	w := start(t, lab.Options{Controllers: 3, Nodes: 3, GPUs: 1, Namespaces: true})
	dir := w.scratch("gang")
	example, err := filepath.Abs("../../../examples/gang.hcl")
	w.must(err)
	id := strings.TrimSpace(w.ok("submit", "--parsable", "-var", "dir="+dir, "-var", "steps=120", example))
	w.lines(filepath.Join(dir, "heartbeat"), 6)

	leader, err := w.Leader(w.ctx)
	w.must(err)
	leader.Kill()
	second := w.submit(`job "after" { 
  task "t" { 
    command = ["true"]
    resources {
      memory = "64MiB"
    }
  } 
}`)
	w.must(leader.Start())

	j := w.ends(id)
	if j.Code != "CD" || j.Attempt != 1 || len(j.Nodes) != 2 || j.Nodes[0] == j.Nodes[1] {
		t.Errorf("the gang ended as %s after %d attempts on %v", j.Code, j.Attempt, j.Nodes)
	}
	if got := w.ends(second); got.Code != "CD" {
		t.Errorf("the job submitted after the kill ended as %s", got.Code)
	}
	w.oneAttempt(filepath.Join(dir, "heartbeat"))
	if got, want := lastLoss(t, w.ok("logs", id)), lastLoss(t, w.alone(120)); got != want {
		t.Errorf("the gang's last loss is %s, a run left alone has %s", got, want)
	}
	w.wants(w.ok("hist", "-j", id), "COMPLETED")
	if out, errs, code := w.rota("check"); code != 0 {
		t.Errorf("check: exit %d\n%s%s", code, out, errs)
	}
}

// scratch makes a directory that jobs may write to.
func (w *world) scratch(name string) string {
	w.t.Helper()
	dir := filepath.Join(w.shared, name)
	w.must(os.Mkdir(dir, 0o755))
	w.must(os.Chmod(dir, 0o1777))
	return dir
}

// oneAttempt checks in a heartbeat file that both workers of one attempt ran, and no other.
func (w *world) oneAttempt(path string) {
	w.t.Helper()
	b, err := os.ReadFile(path)
	w.must(err)
	seen := map[string]int{}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		seen[f[0]+"/"+f[1]]++
	}
	if len(seen) != 2 || seen["1/0"] == 0 || seen["1/1"] == 0 {
		w.t.Errorf("beats by attempt/worker: %v", seen)
	}
}

// alone runs the trainer by itself and returns its output.
func (w *world) alone(steps int) string {
	w.t.Helper()
	cmd := exec.CommandContext(w.ctx, filepath.Join(bin, "trainer"), "-steps", fmt.Sprint(steps))
	cmd.Env = []string{}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		w.t.Fatalf("trainer: %v\n%s", err, out.String())
	}
	return out.String()
}

var stepLine = regexp.MustCompile(`step (\d+) of \d+  loss (\S+)`)

func lastLoss(t *testing.T, out string) string {
	t.Helper()
	all := stepLine.FindAllString(out, -1)
	if len(all) == 0 {
		t.Fatalf("no loss in:\n%s", out)
	}
	return all[len(all)-1]
}

// A node daemon may be killed and started again. The job goes on, and its exit code is not lost,
// even when it ends in between.
func TestNodeDaemonMayDie(t *testing.T) {
	w := start(t, lab.Options{Controllers: 1, Nodes: 1})
	dir := w.scratch("d")
	job := func(body string) string {
		return w.submit(fmt.Sprintf(`job "j" {
  task "t" {
    script = "%s"
    resources {
      memory = "64MiB"
    }
  }
}`, body))
	}
	ending := job("echo up > " + dir + "/a; while [ ! -e " + dir + "/go ]; do sleep 0.05; done; exit 42")
	staying := job("echo up > " + dir + "/b; while [ ! -e " + dir + "/stop ]; do sleep 0.05; done; exit 7")
	w.lines(filepath.Join(dir, "a"), 1)
	w.lines(filepath.Join(dir, "b"), 1)
	before := w.Containers()
	w.Cluster.Nodes[0].Kill()
	w.must(os.WriteFile(filepath.Join(dir, "go"), nil, 0o644))
	if got := w.Containers(); len(got) != len(before) {
		t.Errorf("containers were %v, with the daemon dead %v", before, got)
	}
	w.must(w.Cluster.Nodes[0].Start())
	if j := w.ends(ending); j.Code != "F" || j.ExitCode != 42 || j.Attempt != 1 {
		t.Errorf("the job that ended meanwhile: %s, exit %d, attempt %d", j.Code, j.ExitCode, j.Attempt)
	}
	w.must(os.WriteFile(filepath.Join(dir, "stop"), nil, 0o644))
	if j := w.ends(staying); j.Code != "F" || j.ExitCode != 7 || j.Attempt != 1 {
		t.Errorf("the job that went on: %+v", j)
	}
}

// Every example is submitted and completes.
func TestExamples(t *testing.T) {
	w := start(t, lab.Options{Controllers: 1, Nodes: 2, GPUs: 4})
	files, err := filepath.Glob("../../../examples/*.hcl")
	w.must(err)
	if len(files) < 5 {
		t.Fatalf("only %v", files)
	}
	ids := map[string]string{}
	for _, f := range files {
		path, err := filepath.Abs(f)
		w.must(err)
		args := []string{"submit", "--parsable"}
		if text, err := os.ReadFile(path); err == nil && bytes.Contains(text, []byte(`variable "dir"`)) {
			args = append(args, "-var", "dir="+w.scratch(filepath.Base(f)))
		} else if bytes.Contains(text, []byte(`variable "per_node"`)) {
			args = append(args, "-var", "per_node=1")
		}
		ids[f] = strings.TrimSpace(w.ok(append(args, path)...))
	}
	for f, id := range ids {
		if j := w.ends(id); j.Code != "CD" {
			t.Errorf("%s ended as %s, exit %d: %s\n%s", f, j.Code, j.ExitCode, j.Reason.Text, w.ok("logs", id))
		}
	}
	w.wants(w.ok("logs", ids["../../../examples/ranks.hcl"]), "rank 0 of 2 sees GPU 0", "rank 1 of 2 sees GPU 1")
	w.wants(w.ok("logs", ids["../../../examples/script.hcl"]), "as nobody", "GPUs: none")
}

// Workers that may share a node take as few nodes as have room for them. Each is a worker of its own there,
// with a number and GPUs of its own, and they find each other.
func TestGangsTakeFewNodes(t *testing.T) {
	w := start(t, lab.Options{Controllers: 1, Nodes: 2, GPUs: 2})
	for workers, want := range map[int]string{2: "nodes: 1", 3: "nodes: 2"} {
		dir := w.scratch(fmt.Sprintf("few%d", workers))
		id := w.submit(fmt.Sprintf(`job "few" {
  group "workers" {
    count = %[1]d
    task "train" {
      script = <<-EOT
        echo "worker $ROTA_WORKER of $ROTA_WORKERS, rank $RANK, nodes: $SLURM_NNODES, sees $CUDA_VISIBLE_DEVICES"
        echo "$ROTA_NODE $ROTA_GPU_UUIDS" >> %[2]s/gpus
        exec bin/trainer -steps 20 -dir %[2]s
      EOT
      resources {
        memory = "64MiB"
        gpus   = 1
      }
    }
  }
}`, workers, dir))
		j := w.ends(id)
		out := w.ok("logs", id)
		if j.Code != "CD" {
			t.Fatalf("%d workers ended as %s: %s\n%s", workers, j.Code, j.Reason.Text, out)
		}
		for n := range workers {
			w.wants(out, fmt.Sprintf("worker %d of %d, rank %d, %s, sees 0\n", n, workers, n, want))
		}
		gpus, err := os.ReadFile(filepath.Join(dir, "gpus"))
		w.must(err)
		held := strings.Split(strings.TrimSpace(string(gpus)), "\n")
		slices.Sort(held)
		if n := len(slices.Compact(held)); n != workers {
			t.Errorf("%d workers have %d GPUs: %s", workers, n, gpus)
		}
		if got, want := lastLoss(t, out), lastLoss(t, w.alone(20)); got != want {
			t.Errorf("the last loss of %d workers is %s, a run left alone has %s", workers, got, want)
		}
	}
}

// A job that is asked to stop saves, and goes on from there in its next attempt.
func TestRequeueResumesFromTheCheckpoint(t *testing.T) {
	w := start(t, lab.Options{Controllers: 1, Nodes: 2, GPUs: 1})
	dir := w.scratch("r")
	example, err := filepath.Abs("../../../examples/gang.hcl")
	w.must(err)
	id := strings.TrimSpace(w.ok("submit", "--parsable", "-var", "dir="+dir, "-var", "steps=60", example))
	w.lines(filepath.Join(dir, "heartbeat"), 8)
	w.ok("requeue", id)
	w.until(id, "in its second attempt", func(j api.Job) bool { return j.Attempt == 2 })
	j := w.ends(id)
	if j.Code != "CD" || j.Attempts[0].ExitCode != 85 || j.Attempts[0].Cause != "requeue" {
		t.Errorf("ended as %s; first attempt: %+v", j.Code, j.Attempts[0])
	}
	out := w.ok("logs", id)
	w.wants(out, "resumed at step")
	if got, want := lastLoss(t, out), lastLoss(t, w.alone(60)); got != want {
		t.Errorf("last loss is %s, a run left alone has %s", got, want)
	}
}
