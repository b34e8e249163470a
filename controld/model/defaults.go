package model

import (
	"cmp"

	"github.com/rota-hpc/rota/jobspec"
)

// RequestOf returns what a task's resources mean for its node. A suspended job keeps its memory and
// its GPUs' memory, not its cores.
func RequestOf(r jobspec.Resources) Request {
	cores := max(1, int64(r.Cores))
	memory := cmp.Or(r.Memory, jobspec.DefaultMemoryPerCore*jobspec.Bytes(cores))
	gpus := int64(r.GPUs) * WholeGPU
	if r.GPU != nil && r.GPU.Share > 0 {
		gpus = int64(r.GPU.Share)
	}
	return Request{Active: Vector{cores, memory, gpus}, Resident: Vector{0, memory, gpus}}
}

// Defaults of a job.
const (
	DefaultQueue    = "default"
	DefaultAccount  = "default"
	DefaultPriority = 50
	DefaultGrace    = 30 // seconds
	LeaseGrace      = 10 // seconds
	DefaultCkptCode = 85
)
