// Package gpu describes the GPUs of this machine: which they are, their health, and the processes
// that use them. Only a child process calls NVML ([Helper]), because a driver can hang for good.
// Simulated GPUs are there for trying Rota out ([Sim]).
package gpu

import (
	"context"

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
	// Usage returns the present use of certain GPUs, in the order asked for. A GPU that cannot be
	// asked has [Use.Problem] and does not keep the others from answering.
	Usage(ctx context.Context, uuids ...string) ([]Use, error)
	// Close ends the programs that the source runs.
	Close() error
}

// Unknown is a quantity of [Use] that the driver does not report.
const Unknown = -1

// Use is the present use of a GPU.
type Use struct {
	// Utilisation is the part of the driver's last sampling period in which something ran on the
	// GPU, in thousandths. The period is a sixth of a second to a second. [Unknown] if the driver
	// does not say.
	Utilisation int64 `json:"utilisation"`
	// Memory is the bytes in use, including the driver's. [Unknown] if the driver does not say.
	Memory    int64     `json:"memory"`
	Processes []Process `json:"processes,omitempty"` // in the order of their ids
	Problem   string    `json:"problem,omitempty"`   // why nothing is known; then the rest is empty
}

// Process is a process that uses a GPU.
type Process struct {
	PID         int   `json:"pid"`         // on this machine, whatever its container calls it
	Memory      int64 `json:"memory"`      // bytes of the GPU's memory; [Unknown] if the driver does not say
	Utilisation int64 `json:"utilisation"` // thousandths of the last second; [Unknown] if the driver does not say
}
