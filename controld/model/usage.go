package model

import (
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/lossy"
)

// Usage is the use of resources by a worker from its start to its end, as its node sampled it. A
// value of 0 means unused or unknown. The node begins anew when its daemon starts.
type Usage struct {
	CPUMS     int64 `json:"cpu_ms,omitempty"`     // processor time, from its start in any case
	SystemMS  int64 `json:"system_ms,omitempty"`  // the part of it that the system had; the rest is the user's
	PeakCores int64 `json:"peak_cores,omitempty"` // thousandths of a core, over ten seconds
	// memory at its peak, from its start in any case
	PeakMemory jobspec.Bytes `json:"peak_memory,omitempty"`

	// the parts of CPUMS and SystemMS of processes that were started beside its tasks, as by rota
	// exec, with the children that they waited for. The last field is the largest memory of such a
	// process
	ExternCPUMS    int64         `json:"extern_cpu_ms,omitempty"`
	ExternSystemMS int64         `json:"extern_system_ms,omitempty"`
	ExternMemory   jobspec.Bytes `json:"extern_memory,omitempty"`

	// of its GPUs: thousandths of the time in which they worked, and their memory, mean and most
	GPU           int64         `json:"gpu,omitempty"`
	PeakGPU       int64         `json:"peak_gpu,omitempty"`
	GPUMemory     jobspec.Bytes `json:"gpu_memory,omitempty"`
	PeakGPUMemory jobspec.Bytes `json:"peak_gpu_memory,omitempty"`
}

// Possible reports whether a worker can have used that.
func (u *Usage) Possible() bool {
	return min(u.SystemMS, u.CPUMS-u.SystemMS, u.PeakCores, u.GPU, u.PeakGPU,
		int64(min(u.PeakMemory, u.GPUMemory, u.PeakGPUMemory, u.ExternMemory)), u.ExternSystemMS,
		u.SystemMS-u.ExternSystemMS, (u.CPUMS-u.SystemMS)-(u.ExternCPUMS-u.ExternSystemMS),
		u.ExternCPUMS-u.ExternSystemMS) >= 0 && max(u.GPU, u.PeakGPU) <= 1000
}

// UsageSum is the usage of several workers together. It has the sums of processor time, cores and
// GPU memory, the largest peak of memory, and the mean utilisation of the GPUs.
type UsageSum struct {
	Usage
	Memory  jobspec.Bytes // of all of them, each at its own peak
	Workers int

	gpus, use int64 // GPUs of those that have some, and the sum of their utilisation
}

// Add adds a worker that has so many GPUs, whole or in part.
func (s *UsageSum) Add(u *Usage, gpus int) {
	s.Workers++
	s.CPUMS, s.SystemMS, s.PeakCores = s.CPUMS+u.CPUMS, s.SystemMS+u.SystemMS, s.PeakCores+u.PeakCores
	s.ExternCPUMS, s.ExternSystemMS = s.ExternCPUMS+u.ExternCPUMS, s.ExternSystemMS+u.ExternSystemMS
	s.ExternMemory = max(s.ExternMemory, u.ExternMemory)
	s.Memory, s.PeakMemory = s.Memory+u.PeakMemory, max(s.PeakMemory, u.PeakMemory)
	s.GPUMemory, s.PeakGPUMemory = s.GPUMemory+u.GPUMemory, s.PeakGPUMemory+u.PeakGPUMemory
	if gpus > 0 {
		s.gpus, s.use, s.PeakGPU = s.gpus+int64(gpus), s.use+int64(gpus)*u.GPU, max(s.PeakGPU, u.PeakGPU)
		s.GPU = s.use / s.gpus
	}
}

// OutputLost returns how much output of the attempt's workers and steps could not be written by
// now.
func (a *Attempt) OutputLost() int64 {
	var sum lossy.Loss
	for i := range a.Workers {
		if l := a.Workers[i].OutputLost; l != nil {
			sum.Add(*l)
		}
	}
	for i := range a.Steps {
		if l := a.Steps[i].OutputLost; l != nil {
			sum.Add(*l)
		}
	}
	return sum.Bytes
}

// Used sums up what the workers of an attempt have used that have ended. It is nil while none has
// ended, or if nothing is known.
func (a *Attempt) Used() *UsageSum {
	var sum UsageSum
	for i := range a.Workers {
		if w := &a.Workers[i]; w.Usage != nil {
			sum.Add(w.Usage, max(len(w.GPUs), len(w.Had)))
		}
	}
	if sum.Usage == (Usage{}) {
		return nil
	}
	return &sum
}
