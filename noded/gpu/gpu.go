// Package gpu describes the GPUs of this machine: which they are, their health, and the processes
// that use them. Only a child process calls NVML ([Helper]), because a driver can hang for good.
// Simulated GPUs are there for trying Rota out ([Sim]).
package gpu

import (
	"context"
	"fmt"

	"github.com/rota-hpc/rota/controld/model"
)

// Device is one GPU.
type Device struct {
	model.GPU
	PCI   string `json:"pci,omitempty"`   // address such as 00000000:10:00.0
	NUMA  int    `json:"numa"`            // NUMA node, -1 if unknown
	Event string `json:"event,omitempty"` // the critical error that the driver has reported; it reports each once

	// Persistence says whether the driver keeps the device ready while no program uses it: "on", "off",
	// or "" if that is unknown.
	Persistence string `json:"persistence,omitempty"`
}

// Inventory lists the GPUs of a machine.
type Inventory struct {
	Driver  string   `json:"driver,omitempty"`
	Devices []Device `json:"devices,omitempty"` // in the driver's order, which is that of their PCI addresses
	Absent  string   `json:"absent,omitempty"`  // what is missing, if NVML cannot be used: there are no devices then
}

// GPUs returns the inventory in the form that the cluster keeps.
func (i Inventory) GPUs() []model.GPU {
	out := make([]model.GPU, len(i.Devices))
	for n, d := range i.Devices {
		out[n] = d.GPU
	}
	return out
}

// Source tells about GPUs. Every call is bounded in time and may be repeated.
type Source interface {
	// Inventory returns every GPU with its present health.
	Inventory(ctx context.Context) (Inventory, error)
	// Processes returns the ids of the processes on this machine that use a GPU.
	Processes(ctx context.Context, uuid string) ([]int, error)
	// Close ends what the source runs.
	Close() error
}

// Sim is a source of simulated GPUs, which cannot compute.
type Sim struct {
	Node string
	N    int
}

var _ Source = Sim{}

// Inventory implements [Source].
func (s Sim) Inventory(context.Context) (Inventory, error) {
	var i Inventory
	for n := range s.N {
		i.Devices = append(i.Devices, Device{NUMA: -1, GPU: model.GPU{
			UUID: fmt.Sprintf("GPU-SIM-%s-%d", s.Node, n), Model: "Simulated", Memory: 80 << 30, Minor: -1,
			Healthy: true,
		}})
	}
	return i, nil
}

// Processes implements [Source].
func (Sim) Processes(context.Context, string) ([]int, error) { return nil, nil }

// Close implements [Source].
func (Sim) Close() error { return nil }
