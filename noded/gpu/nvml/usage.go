package nvml

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/rota-hpc/rota/noded/gpu"
)

// Processes implements [Source].
func (n *driver) Processes(_ context.Context, uuid string) ([]int, error) {
	if err := n.openDriver(); err != nil {
		return nil, err
	}
	_, list, err := n.processes(uuid)
	if err != nil {
		return nil, err
	}
	out := make([]int, len(list))
	for k, p := range list {
		out[k] = p.PID
	}
	return out, nil
}

// Usage implements [Source].
func (n *driver) Usage(_ context.Context, uuids ...string) ([]gpu.Use, error) {
	if err := n.openDriver(); err != nil {
		return nil, err
	}
	list := make([]gpu.Use, len(uuids))
	for k, uuid := range uuids {
		list[k] = n.usage(uuid)
	}
	return list, nil
}

// openDriver is open, where a driver that is missing is an error.
func (n *driver) openDriver() error {
	absent, err := n.open()
	if absent != "" {
		err = errors.New(absent)
	}
	return err
}

// usage returns the present use of one GPU.
func (n *driver) usage(uuid string) gpu.Use {
	u := gpu.Use{Utilisation: gpu.Unknown, Memory: gpu.Unknown}
	h, list, err := n.processes(uuid)
	if err != nil {
		return gpu.Use{Problem: err.Error()}
	}
	u.Processes = list
	if memory, r := h.GetMemoryInfo(); r == nvml.SUCCESS {
		u.Memory = known(memory.Used)
	}
	if n.hasFunction("nvmlDeviceGetUtilizationRates") {
		if rates, r := h.GetUtilizationRates(); r == nvml.SUCCESS {
			u.Utilisation = int64(rates.Gpu) * perPercent
		}
	}
	n.utilisations(h, u.Processes)
	return u
}

// perPercent is a percent in thousandths.
const perPercent = 10

// known returns a number of bytes, or [gpu.Unknown] for NVML's "not available". Some systems cannot
// tell, for example, the memory of a process.
func known(bytes uint64) int64 {
	if bytes >= 1<<62 {
		return gpu.Unknown
	}
	return int64(bytes)
}

// processes returns the processes that compute on a GPU, with their memory.
func (n *driver) processes(uuid string) (nvml.Device, []gpu.Process, error) {
	h, r := n.lib.DeviceGetHandleByUUID(uuid)
	if r != nvml.SUCCESS {
		return nil, nil, fmt.Errorf("find GPU %s: %v", uuid, n.lib.ErrorString(r))
	}
	if !n.hasFunction("nvmlDeviceGetComputeRunningProcesses") &&
		!n.hasFunction("nvmlDeviceGetComputeRunningProcesses_v2") &&
		!n.hasFunction("nvmlDeviceGetComputeRunningProcesses_v3") {
		return nil, nil, fmt.Errorf("the driver is too old to report which processes use a GPU")
	}
	list, r := h.GetComputeRunningProcesses()
	if r != nvml.SUCCESS {
		return nil, nil, fmt.Errorf("processes on GPU %s: %v", uuid, n.lib.ErrorString(r))
	}
	out := make([]gpu.Process, len(list))
	for k, p := range list {
		out[k] = gpu.Process{PID: int(p.Pid), Memory: known(p.UsedGpuMemory), Utilisation: gpu.Unknown}
	}
	slices.SortStableFunc(out, func(a, b gpu.Process) int { return cmp.Compare(a.PID, b.PID) })
	return h, out, nil
}

// sampleAge is how old the driver's last sample of a process may be. It takes one a second or more
// often, and none while the process runs nothing.
const sampleAge = 1500 * time.Millisecond

// utilisations adds the part of the time in which each process ran something. A process without a
// recent sample has run nothing, once the driver has samples at all.
func (n *driver) utilisations(h nvml.Device, processes []gpu.Process) {
	if len(processes) == 0 || !n.hasFunction("nvmlDeviceGetProcessUtilization") {
		return
	}
	samples, r := h.GetProcessUtilization(uint64(time.Now().Add(-sampleAge).UnixMicro()))
	if r == nvml.ERROR_NOT_FOUND { // no process has a sample
		samples, r = nil, nvml.SUCCESS
	}
	if r != nvml.SUCCESS {
		return
	}
	for k := range processes {
		p, last := &processes[k], uint64(0)
		p.Utilisation = 0
		for _, s := range samples {
			if int(s.Pid) == p.PID && s.TimeStamp >= last {
				last, p.Utilisation = s.TimeStamp, min(100, int64(s.SmUtil))*perPercent
			}
		}
	}
}
