package gpu_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rota-hpc/rota/noded/gpu"
	"github.com/rota-hpc/rota/noded/gpu/gputest"
	"github.com/rota-hpc/rota/noded/gpu/nvml"
)

const envHelper = "ROTA_TEST_NVML_LIBRARY"

// TestMain is the helper process, or a process that uses GPUs, when it is started as one.
func TestMain(m *testing.M) {
	if dir := os.Getenv(envDeclare); dir != "" {
		if err := useGPUs(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if library := os.Getenv(envHelper); library != "" {
		if err := nvml.Serve(library, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// bench is a helper with a library that reports what a file says.
type bench struct {
	*gpu.Helper
	path string
}

func newBench(t *testing.T, library, world string) *bench {
	t.Helper()
	b := &bench{path: filepath.Join(t.TempDir(), "world")}
	b.tell(t, world)
	t.Setenv(envHelper, library)
	t.Setenv(gputest.EnvWorld, b.path)
	b.Helper = gpu.NewHelper(gpu.HelperConfig{Command: []string{os.Args[0]}, Timeout: 3 * time.Second})
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// tell replaces what the library reports, in one go.
func (b *bench) tell(t *testing.T, world string) {
	t.Helper()
	if err := os.WriteFile(b.path+".new", []byte(world), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(b.path+".new", b.path); err != nil {
		t.Fatal(err)
	}
}

const two = "gpu GPU-a NVIDIA_H200 0 1000 0 0\ngpu GPU-b NVIDIA_H200 3 1000 0 0\n"

func (b *bench) inventory(t *testing.T) gpu.Inventory {
	t.Helper()
	i, err := b.Inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func TestInventory(t *testing.T) {
	b := newBench(t, gputest.Build(t, false), two+"proc 1 4711\nproc 1 4712\npersistent 1\n")
	i := b.inventory(t)
	if len(i.Devices) != 2 || i.Driver != "570.1" {
		t.Fatalf("got %+v", i)
	}
	d := i.Devices[1]
	if d.UUID != "GPU-b" || d.Model != "NVIDIA H200" || d.Minor != 3 || d.Memory != 1000<<20 || !d.Healthy ||
		d.PCI != "00000000:11:00.0" || d.Persistence != "on" || i.Devices[0].Persistence != "off" {
		t.Fatalf("got %+v", d)
	}
	pids, err := b.Processes(t.Context(), "GPU-b")
	if err != nil || !reflect.DeepEqual(pids, []int{4711, 4712}) {
		t.Fatalf("got %v, %v", pids, err)
	}
	if pids, err := b.Processes(t.Context(), "GPU-a"); err != nil || len(pids) != 0 {
		t.Fatalf("got %v, %v", pids, err)
	}
	if _, err := b.Processes(t.Context(), "GPU-c"); err == nil {
		t.Fatal("an unknown GPU has processes")
	}
}

func TestUnhealthy(t *testing.T) {
	b := newBench(t, gputest.Build(t, false), "gpu GPU-a M 0 1 7 0\ngpu GPU-b M 1 1 0 1\ngpu GPU-c M 2 1 0 0\n"+
		"gpu GPU-d M 3 1 0 0\ngpu GPU-e M 4 1 0 0\nmig 4\ndeaf\nxid 2 13\nxid 3 79\n")
	var last gpu.Inventory
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		if last = b.inventory(t); !last.Devices[3].Healthy {
			break
		}
	}
	for n, want := range []string{"7 uncorrected memory errors", "GPU is lost", "", "XID 79", "MIG is enabled"} {
		d := last.Devices[n]
		if d.Healthy != (want == "") || !strings.Contains(d.Problem, want) {
			t.Errorf("GPU %d: got %v, %q; want %q", n, d.Healthy, d.Problem, want)
		}
	}
}

func TestOldDriver(t *testing.T) {
	b := newBench(t, gputest.Build(t, true), two+"proc 0 4711\n")
	i := b.inventory(t)
	if len(i.Devices) != 2 || !i.Devices[0].Healthy || i.Devices[0].PCI != "" {
		t.Fatalf("got %+v", i)
	}
	if pids, err := b.Processes(t.Context(), "GPU-a"); err != nil || len(pids) != 1 {
		t.Fatalf("got %v, %v", pids, err)
	}
}

func TestNoLibrary(t *testing.T) {
	b := newBench(t, filepath.Join(t.TempDir(), "libnvidia-ml.so.1"), "")
	if i := b.inventory(t); len(i.Devices) != 0 {
		t.Fatalf("got %+v", i)
	}
}

func TestHangEnds(t *testing.T) {
	b := newBench(t, gputest.Build(t, false), two)
	b.inventory(t)
	b.tell(t, "hang\n")
	var hung *gpu.HungError
	if _, err := b.Inventory(t.Context()); !errors.As(err, &hung) || hung.Call != "inventory" {
		t.Fatalf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Inventory(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	b.tell(t, two)
	if i := b.inventory(t); len(i.Devices) != 2 {
		t.Fatalf("after the hang: got %+v", i)
	}
}

// TestADriverThatHangsForGoodHoldsOneHelper shows that a helper that survives a kill is not started
// again and again.
func TestADriverThatHangsForGoodHoldsOneHelper(t *testing.T) {
	dir := t.TempDir()
	// The second process holds the output open, so that the helper does not seem to end, as if it
	// hung in the driver.
	script := "sleep 1000 & echo $! > $$ && mv $$ helper-$$; exec sleep 1000"
	h := gpu.NewHelper(gpu.HelperConfig{Command: []string{"sh", "-c", "cd " + dir + "; " + script},
		Timeout: time.Minute})
	helpers := func() []string {
		found, _ := filepath.Glob(filepath.Join(dir, "helper-*")) // the pattern is well formed
		return found
	}
	giveUp := func(started int) { // calls until there are so many helpers
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for len(helpers()) < started && t.Context().Err() == nil {
				time.Sleep(time.Millisecond)
			}
			cancel()
		}()
		if _, err := h.Inventory(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
	}
	free := func(helper string) {
		var pid int
		b, err := os.ReadFile(helper)
		if err == nil {
			_, err = fmt.Sscan(string(b), &pid)
		}
		if err = errors.Join(err, os.Remove(helper), syscall.Kill(pid, syscall.SIGKILL)); err != nil {
			t.Fatal(err)
		}
	}
	giveUp(1)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var hung *gpu.HungError
	if _, err := h.Inventory(ctx); !errors.As(err, &hung) || len(helpers()) != 1 {
		t.Errorf("got %v and %d helpers", err, len(helpers()))
	}
	free(helpers()[0])
	giveUp(1)
	free(helpers()[0])
	if err := h.Close(); err != nil {
		t.Error(err)
	}
}

func TestSim(t *testing.T) {
	i, err := gpu.Sim{Node: "n1", N: 2}.Inventory(t.Context())
	if err != nil || len(i.Devices) != 2 {
		t.Fatalf("got %+v, %v", i, err)
	}
	d := i.Devices[1]
	if d.UUID != "GPU-SIM-n1-1" || d.Model != "Simulated" || d.Memory != 80<<30 || d.Minor != -1 || !d.Healthy {
		t.Fatalf("got %+v", d)
	}
	u, err := gpu.Sim{Node: "n1", N: 2}.Usage(t.Context(), d.UUID)
	if err != nil || !reflect.DeepEqual(u, []gpu.Use{{}}) {
		t.Fatalf("got %+v, %v", u, err)
	}
}
