package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// devWorld is a directory in which a test starts `rota dev`.
type devWorld struct {
	t    *testing.T
	ctx  context.Context
	from string // where it is started, shared with the jobs
	dir  string // its --dir
}

func newDevWorld(t *testing.T) *devWorld {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: rota dev makes containers and cgroups")
	}
	from, err := os.MkdirTemp("", "rota-e2e-dev-") // short: the path of a socket has a limit
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(from) })
	if err := os.Chmod(from, 0o755); err != nil { // jobs run as nobody
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	return &devWorld{t: t, ctx: ctx, from: from, dir: filepath.Join(from, "cluster")}
}

// rota is a command line of the rota command, without a cluster in its environment.
func (w *devWorld) rota(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(w.ctx, filepath.Join(bin, "rota"), args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // so that a late dev cleans up all the same
	cmd.WaitDelay = 30 * time.Second
	cmd.Dir = w.from
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "ROTA_") || strings.HasPrefix(v, "SUDO_")
	})
	cmd.Env = append(cmd.Env, "NO_COLOR=1")
	return cmd
}

// dev runs `rota dev` to its end and checks that it left nothing.
func (w *devWorld) dev(args ...string) (stdout, stderr string, code int) {
	w.t.Helper()
	var out, errs bytes.Buffer
	cmd := w.rota(append([]string{"dev", "--dir", w.dir}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		w.t.Fatalf("rota dev: %v", err)
	}
	w.nothingLeft()
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// cgroups lists the cgroups of the nodes of this directory's cluster, in every hierarchy.
func (w *devWorld) cgroups() []string {
	sum := fnv.New32a()
	sum.Write([]byte(w.dir))
	name := fmt.Sprintf("/rota/dev-%08x*", sum.Sum32())
	first, _ := filepath.Glob("/sys/fs/cgroup/*" + name)
	second, _ := filepath.Glob("/sys/fs/cgroup" + name)
	return append(first, second...)
}

// processes lists those that were started for this directory, by their arguments or their
// environment.
func (w *devWorld) processes() []string {
	var found []string
	for _, kind := range []string{"cmdline", "environ"} {
		paths, _ := filepath.Glob("/proc/[0-9]*/" + kind)
		for _, path := range paths {
			if b, err := os.ReadFile(path); err == nil && bytes.Contains(b, []byte(w.dir)) {
				found = append(found, fmt.Sprintf("%s: %q", path, b))
			}
		}
	}
	return found
}

func (w *devWorld) mounts() []string {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		w.t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, w.dir) {
			found = append(found, line)
		}
	}
	return found
}

func (w *devWorld) nothingLeft() {
	w.t.Helper()
	for what, left := range map[string][]string{"processes": w.processes(), "cgroups": w.cgroups(), "mounts": w.mounts()} {
		if len(left) > 0 {
			w.t.Errorf("%s are left: %s", what, left)
		}
	}
	if _, err := os.Stat(w.dir); !errors.Is(err, os.ErrNotExist) {
		w.t.Errorf("the directory is left: %v", err)
	}
}

// A command gets a cluster for as long as it runs, and its code is that of `rota dev`.
func TestDevRunsACommand(t *testing.T) {
	w := newDevWorld(t)
	out, errs, code := w.dev("--sim-gpus", "2", "--controllers", "3", "--nodes", "2", "--", "rota", "nodes")
	if code != 0 {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	if !slices.ContainsFunc(strings.Split(errs, "\n"), func(line string) bool {
		return strings.HasPrefix(line, "ready unix:"+w.dir+"/c1.sock,")
	}) {
		t.Errorf("no line says that the cluster is ready:\n%s", errs)
	}
	for _, node := range []string{"n1", "n2"} {
		if !slices.ContainsFunc(strings.Split(out, "\n"), func(line string) bool {
			return strings.HasPrefix(line, node+" ") && strings.Contains(line, "0/2 Simulated")
		}) {
			t.Errorf("%s with two GPUs is not in the table:\n%s", node, out)
		}
	}
	for _, c := range []struct {
		command []string
		code    int
	}{
		{[]string{"sh", "-c", "exit 7"}, 7},
		{[]string{"sh", "-c", "kill -9 $$"}, 137},
		{[]string{"rota", "run", "--mem", "64MiB", "--", "sh", "-c", "exit 9"}, 9},
		{[]string{"no-such-command"}, 127},
	} {
		if out, errs, code := w.dev(append([]string{"--"}, c.command...)...); code != c.code {
			t.Errorf("%q: exit %d, want %d\n%s%s", c.command, code, c.code, out, errs)
		}
	}
}

// Without a command it runs until a signal, holds its directory alone, and takes running jobs
// along.
func TestDevStopsWithAJobRunning(t *testing.T) {
	w := newDevWorld(t)
	var errs bytes.Buffer
	cmd := w.rota("dev", "--dir", w.dir)
	cmd.Stderr = &errs
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGTERM) }) // it has ended already unless the test failed
	out := bufio.NewReader(pipe)
	line, err := out.ReadString('\n')
	addr, ready := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "ready ")
	if err != nil || !ready {
		t.Fatalf("the first line is %q: %v", line, err)
	}
	w.runAJob(addr)
	if len(w.cgroups()) == 0 || len(w.processes()) == 0 {
		t.Fatalf("looked in the wrong place: cgroups %s, processes %s", w.cgroups(), w.processes())
	}
	w.secondIsRefused()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(out)
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v\n%s%s", err, rest, &errs)
	}
	w.nothingLeft()
}

// runAJob submits a job that ignores being asked to stop, and waits until it runs.
func (w *devWorld) runAJob(addr string) {
	w.t.Helper()
	file := filepath.Join(w.from, "job.hcl")
	if err := os.WriteFile(file, []byte(simple("stubborn", `trap "" TERM; echo up; while :; do sleep 1; done`, "")),
		0o644); err != nil {
		w.t.Fatal(err)
	}
	if out, err := w.rota("submit", "--addr", addr, file).CombinedOutput(); err != nil {
		w.t.Fatalf("submit: %v\n%s", err, out)
	}
	for {
		log := w.rota("logs", "1")
		log.Env = append(log.Env, "ROTA_ADDR="+addr)
		if out, _ := log.CombinedOutput(); strings.Contains(string(out), "up") {
			return
		}
		select {
		case <-w.ctx.Done():
			w.t.Fatal("the job did not start")
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (w *devWorld) secondIsRefused() {
	w.t.Helper()
	out, err := w.rota("dev", "--dir", w.dir, "--", "true").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "already running in "+w.dir) ||
		!strings.Contains(string(out), "--dir") {
		w.t.Errorf("a second cluster in the same directory: %v\n%s", err, out)
	}
}
