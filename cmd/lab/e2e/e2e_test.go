// Package e2e runs Rota as its users do: the real programs, on real clusters, through the command
// line. It holds tests only, and is the one place that may know both daemons.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/controld/api"
)

// bin is where TestMain builds the programs.
var bin string

func TestMain(m *testing.M) {
	code, err := buildAndRun(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// envBin names the directory with the programs, if another test has built them.
const envBin = "ROTA_TEST_BIN"

func buildAndRun(m *testing.M) (int, error) {
	if bin = os.Getenv(envBin); bin != "" {
		return m.Run(), nil
	}
	dir, err := os.MkdirTemp("", "rota-e2e-bin-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		return 1, err
	}
	bin = dir
	for _, b := range []struct { // with the flags of make build, which has compiled the packages then
		cgo, tags string
		programs  []string
	}{
		{"0", "urfave_cli_no_docs", []string{"./cmd/rota", "./cmd/rota-controld", "./cmd/rota-init", "./examples/trainer"}},
		{"1", "seccomp", []string{"./cmd/rota-noded", "./cmd/rota-shim"}},
	} {
		cmd := exec.Command("go", append([]string{"build", "-trimpath", "-tags", b.tags, "-o", dir + "/"}, b.programs...)...)
		cmd.Dir, cmd.Env = "../../..", append(os.Environ(), "CGO_ENABLED="+b.cgo)
		if out, err := cmd.CombinedOutput(); err != nil {
			return 1, fmt.Errorf("build: %w\n%s", err, out)
		}
	}
	return m.Run(), nil
}

// world is a cluster and a directory that jobs and tests share.
type world struct {
	*lab.Cluster
	t      *testing.T
	ctx    context.Context
	shared string
	client *api.Client
	disks  []string // mounted by the test
}

// start runs a cluster for one test. It skips, by name, what this machine cannot do.
func start(t *testing.T, o lab.Options) *world {
	t.Helper()
	return startWithin(t, 4*time.Minute, o)
}

// long reports whether tests are to try every combination, as make race has them do. Else the whole
// package takes about ten minutes on two cores.
func long() bool { return os.Getenv("ROTA_TEST_LONG") != "" }

// besides are the tests that others may run beside.
var besides sync.Map

// beside has other tests run beside this one, with clusters of their own: most of the time a test waits.
func beside(t *testing.T) {
	if _, again := besides.LoadOrStore(t.Name(), true); !again && !strings.Contains(t.Name(), "/") {
		t.Parallel()
	}
}

// startWithin is start for a test that may take longer.
func startWithin(t *testing.T, limit time.Duration, o lab.Options) *world {
	t.Helper()
	beside(t)
	if os.Getuid() != 0 {
		t.Skip("needs root: jobs run in real containers")
	}
	if o.Namespaces {
		if out, err := exec.Command("ip", "netns", "list").CombinedOutput(); err != nil {
			t.Skipf("needs network namespaces: %v: %s", err, out)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	w := &world{t: t, ctx: ctx}
	dir, err := os.MkdirTemp("", "rota-e2e-") // short: the path of a socket has a limit
	w.must(err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	w.shared, err = lab.Share(bin, dir)
	w.must(err)
	o.Bin, o.Dir, o.Shared = bin, dir, []string{w.shared}
	o.Controld = append([]string{"--root-jobs-as", "nobody"}, o.Controld...)
	if o.Cores == 0 {
		o.Cores = 8
	}
	ready, stop := context.WithTimeout(ctx, 40*time.Second)
	defer stop()
	w.Cluster, err = lab.Start(ready, o)
	t.Cleanup(w.stop)
	if err != nil {
		t.Fatalf("start: %v\n%s", err, w.logs())
	}
	w.client, err = w.Client()
	w.must(err)
	return w
}

// configFile writes a configuration file for controllers, and returns its path.
func configFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cluster.hcl")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// stop ends the cluster and checks that nothing of it is left.
func (w *world) stop() {
	if w.t.Failed() {
		w.t.Log(w.logs())
	}
	if w.client != nil {
		w.client.Close()
	}
	if err := w.Stop(); err != nil {
		w.t.Errorf("stop: %v", err)
	}
	for _, dir := range w.disks {
		if err := unix.Unmount(dir, 0); err != nil {
			w.t.Errorf("unmount %s: %v", dir, err)
		}
	}
	for _, left := range w.Leftovers() {
		w.t.Errorf("after the stop there is a %s", left)
	}
}

func (w *world) logs() string {
	var b strings.Builder
	for _, d := range append(w.Cluster.Controllers, w.Cluster.Nodes...) {
		fmt.Fprintf(&b, "--- %s\n%s\n", d.Name, d.LogTail(3000))
	}
	return b.String()
}

// rota runs the command in the shared directory and returns its output and exit code.
func (w *world) rota(args ...string) (stdout, stderr string, code int) {
	w.t.Helper()
	var out, errs bytes.Buffer
	cmd := w.Rota(w.ctx, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = w.shared, &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatalf("rota %s: %v", strings.Join(args, " "), err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// ok runs the command, which must succeed, and returns its output.
func (w *world) ok(args ...string) string {
	w.t.Helper()
	out, errs, code := w.rota(args...)
	if code != 0 {
		w.t.Fatalf("rota %s: exit %d\n%s%s", strings.Join(args, " "), code, out, errs)
	}
	return out
}

// submit submits a file's text and returns the id as users see it.
func (w *world) submit(text string) string {
	w.t.Helper()
	f, err := os.CreateTemp(w.shared, "job-*.hcl")
	w.must(err)
	_, err = f.WriteString(text)
	w.must(errors.Join(err, f.Close()))
	return strings.TrimSpace(w.ok("submit", "--parsable", f.Name()))
}

// status is a job as the command prints it in JSON.
func (w *world) status(id string) api.Job {
	w.t.Helper()
	var j api.Job
	out := w.ok("status", id, "-o", "json")
	if err := json.Unmarshal([]byte(out), &j); err != nil {
		w.t.Fatalf("status %s: %v\n%s", id, err, out)
	}
	return j
}

// until waits for a condition on a job.
func (w *world) until(id, what string, cond func(api.Job) bool) api.Job {
	w.t.Helper()
	for {
		j := w.status(id)
		if cond(j) {
			return j
		}
		if j.Code.Final() { // and stays what it is
			w.t.Fatalf("job %s is not %s: it has ended as %s, %s: %s %s\n%+v", id, what, j.State, exitOf(j), j.Reason.Code,
				j.Reason.Text, j)
		}
		select {
		case <-w.ctx.Done():
			w.t.Fatalf("job %s is not %s in time: %+v", id, what, j)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func exitOf(j api.Job) string { return fmt.Sprintf("exit code %d, signal %d", j.ExitCode, j.Signal) }

// ends waits until a job has ended and returns it.
func (w *world) ends(id string) api.Job {
	w.t.Helper()
	return w.until(id, "finished", func(j api.Job) bool { return j.Code.Final() })
}

// lines waits until a file has n lines and returns it.
func (w *world) lines(path string, n int) string {
	w.t.Helper()
	for {
		b, _ := os.ReadFile(path)
		if bytes.Count(b, []byte("\n")) >= n {
			return string(b)
		}
		select {
		case <-w.ctx.Done():
			w.t.Fatalf("%s has %d lines, not %d", path, bytes.Count(b, []byte("\n")), n)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// wants fails unless text contains every part.
func (w *world) wants(text string, parts ...string) {
	w.t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			w.t.Errorf("%q is missing in:\n%s", p, text)
		}
	}
}
