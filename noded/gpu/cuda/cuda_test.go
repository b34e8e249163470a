package cuda_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/noded/gpu/cuda"
	"github.com/rota-hpc/rota/noded/gpu/cuda/cudatest"
)

const asHelper = "serve"

// TestMain is the helper process when it is started as one.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == asHelper {
		if err := cuda.Serve(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func newDriver() *cuda.Driver { return &cuda.Driver{Command: []string{"/proc/self/exe", asHelper}} }

// runner starts a process, and returns its id.
func runner(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // the test may have ended it
		_ = cmd.Wait()
	})
	return cmd.Process.Pid
}

// bench has two processes with CUDA state, and one without.
type bench struct {
	*cudatest.World
	*cuda.Driver
	t          *testing.T
	a, b, none int
}

func newBench(t *testing.T) *bench {
	t.Helper()
	w := &bench{World: cudatest.Install(t, false), Driver: newDriver(), t: t, a: runner(t), b: runner(t), none: runner(t)}
	w.Use(w.a, cudatest.Running)
	w.Use(w.b, cudatest.Running)
	return w
}

func (w *bench) pids() []int { return []int{w.none, w.a, w.b} }

// want checks the states of a and b, and which calls were made: A and B stand for them.
func (w *bench) want(a, b, calls string) {
	w.t.Helper()
	if gotA, gotB := w.State(w.a), w.State(w.b); gotA != a || gotB != b {
		w.t.Errorf("states %s and %s, not %s and %s", gotA, gotB, a, b)
	}
	got := strings.NewReplacer(fmt.Sprint(w.a), "A", fmt.Sprint(w.b), "B").Replace(w.Calls())
	if got != calls {
		w.t.Errorf("calls %q\nwant  %q", got, calls)
	}
}

// wantError checks an error, and whether it says that processes are stuck.
func (w *bench) wantError(err error, stuck bool, texts ...string) {
	w.t.Helper()
	if err == nil || errors.As(err, new(*cuda.StuckError)) != stuck {
		w.t.Errorf("got %v, stuck must be %v", err, stuck)
		return
	}
	for _, text := range texts {
		text = strings.NewReplacer("#A", fmt.Sprint(w.a), "#B", fmt.Sprint(w.b)).Replace(text)
		if !strings.Contains(err.Error(), text) {
			w.t.Errorf("%q lacks %q", err, text)
		}
	}
}

func (w *bench) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Error(err)
	}
}

// TestThereAndBack: all are locked before the first is moved, because they may work together. A
// repeated call does nothing.
func TestThereAndBack(t *testing.T) {
	w := newBench(t)
	for range 2 {
		w.ok(w.Suspend(t.Context(), w.pids()))
		w.want(cudatest.Checkpointed, cudatest.Checkpointed, "lock A, lock B, checkpoint A, checkpoint B")
		w.ok(w.Suspend(t.Context(), w.pids()))
		w.want(cudatest.Checkpointed, cudatest.Checkpointed, "")
		w.ok(w.Resume(t.Context(), w.pids()))
		w.want(cudatest.Running, cudatest.Running, "restore A, unlock A, restore B, unlock B")
		w.ok(w.Resume(t.Context(), w.pids()))
		w.want(cudatest.Running, cudatest.Running, "")
	}
}

// TestAllOrNothing: after any failure all processes run as before, also after that of a helper.
func TestAllOrNothing(t *testing.T) {
	w := newBench(t)
	for plan, c := range map[string]struct{ says, calls string }{
		"fail lock #B": {"lock process #B: CUDA_ERROR_NOT_READY, device not ready", "lock A, lock B, unlock A"},
		"fail checkpoint #B": {"checkpoint process #B: error 999 of CUDA",
			"lock A, lock B, checkpoint A, checkpoint B, restore A, unlock A, unlock B"},
		"die checkpoint #A": {"died while it was to checkpoint process #A",
			"lock A, lock B, checkpoint A, unlock A, unlock B"},
	} {
		w.Plan(strings.NewReplacer("#A", fmt.Sprint(w.a), "#B", fmt.Sprint(w.b)).Replace(plan))
		w.wantError(w.Suspend(t.Context(), w.pids()), false, c.says)
		w.want(cudatest.Running, cudatest.Running, c.calls)
	}
}

// TestADriverThatHangs: a call is given up, and undone by another helper.
func TestADriverThatHangs(t *testing.T) {
	w := newBench(t)
	w.Patience = 3 * time.Second // which what does not hang keeps, on a busy machine too
	w.Plan(fmt.Sprintf("hang checkpoint %d", w.b))
	err := w.Suspend(t.Context(), w.pids())
	w.wantError(err, false, "did not checkpoint process #B within 3s")
	if !errors.As(err, new(*cuda.HungError)) {
		t.Errorf("got %T", err)
	}
	w.want(cudatest.Running, cudatest.Running, "lock A, lock B, checkpoint A, checkpoint B, restore A, unlock A, unlock B")
	w.Plan("hang init 0")
	w.wantError(w.Suspend(t.Context(), w.pids()), false, "within 3s")
	w.want(cudatest.Running, cudatest.Running, "")
}

// TestStuck: what cannot be restored is told apart, and does not keep the others.
func TestStuck(t *testing.T) {
	w := newBench(t)
	w.Plan(fmt.Sprintf("fail checkpoint %d", w.b), fmt.Sprintf("fail restore %d", w.a))
	w.wantError(w.Suspend(t.Context(), w.pids()), true, "checkpoint process #B", "restore process #A")
	w.want(cudatest.Checkpointed, cudatest.Running,
		"lock A, lock B, checkpoint A, checkpoint B, restore A, unlock B")
	w.wantError(w.Resume(t.Context(), w.pids()), true, "restore process #A")
	w.Plan()
	w.ok(w.Resume(t.Context(), w.pids()))
	w.want(cudatest.Running, cudatest.Running, "restore A, restore A, unlock A")
	for _, state := range []string{"3", "4", "5"} { // a failure, and what a killed helper may leave
		w.Use(w.a, state)
		w.wantError(w.Suspend(t.Context(), w.pids()), false, "process #A has failed", "state "+state)
		w.wantError(w.Resume(t.Context(), w.pids()), true, "process #A has failed")
	}
	w.want("5", cudatest.Running, "")
}

// TestProcessesThatEnd: one that has ended is not missed, at any time.
func TestProcessesThatEnd(t *testing.T) {
	w := newBench(t)
	gone := exec.Command("true")
	w.ok(gone.Run())
	w.Use(gone.Process.Pid, cudatest.Running)
	w.ok(w.Suspend(t.Context(), append(w.pids(), gone.Process.Pid)))
	w.want(cudatest.Checkpointed, cudatest.Checkpointed, "lock A, lock B, checkpoint A, checkpoint B")
	zombie := exec.Command("true") // its parent does not wait for it
	w.ok(zombie.Start())
	defer func() { w.ok(zombie.Wait()) }()
	for stat := ""; !strings.Contains(stat, ") Z "); {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", zombie.Process.Pid))
		w.ok(err)
		stat = string(b)
	}
	w.Use(zombie.Process.Pid, cudatest.Checkpointed)
	w.Plan(fmt.Sprintf("fail restore %d", zombie.Process.Pid))
	w.ok(w.Resume(t.Context(), append(w.pids(), zombie.Process.Pid)))
	if w.State(w.a)+w.State(w.b) != cudatest.Running+cudatest.Running {
		t.Error("they do not run again")
	}
}

// TestNothingToMove: memory of a GPU that the driver does not move must not be taken for moved.
func TestNothingToMove(t *testing.T) {
	w := newBench(t)
	w.wantError(w.Suspend(t.Context(), []int{w.none}), false, "no CUDA state")
	w.wantError(w.Suspend(t.Context(), nil), false, "no CUDA state")
	w.ok(w.Resume(t.Context(), []int{w.none}))
}

// TestAbandoned: what is in progress ends with its context, and nothing is undone for processes
// that are being killed.
func TestAbandoned(t *testing.T) {
	w := newBench(t)
	w.Plan(fmt.Sprintf("hang checkpoint %d", w.b))
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	go func() {
		for w.State(w.a) != cudatest.Checkpointed {
			time.Sleep(time.Millisecond)
		}
		cancel(enough)
	}()
	if err := w.Suspend(ctx, w.pids()); !errors.Is(err, enough) {
		t.Errorf("got %v", err)
	}
	if err := w.Resume(ctx, w.pids()); !errors.Is(err, enough) || errors.As(err, new(*cuda.StuckError)) {
		t.Errorf("got %v", err)
	}
	if w.State(w.a) != cudatest.Checkpointed {
		t.Error("it was restored")
	}
}

func TestWithoutADriver(t *testing.T) {
	t.Setenv("LD_LIBRARY_PATH", t.TempDir())
	w := &bench{t: t, Driver: newDriver()}
	if hasDriver() {
		t.Skip("this machine has a driver")
	}
	w.wantError(w.Suspend(t.Context(), []int{os.Getpid()}), false, "libcuda.so.1", "cannot be loaded")
}

func hasDriver() bool {
	_, err := os.Stat("/dev/nvidiactl")
	return err == nil
}

func TestADriverThatIsTooOld(t *testing.T) {
	w := &bench{t: t, World: cudatest.Install(t, true), Driver: newDriver(), a: runner(t)}
	w.Use(w.a, cudatest.Running)
	w.wantError(w.Suspend(t.Context(), []int{w.a}), false, "libcuda.so.1 has no cuCheckpointProcess", "570 or later")
}

func TestADriverThatDoesNotStart(t *testing.T) {
	w := newBench(t)
	w.Plan("fail init 0")
	w.wantError(w.Suspend(t.Context(), w.pids()), false, "start CUDA: CUDA_ERROR_NO_DEVICE")
	w.Driver.Command = []string{"/nowhere"}
	w.wantError(w.Suspend(t.Context(), w.pids()), false, "/nowhere")
	w.Driver.Command = []string{"echo", "rubbish"}
	w.wantError(w.Suspend(t.Context(), w.pids()), false, "helper for the NVIDIA driver")
}

// TestServe: a helper refuses what it does not know.
func TestServe(t *testing.T) {
	cudatest.Install(t, false)
	for in, says := range map[string]string{`{"call":"dance","pid":1}`: `unknown call "dance"`,
		"rubbish": "read request"} {
		cmd := exec.Command("/proc/self/exe", asHelper)
		cmd.Stdin = strings.NewReader(in + "\n")
		out, err := cmd.CombinedOutput()
		if !strings.Contains(strings.ReplaceAll(string(out), `\"`, `"`), says) || (err != nil) != (in == "rubbish") {
			t.Errorf("%s: %s, %v", in, out, err)
		}
	}
}

// work is testdata/gpuwork.c, which uses a GPU.
type work struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
}

func buildWork(t *testing.T, mib string) *work {
	t.Helper()
	cc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no gcc: the program that uses a GPU cannot be built")
	}
	program := filepath.Join(t.TempDir(), "gpuwork")
	if out, err := exec.Command(cc, "-Wall", "-Wextra", "-Werror", "-o", program, "testdata/gpuwork.c", "-ldl").
		CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	w := &work{t: t, cmd: exec.Command(program, mib)}
	w.in, err = w.cmd.StdinPipe()
	fatal(t, err)
	out, err := w.cmd.StdoutPipe()
	fatal(t, err)
	w.lines = bufio.NewScanner(out)
	fatal(t, w.cmd.Start())
	t.Cleanup(func() {
		_ = w.cmd.Process.Kill() // it may have ended
		_ = w.cmd.Wait()
	})
	return w
}

func fatal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// line returns the next line that it prints.
func (w *work) line() string {
	w.t.Helper()
	if !w.lines.Scan() {
		w.t.Fatalf("it has ended: %v", w.lines.Err())
	}
	return w.lines.Text()
}

// does gives an order and checks the answer.
func (w *work) does(order, answer string) {
	w.t.Helper()
	w.begins(order)
	if got := w.line(); got != answer {
		w.t.Fatalf("%s: %q, not %q", order, got, answer)
	}
}

func (w *work) begins(order string) {
	w.t.Helper()
	_, err := fmt.Fprintln(w.in, order)
	fatal(w.t, err)
}

// usedMiB returns how much memory of a GPU is in use.
func usedMiB(t *testing.T, address string) int {
	t.Helper()
	out, err := exec.Command("nvidia-smi", "-i", address, "--query-gpu=memory.used",
		"--format=csv,noheader,nounits").Output()
	fatal(t, err)
	mib, err := strconv.Atoi(strings.TrimSpace(string(out)))
	fatal(t, err)
	return mib
}

// TestARealDriver moves the memory of a real program off a real GPU, and back. On a machine without
// one it checks that the program says so.
func TestARealDriver(t *testing.T) {
	const mib = 2048
	w := buildWork(t, strconv.Itoa(mib))
	if !hasDriver() {
		if first := w.line(); !strings.Contains(first, "libcuda.so.1") && !strings.Contains(first, "cuInit") {
			t.Errorf("without a driver it says %q", first)
		}
		t.Skip("needs a GPU with NVIDIA's driver 570 or later")
	}
	address, ok := strings.CutPrefix(w.line(), "ready ")
	if !ok {
		t.Fatal("it does not use the GPU")
	}
	w.does("step", "stepped 1")
	w.does("check", "right 1")
	d, pids := newDriver(), []int{w.cmd.Process.Pid, os.Getpid()}
	with := usedMiB(t, address)
	for n := 2; n <= 4; n++ {
		begun := time.Now()
		fatal(t, d.Suspend(t.Context(), pids))
		out := time.Since(begun)
		if without := usedMiB(t, address); without > with-mib {
			t.Errorf("the GPU has %d MiB in use, and had %d: less than %d came free", without, with, mib)
		}
		w.begins("step") // it waits in the driver
		begun = time.Now()
		fatal(t, d.Resume(t.Context(), pids))
		t.Logf("%d MiB moved to the host in %v, and back in %v", mib, out, time.Since(begun))
		if got, want := w.line(), fmt.Sprintf("stepped %d", n); got != want {
			t.Fatalf("%q, not %q", got, want)
		}
		w.does("check", fmt.Sprintf("right %d", n))
	}
	fatal(t, d.Suspend(t.Context(), pids))
	fatal(t, w.cmd.Process.Kill()) // a kill ends it where it is
	if err := w.cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("killed: %v", err)
	}
}
