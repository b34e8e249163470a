package noded

import (
	"strings"
	"testing"

	"github.com/rota-hpc/rota/noded/gpu"
)

// TestANodeWithoutItsGPUsDoesNotStart notices a node that registers with fewer GPUs than it is
// configured to have, and one that a GPU lost since its boot keeps from coming back.
func TestANodeWithoutItsGPUsDoesNotStart(t *testing.T) {
	none := &nodeGPUs{inventory: gpu.Inventory{Absent: "libnvidia-ml.so.1 is not installed"}}
	if err := none.expect(0); err != nil {
		t.Errorf("no GPUs are expected: %v", err)
	}
	err := none.expect(2)
	for _, want := range []string{"--gpus 2", "has 0", "libnvidia-ml.so.1 is not installed", "nvidia-smi"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("without NVML: %v, want %q", err, want)
		}
	}
	lost := &nodeGPUs{inventory: gpu.Inventory{Devices: make([]gpu.Device, 2)}} // unhealthy
	if err := lost.expect(2); err != nil {
		t.Errorf("a GPU that was lost since the boot: %v", err)
	}
	if err := lost.expect(3); err == nil {
		t.Error("a GPU that is missing since the boot is not noticed")
	}
}
