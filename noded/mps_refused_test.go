package noded

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/noded/container"
)

// TestMPSIsRefused notices a node that promises MPS and cannot have it.
func TestMPSIsRefused(t *testing.T) {
	for want, c := range map[string]Config{"--mps with --sim-gpus": {MPS: true, SimGPUs: 1},
		"--mps with --login": {MPS: true, Login: true}} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	t.Setenv("PATH", t.TempDir())
	err := checkRequirements(Config{MPS: true})
	if os.Getuid() == 0 && (err == nil || !strings.Contains(err.Error(), "nvidia-cuda-mps-control is not in the PATH")) {
		t.Errorf("without the program: %v", err)
	}
	if err := checkRequirements(Config{}); err != nil && strings.Contains(err.Error(), "mps") {
		t.Errorf("it was not asked for: %v", err)
	}
}

// TestServersOfMPSKeepNoGPU notices a GPU that is out of use because a server of MPS, which outlives
// jobs, is taken for a rest of one.
func TestServersOfMPSKeepNoGPU(t *testing.T) {
	sharing(t, 1, func(w *world, a, _ *assigned) {
		w.change(func() { w.serves = 77 })
		w.leave(wid(1), container.Exit{})
		w.leavesGPU(2, 77)
		settle(time.Second)
		if last := w.lastNode(); w.result(a) == nil || !last.GPUs[0].Healthy {
			w.t.Fatalf("result %+v, GPUs %+v", w.result(a), last.GPUs)
		}
	})
}
