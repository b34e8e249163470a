package measure

import (
	"testing"

	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/gpu"
)

// TestMemoryOfNoProcess notices memory of an ended job that is counted for the next one. It also covers
// a driver that lists no processes.
func TestMemoryOfNoProcess(t *testing.T) {
	its := func(container.ID) bool { return true }
	for told, want := range map[bool]int64{true: 0, false: 600 << 20} {
		u := &gpu.Use{Utilisation: 10, Memory: 600 << 20}
		if use, memory := useOf(its, u, nil, true, told); use != 10 || memory != want {
			t.Errorf("processes are listed %v: %d, %d", told, use, memory)
		}
	}
}
