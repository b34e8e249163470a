package gpu

import (
	"context"
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
)

// Sim is a source of simulated GPUs, which cannot compute. Processes declare their use of them in
// files: see docs/gpu.md, "Simulated GPUs".
type Sim struct {
	Node     string
	N        int
	Declared string // the directory of the declarations; "": no process uses anything
}

var _ Source = Sim{}

// simMemory is the memory of a simulated GPU in bytes.
const simMemory = 80 << 30

// uuid returns the UUID of the n-th GPU.
func (s Sim) uuid(n int) string { return fmt.Sprintf("GPU-SIM-%s-%d", s.Node, n) }

// has reports whether there is a GPU.
func (s Sim) has(uuid string) bool {
	for n := range s.N {
		if s.uuid(n) == uuid {
			return true
		}
	}
	return false
}

// Inventory implements [Source].
func (s Sim) Inventory(context.Context) (Inventory, error) {
	var i Inventory
	for n := range s.N {
		i.Devices = append(i.Devices, Device{NUMA: -1, GPU: model.GPU{
			UUID: s.uuid(n), Model: "Simulated", Memory: simMemory, Minor: -1, Healthy: true,
		}})
	}
	return i, nil
}

// Processes implements [Source].
func (s Sim) Processes(ctx context.Context, uuid string) ([]int, error) {
	list, err := s.Usage(ctx, uuid)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, p := range list[0].Processes {
		pids = append(pids, p.PID)
	}
	return pids, nil
}

// Usage implements [Source].
func (s Sim) Usage(_ context.Context, uuids ...string) ([]Use, error) {
	declared, err := readDeclarations(s.Declared)
	if err != nil {
		return nil, fmt.Errorf("read the jobs' usage of simulated GPUs: %w", err)
	}
	list := make([]Use, len(uuids))
	for i, uuid := range uuids {
		u := &list[i]
		if !s.has(uuid) {
			u.Problem = "unknown GPU " + uuid
			continue
		}
		u.Processes = slices.Clone(declared[uuid])
		for _, p := range u.Processes {
			u.Memory += p.Memory
			u.Utilisation = min(1000, u.Utilisation+p.Utilisation)
		}
	}
	return list, nil
}

// Close implements [Source].
func (Sim) Close() error { return nil }
