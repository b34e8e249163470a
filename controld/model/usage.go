package model

import "github.com/rota-hpc/rota/jobspec"

// Usage is what a worker has used, from its start to its end, as its node has sampled it: 0 is what
// it did not use or what is not known. The node begins anew when its daemon starts.
type Usage struct {
	CPUMS     int64 `json:"cpu_ms,omitempty"`     // processor time, from its start in any case
	PeakCores int64 `json:"peak_cores,omitempty"` // thousandths of a core, over ten seconds
	// memory at its peak, from its start in any case
	PeakMemory jobspec.Bytes `json:"peak_memory,omitempty"`

	// of its GPUs: thousandths of the time in which they worked, and their memory, mean and most
	GPU           int64         `json:"gpu,omitempty"`
	PeakGPU       int64         `json:"peak_gpu,omitempty"`
	GPUMemory     jobspec.Bytes `json:"gpu_memory,omitempty"`
	PeakGPUMemory jobspec.Bytes `json:"peak_gpu_memory,omitempty"`
}

// Possible reports whether a worker can have used that.
func (u *Usage) Possible() bool {
	return min(u.CPUMS, u.PeakCores, u.GPU, u.PeakGPU, int64(min(u.PeakMemory, u.GPUMemory, u.PeakGPUMemory))) >= 0 &&
		max(u.GPU, u.PeakGPU) <= 1000
}

// Used sums up what the workers of an attempt have used that have ended: processor time, cores and
// the memory of GPUs of all of them, the most memory that one of them had, and the mean of their
// GPUs' utilisation. It is nil while none has ended, or if nothing is known.
func (a *Attempt) Used() *Usage {
	var sum Usage
	var onGPU int64 // workers that used theirs
	for i := range a.Workers {
		u := a.Workers[i].Usage
		if u == nil {
			continue
		}
		sum.CPUMS, sum.PeakCores = sum.CPUMS+u.CPUMS, sum.PeakCores+u.PeakCores
		sum.PeakMemory = max(sum.PeakMemory, u.PeakMemory)
		sum.GPUMemory, sum.PeakGPUMemory = sum.GPUMemory+u.GPUMemory, sum.PeakGPUMemory+u.PeakGPUMemory
		if w := &a.Workers[i]; len(w.GPUs)+len(w.Had) > 0 {
			sum.GPU, sum.PeakGPU, onGPU = sum.GPU+u.GPU, max(sum.PeakGPU, u.PeakGPU), onGPU+1
		}
	}
	if sum.GPU /= max(1, onGPU); sum == (Usage{}) {
		return nil
	}
	return &sum
}
