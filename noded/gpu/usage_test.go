package gpu_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rota-hpc/rota/noded/gpu"
	"github.com/rota-hpc/rota/noded/gpu/gputest"
)

const envDeclare = "ROTA_TEST_DECLARE"

// declaration says what this process uses of a GPU, as a program does: see docs/gpu.md.
type declaration struct {
	uuid string
	file *os.File
}

// declare says that this process uses a GPU, until the declaration is closed or the process ends.
func declare(dir, uuid string, mib, percent int64) (*declaration, error) {
	f, err := os.CreateTemp(dir, "used-")
	if err != nil {
		return nil, err
	}
	d := &declaration{uuid: uuid, file: f}
	whole := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart}
	return d, errors.Join(d.set(mib, percent), syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &whole))
}

// set replaces what is used.
func (d *declaration) set(mib, percent int64) error {
	_, err := fmt.Fprintf(io.NewOffsetWriter(d.file, 0), "%s %012d %03d\n", d.uuid, mib, percent)
	return err
}

// close takes the declaration back.
func (d *declaration) close() error { return errors.Join(os.Remove(d.file.Name()), d.file.Close()) }

// useGPUs declares what standard input says, "UUID MIB PERCENT" a line, until that ends. It answers
// each line.
func useGPUs(dir string) error {
	held := map[string]*declaration{}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var uuid string
		var mib, percent int64
		if _, err := fmt.Sscan(in.Text(), &uuid, &mib, &percent); err != nil {
			return err
		}
		d, err := held[uuid], error(nil)
		switch {
		case d == nil:
			held[uuid], err = declare(dir, uuid, mib, percent)
		case mib == 0:
			err = d.close()
		default:
			err = d.set(mib, percent)
		}
		if err != nil {
			return err
		}
		fmt.Println("done")
	}
	return nil
}

// program is a process that uses GPUs.
type program struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func startProgram(t *testing.T, dir string) *program {
	t.Helper()
	p := &program{t: t, cmd: exec.CommandContext(t.Context(), os.Args[0])}
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), envDeclare+"="+dir), os.Stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.in, p.out = in, bufio.NewScanner(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

// use has the program use so much of a GPU; 0 MiB: nothing any more.
func (p *program) use(uuid string, mib, percent int) {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.in, uuid, mib, percent); err != nil || !p.out.Scan() {
		p.t.Fatalf("the program has ended: %v", err)
	}
}

func (p *program) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.cmd.Wait()
}

func (p *program) pid() int { return p.cmd.Process.Pid }

// TestUsage is the contract of sources, for simulated GPUs and for a driver, old or not. Programs
// declare what they use.
func TestUsage(t *testing.T) {
	const mib = int64(1) << 20
	for name, c := range map[string]struct {
		source        func(t *testing.T, dir string) gpu.Source
		a, b          string
		noUtilisation bool
	}{
		"simulated": {func(_ *testing.T, dir string) gpu.Source { return gpu.Sim{Node: "n", N: 2, Declared: dir} },
			"GPU-SIM-n-0", "GPU-SIM-n-1", false},
		"driver": {func(t *testing.T, dir string) gpu.Source {
			return newBench(t, gputest.Build(t, false), two+"declared "+dir+"\n")
		}, "GPU-a", "GPU-b", false},
		"old driver": {func(t *testing.T, dir string) gpu.Source {
			return newBench(t, gputest.Build(t, true), two+"declared "+dir+"\n")
		}, "GPU-a", "GPU-b", true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := c.source(t, dir)
			process := func(p *program, memory, utilisation int64) gpu.Process {
				if c.noUtilisation {
					utilisation = gpu.Unknown
				}
				return gpu.Process{PID: p.pid(), Memory: memory * mib, Utilisation: utilisation}
			}
			check := func(uuid string, utilisation int64, want ...gpu.Process) {
				t.Helper()
				u := gpu.Use{Utilisation: utilisation, Processes: want}
				if c.noUtilisation {
					u.Utilisation = gpu.Unknown
				}
				for _, p := range want {
					u.Memory += p.Memory
				}
				got, err := s.Usage(t.Context(), uuid)
				if err != nil || len(got) != 1 || !same(got[0], u) {
					t.Fatalf("GPU %s: got %+v, %v, want %+v", uuid, got, err, u)
				}
			}
			check(c.a, 0)
			one, other := startProgram(t, dir), startProgram(t, dir)
			if one.pid() > other.pid() { // processes come in the order of their ids
				one, other = other, one
			}
			one.use(c.a, 512, 30)
			other.use(c.a, 100, 80)
			other.use(c.b, 7, 0)
			check(c.a, 1000, process(one, 512, 300), process(other, 100, 800))
			check(c.b, 0, process(other, 7, 0))
			one.use(c.a, 3, 1)
			check(c.a, 810, process(one, 3, 10), process(other, 100, 800))
			other.use(c.a, 0, 0)
			check(c.a, 10, process(one, 3, 10))
			one.kill()
			check(c.a, 0)
			pids, err := s.Processes(t.Context(), c.b)
			if err != nil || !reflect.DeepEqual(pids, []int{other.pid()}) {
				t.Fatalf("processes %v, %v", pids, err)
			}
			got, err := s.Usage(t.Context(), c.b, "GPU-none", c.a)
			if err != nil || len(got) != 3 || len(got[0].Processes) != 1 || got[1].Problem == "" || got[2].Problem != "" {
				t.Fatalf("one of three is unknown: %+v, %v", got, err)
			}
			if got, err := s.Usage(t.Context()); err != nil || len(got) != 0 {
				t.Fatalf("of no GPU: %+v, %v", got, err)
			}
		})
	}
}

// same compares where no processes may be nil or empty.
func same(a, b gpu.Use) bool {
	if len(a.Processes) == 0 && len(b.Processes) == 0 {
		a.Processes, b.Processes = nil, nil
	}
	return reflect.DeepEqual(a, b)
}

// TestUsageThatTheDriverDoesNotTell notices a value for "not available" that is taken for exabytes,
// and an old sample that is taken for the last one.
func TestUsageThatTheDriverDoesNotTell(t *testing.T) {
	b := newBench(t, gputest.Build(t, false), two+"proc 0 4711 -1 0\nproc 0 4712 5 40\nproc 0 4713\n")
	got, err := b.Usage(t.Context(), "GPU-a")
	want := []gpu.Process{{PID: 4711, Memory: gpu.Unknown}, {PID: 4712, Memory: 5 << 20, Utilisation: 400}, {PID: 4713}}
	if err != nil || !reflect.DeepEqual(got[0].Processes, want) || got[0].Memory != 5<<20 {
		t.Fatalf("got %+v, %v", got, err)
	}
	b.tell(t, "gpu GPU-a M 0 1 0 1\ngpu GPU-b M 1 1 0 0\n")
	got, err = b.Usage(t.Context(), "GPU-a", "GPU-b")
	if err != nil || !strings.Contains(got[0].Problem, "GPU is lost") || got[1].Problem != "" {
		t.Fatalf("a lost GPU: %+v, %v", got, err)
	}
}

func TestUsageWithoutDriver(t *testing.T) {
	b := newBench(t, filepath.Join(t.TempDir(), "libnvidia-ml.so.1"), "")
	if _, err := b.Usage(t.Context(), "GPU-a"); err == nil || !strings.Contains(err.Error(), "libnvidia-ml.so.1") {
		t.Fatalf("got %v", err)
	}
}

// TestUsageOfAHelperOfAnotherRelease notices an answer without usage that is taken for idle GPUs.
func TestUsageOfAHelperOfAnotherRelease(t *testing.T) {
	for answer, says := range map[string]string{
		`{"error":"unknown call \"usage\""}`: "unknown call", `{}`: "of 0 GPUs", `{"usage":[]}`: "of 0 GPUs",
	} {
		h := gpu.NewHelper(gpu.HelperConfig{Command: []string{"sh", "-c", "read line; echo '" + answer + "'; cat >&2"},
			Timeout: 10 * time.Second})
		if _, err := h.Usage(t.Context(), "GPU-a"); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v", answer, err)
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
}

// answers is a source that an old daemon asks.
type answers struct{ gpu.Source }

func (answers) Processes(context.Context, string) ([]int, error) { return []int{4711}, nil }

// TestHelperAnswersOldDaemons notices a change of what daemons of earlier releases ask and
// understand: the helper's program is replaced while they run.
func TestHelperAnswersOldDaemons(t *testing.T) {
	var out strings.Builder
	if err := gpu.Serve(answers{}, strings.NewReader(`{"call":"processes","uuid":"GPU-a"}`), &out); err != nil {
		t.Fatal(err)
	}
	if out.String() != `{"processes":[4711]}`+"\n" {
		t.Fatalf("got %s", out.String())
	}
}

// TestDeclarationsOfUsers notices files that keep the node from reading others, or that count
// although no process stands behind them.
func TestDeclarationsOfUsers(t *testing.T) {
	dir := t.TempDir()
	s := gpu.Sim{Node: "n", N: 1, Declared: dir}
	uuid := "GPU-SIM-n-0"
	p := startProgram(t, dir)
	p.use(uuid, 7, 0)
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("unlocked", uuid+" 5 5\n")
	old := write("old", uuid+" 5 5\n")
	if err := os.Chtimes(old, time.Time{}, time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	for name, make := range map[string]func(string) error{
		"folder": func(p string) error { return os.Mkdir(p, 0o700) },
		"link":   func(p string) error { return os.Symlink("/etc/passwd", p) },
		"fifo":   func(p string) error { return exec.Command("mkfifo", p).Run() },
	} {
		if err := make(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{"", "x", strings.Repeat("x", 1<<20), uuid + " -5 5", uuid + " 5 500", uuid + " 5"} {
		q := startProgram(t, dir)
		q.use("GPU-other", 1, 1)
		found, err := filepath.Glob(filepath.Join(dir, "used-*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found { // the program still holds its lock
			if b, err := os.ReadFile(f); err == nil && strings.Contains(string(b), "GPU-other") {
				if err := os.WriteFile(f, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	u, err := s.Usage(t.Context(), uuid)
	if err != nil || len(u[0].Processes) != 1 || u[0].Memory != 7<<20 {
		t.Fatalf("got %+v, %v", u, err)
	}
	if _, err := os.Lstat(old); !os.IsNotExist(err) {
		t.Errorf("the file of a process that ended long ago is still there: %v", err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Usage(t.Context(), uuid); err == nil {
		t.Error("a directory that is gone is no error")
	}
}

// BenchmarkUsage asks for eight GPUs with two processes each: through the helper and the library that
// stands in for NVML, and of simulated GPUs. A real driver takes its own time.
func BenchmarkUsage(b *testing.B) {
	dir := b.TempDir()
	world, sim, uuids := "", []string{}, []string{}
	for n := range 8 {
		world += fmt.Sprintf("gpu GPU-%d M %d 1000 0 0\nproc %d 4711 5 10\nproc %d 4712 5 10\n", n, n, n, n)
		uuids, sim = append(uuids, fmt.Sprintf("GPU-%d", n)), append(sim, fmt.Sprintf("GPU-SIM-n-%d", n))
	}
	path := filepath.Join(dir, "world")
	if err := os.WriteFile(path, []byte(world), 0o600); err != nil {
		b.Fatal(err)
	}
	b.Setenv(envHelper, gputest.Build(b, false))
	b.Setenv(gputest.EnvWorld, path)
	h := gpu.NewHelper(gpu.HelperConfig{Command: []string{os.Args[0]}})
	defer h.Close()
	for name, c := range map[string]struct {
		source gpu.Source
		uuids  []string
	}{"helper": {h, uuids}, "simulated": {gpu.Sim{Node: "n", N: 8, Declared: b.TempDir()}, sim}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := c.source.Usage(b.Context(), c.uuids...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
