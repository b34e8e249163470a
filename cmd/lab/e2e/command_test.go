package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
)

// simple is a job whose task runs a line of shell.
func simple(name, script, more string) string {
	return fmt.Sprintf(`job %q {
  %s
  task "t" {
    script = <<-EOT
      %s
    EOT
    kill_timeout = "2s"
    resources {
      memory = "64MiB"
    }
  }
}`, name, more, script)
}

// A user's commands of a day, on one cluster.
func TestEverydayCommands(t *testing.T) {
	w := start(t, lab.Options{Controllers: 1, Nodes: 1, GPUs: 2})

	t.Run("exit codes tell how a job ended", func(t *testing.T) {
		for _, c := range []struct {
			script, code string
			exit, signal int
		}{
			{"true", "CD", 0, 0},
			{"exit 3", "F", 3, 0},
			{"kill -9 $$", "F", 0, 9},
			{"no-such-command", "F", 127, 0},
		} {
			j := w.ends(w.submit(simple("codes", c.script, "")))
			if string(j.Code) != c.code || j.ExitCode != c.exit && c.signal == 0 || j.Signal != c.signal {
				t.Errorf("%s: %s, exit %d, signal %d", c.script, j.Code, j.ExitCode, j.Signal)
			}
		}
	})
	t.Run("time limit", func(t *testing.T) {
		j := w.ends(w.submit(simple("slow", "sleep 60", `time_limit = "1s"`)))
		if j.Code != "TO" || j.Attempts[0].Cause != "timeout" {
			t.Errorf("%s, cause %s", j.Code, j.Attempts[0].Cause)
		}
	})
	t.Run("out of memory", func(t *testing.T) {
		j := w.ends(w.submit(simple("greedy", "head -c 200M /dev/zero | tail", "")))
		if j.Code != "OOM" || j.ExitCode != 0 || j.Signal != model.SignalOOM {
			t.Errorf("%s, exit %d, signal %d: %s", j.Code, j.ExitCode, j.Signal, j.Reason.Text)
		}
	})
	t.Run("out of memory, and the script goes on", func(t *testing.T) {
		id := w.submit(simple("pipe", "set +o pipefail; head -c 200M /dev/zero | tail | wc -c; echo on", ""))
		if j := w.ends(id); j.Code != "OOM" || j.ExitCode != 0 || j.Signal != model.SignalOOM {
			t.Errorf("%s, exit %d, signal %d: %s", j.Code, j.ExitCode, j.Signal, j.Reason.Text)
		}
		killed := `the kernel killed .* for memory; the limit is 64MiB`
		w.says(w.ok("logs", id), `(?m)^on$`, `\[rota: `+killed+`\]`)
		w.says(w.ok("why", id), `OutOfMemory: it ran out of memory: `+killed)
		w.says(w.ok("eff", id), `killed +`+killed)
		w.says(w.ok("events", "-j", id, "-o", "json"), `"text": ?"`+killed)
		if _, _, code := w.rota("wait", id); code != 253 {
			t.Errorf("rota wait ends with %d", code)
		}
	})
	t.Run("run returns the command's output and code", func(t *testing.T) {
		out, errs, code := w.rota("run", "--mem", "64MiB", "--", "sh", "-c", "echo hello; exit 9")
		if code != 9 || !strings.Contains(out, "hello") {
			t.Errorf("exit %d\n%s%s", code, out, errs)
		}
	})
	t.Run("cancel gives the notice, then the signal", func(t *testing.T) {
		id := w.submit(simple("patient", `trap 'cat $ROTA_NOTICE_FILE; exit 5' TERM; echo up; while :; do sleep 0.1; done`,
			""))
		w.logged(id, "up")
		w.ok("cancel", id)
		if j := w.ends(id); j.Code != "CA" {
			t.Errorf("%s", j.Code)
		}
		w.wants(w.ok("logs", id), `"reason":"cancel"`)
	})
	t.Run("hold and release", func(t *testing.T) {
		id := w.submit(simple("held", "true", "hold = true"))
		w.wants(w.ok("queue"), "JobHeldUser")
		w.wants(w.ok("why", id), "JobHeldUser", "rota release")
		w.ok("release", id)
		if j := w.ends(id); j.Code != "CD" {
			t.Errorf("%s", j.Code)
		}
	})
	t.Run("wait returns the job's code", func(t *testing.T) {
		if _, _, code := w.rota("wait", w.submit(simple("w", "exit 4", ""))); code != 4 {
			t.Errorf("exit %d", code)
		}
	})
	t.Run("GPUs are held, shown and seen", func(t *testing.T) {
		id := w.submit(`job "gpu" {
  task "t" {
    command = ["sh", "-c", "echo sees=$CUDA_VISIBLE_DEVICES uuids=$ROTA_GPU_UUIDS; sleep 60"]
    kill_timeout = "1s"
    resources {
      memory = "64MiB"
      gpus   = 2
    }
  }
}`)
		w.logged(id, "sees=0,1 uuids=GPU-SIM-n1-0,GPU-SIM-n1-1")
		w.wants(w.ok("nodes"), "2/2")
		second := w.submit(`job "waits" {
  task "t" {
    command = ["true"]
    resources {
      memory = "64MiB"
      gpus   = 1
    }
  }
}`)
		w.wants(w.ok("queue"), "Resources")
		w.wants(w.ok("why", second), "GPU")
		w.ok("cancel", id)
		if j := w.ends(second); j.Code != "CD" {
			t.Errorf("%s", j.Code)
		}
	})
	t.Run("hist and check", func(t *testing.T) {
		w.wants(w.ok("hist"), "COMPLETED", "TIMEOUT", "OUT_OF_ME", "CANCELLED")
		w.ok("check")
	})
}

// logged waits until a job's log contains a text.
func (w *world) logged(id, text string) {
	w.t.Helper()
	w.until(id, "logging "+text, func(j api.Job) bool {
		out, _, _ := w.rota("logs", id)
		if j.Code.Final() && !strings.Contains(out, text) {
			w.t.Fatalf("job %s ended as %s without logging %q:\n%s", id, j.Code, text, out)
		}
		return strings.Contains(out, text)
	})
}

// Mistakes get one clear message and the right exit code, and leave nothing half done.
func TestMistakes(t *testing.T) {
	w := start(t, lab.Options{Controllers: 1, Nodes: 1, GPUs: 2})
	file := func(text string) string {
		path := filepath.Join(w.shared, "bad.hcl")
		w.must(os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	task := func(body string) string { return "job \"x\" {\n  task \"t\" {\n" + body + "\n  }\n}\n" }
	for name, c := range map[string]struct {
		args []string
		code int
		want []string
	}{
		"unknown attribute": {[]string{"submit", file(task("    comand = [\"true\"]"))}, 2,
			[]string{"bad.hcl:3", "comand", "command"}},
		"wrong type": {[]string{"submit", w.file(t, "type.hcl",
			task("    command = [\"true\"]\n    resources {\n      gpus = \"two\"\n    }"))}, 2, []string{"type.hcl:5", "gpus"}},
		"missing unit": {[]string{"submit", w.file(t, "unit.hcl",
			"job \"x\" {\n  time_limit = 30\n  task \"t\" {\n    command = [\"true\"]\n  }\n}\n")}, 2,
			[]string{"unit.hcl:2", "30m"}},
		"bad reference": {[]string{"submit", w.file(t, "ref.hcl", task("    command = [var.nope]"))}, 2,
			[]string{"ref.hcl:3", "nope"}},
		"not supported": {[]string{"submit", w.file(t, "topology.hcl",
			"job \"x\" {\n  group \"g\" {\n    topology {\n      require = \"rack\"\n    }\n"+
				"    task \"t\" {\n      command = [\"true\"]\n    }\n  }\n}\n")}, 2,
			[]string{"topology is not supported yet"}},
		"fits nowhere": {[]string{"submit", w.file(t, "big.hcl",
			task("    command = [\"true\"]\n    resources {\n      gpus = 16\n    }"))}, 2, []string{"16", "n1"}},
		"no such file":    {[]string{"submit", filepath.Join(w.shared, "none.hcl")}, 2, []string{"none.hcl"}},
		"unknown job":     {[]string{"status", "4711"}, 3, []string{"4711"}},
		"cancel unknown":  {[]string{"cancel", "4711"}, 3, []string{"4711"}},
		"unknown command": {[]string{"submitt"}, 2, []string{"submit"}},
		"unknown flag":    {[]string{"queue", "--mine"}, 2, []string{"mine"}},
	} {
		out, errs, code := w.rota(c.args...)
		if code != c.code {
			t.Errorf("%s: exit %d, want %d\n%s%s", name, code, c.code, out, errs)
		}
		for _, part := range c.want {
			if !strings.Contains(errs, part) {
				t.Errorf("%s: %q is missing in:\n%s", name, part, errs)
			}
		}
	}
	if out := w.ok("queue", "--no-header"); strings.TrimSpace(out) != "" {
		t.Errorf("something was queued all the same:\n%s", out)
	}
}

func (w *world) file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(w.shared, name)
	w.must(os.WriteFile(path, []byte(text), 0o644))
	return path
}

// Without a controller every command says so, and where it looked.
func TestNoController(t *testing.T) {
	w := start(t, lab.Options{Controllers: 1, Nodes: 0})
	w.Cluster.Controllers[0].Term()
	_, errs, code := w.rota("queue")
	if code != 5 || !strings.Contains(errs, "c1.sock") {
		t.Errorf("exit %d\n%s", code, errs)
	}
}

// A shim that is killed takes its container along, and the job does not hang. That is the system's
// fault: the job starts again, and none of its retries is used.
func TestShimKilled(t *testing.T) {
	w := start(t, lab.Options{Controllers: 1, Nodes: 1})
	id := w.submit(simple("orphan", "echo up; sleep 600", ""))
	w.logged(id, "up")
	shim := w.shimOf(id)
	if err := syscall.Kill(shim, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	j := w.until(id, "its second attempt runs", func(j api.Job) bool { return j.Code == model.Running && j.Attempt == 2 })
	if first := j.Attempts[0]; first.Cause != model.CauseNodeLost {
		t.Errorf("the first attempt ended by %s", first.Cause)
	}
	w.ok("cancel", id)
	w.ends(id)
	if left := w.Processes(); len(left) != 0 {
		t.Errorf("processes remain: %v", left)
	}
}

// shimOf finds the shim of the only container there is: the parent of its first process.
func (w *world) shimOf(id string) int {
	w.t.Helper()
	inside := w.Processes()
	for _, pid := range inside {
		if p := parent(pid); p > 1 && !slices.Contains(inside, p) {
			return p
		}
	}
	w.t.Fatalf("no shim of job %s: its processes are %v", id, inside)
	return 0
}

// parent is a process's parent, or 0 if it is gone.
func parent(pid int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	p, err := strconv.Atoi(fields[1])
	if err != nil {
		return 0
	}
	return p
}
