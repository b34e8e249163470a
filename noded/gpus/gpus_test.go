package gpus

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-hpc/rota/noded/gpu"
)

// TestANodeWithoutItsGPUsDoesNotStart notices a node that registers with fewer GPUs than it is
// configured to have, and one that a GPU lost since its boot keeps from coming back.
func TestANodeWithoutItsGPUsDoesNotStart(t *testing.T) {
	none := &Set{inventory: gpu.Inventory{Absent: "libnvidia-ml.so.1 is not installed"}}
	if err := none.Expect(0); err != nil {
		t.Errorf("no GPUs are expected: %v", err)
	}
	err := none.Expect(2)
	for _, want := range []string{"--gpus 2", "has 0", "libnvidia-ml.so.1 is not installed", "nvidia-smi"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("without NVML: %v, want %q", err, want)
		}
	}
	lost := &Set{inventory: gpu.Inventory{Devices: make([]gpu.Device, 2)}} // unhealthy
	if err := lost.Expect(2); err != nil {
		t.Errorf("a GPU that was lost since the boot: %v", err)
	}
	if err := lost.Expect(3); err == nil {
		t.Error("a GPU that is missing since the boot is not noticed")
	}
}

// TestGPUsSayWhichCoresAreNear notices the NUMA node of another GPU, and one of a GPU that is not
// there.
func TestGPUsSayWhichCoresAreNear(t *testing.T) {
	g := &Set{inventory: gpu.Inventory{Devices: []gpu.Device{{NUMA: 1}, {NUMA: 0}}}}
	for _, c := range []struct {
		indices []int
		want    int
	}{{nil, -1}, {[]int{0}, 1}, {[]int{1, 0}, 0}, {[]int{2}, -1}, {[]int{3, 0}, -1}} {
		if got := g.NUMANode(c.indices); got != c.want {
			t.Errorf("of %v: %d, not %d", c.indices, got, c.want)
		}
	}
}

// deafDriver is a driver that does not say which processes use a GPU, or says it late.
type deafDriver struct {
	gpu.Source
	processes func(context.Context) ([]int, error)
}

func (d deafDriver) Processes(ctx context.Context, _ string) ([]int, error) { return d.processes(ctx) }

var errFault = errors.New("injected fault")

// TestADriverThatDoesNotSay notices a GPU that is given to the next job although its driver did not
// say that the last one is gone, one that is waited for too long, and one that is not waited for.
func TestADriverThatDoesNotSay(t *testing.T) {
	for _, c := range []struct {
		name, says string
		processes  func(ctx context.Context, asked int) ([]int, error)
		took       time.Duration
	}{
		{"an error", "the driver does not report whether processes of an ended job still use it",
			func(context.Context, int) ([]int, error) { return nil, errFault }, Patience},
		{"no answer", "the driver does not report whether processes of an ended job still use it",
			func(ctx context.Context, _ int) ([]int, error) { <-ctx.Done(); return nil, ctx.Err() }, Patience},
		{"a process that stays", "process 4711 of an ended job still uses it",
			func(context.Context, int) ([]int, error) { return []int{4711, 4712}, nil }, Patience},
		{"errors at first", "", func(_ context.Context, asked int) ([]int, error) {
			if asked < 3 {
				return nil, errFault
			}
			return nil, nil
		}, 2 * pollInterval},
		{"vacant", "", func(context.Context, int) ([]int, error) { return nil, nil }, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			g := &Set{Config: Config{Source: deafDriver{processes: func(ctx context.Context) ([]int, error) {
				asked++
				return c.processes(ctx, asked)
			}}}}
			begin := time.Now()
			if got := g.awaitNoProcesses(t.Context(), "GPU-1"); got != c.says || time.Since(begin) != c.took {
				t.Errorf("%s: %q after %v, not %q after %v", c.name, got, time.Since(begin), c.says, c.took)
			}
		})
	}
}
