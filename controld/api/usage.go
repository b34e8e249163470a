package api

import (
	"fmt"
	"strings"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// NodeUsage is what a node says of a worker that runs there.
type NodeUsage struct {
	model.Usage
	Memory jobspec.Bytes   `json:"memory,omitempty"` // now
	Steps  []NodeStepUsage `json:"steps,omitempty"`  // that run beside it; what they use is in its usage too
}

// NodeStepUsage is what a node says of its part of a step that runs.
type NodeStepUsage struct {
	Step int `json:"step"`
	GPUs int `json:"gpus,omitempty"` // that its usage is of
	model.Usage
}

// JobUsage is what an attempt of a job has used, by worker. That of workers that run is asked from
// their nodes when it is wanted, and kept nowhere.
type JobUsage struct {
	APIVersion string        `json:"apiVersion"`
	Kind       string        `json:"kind"` // JobUsage
	Job        model.JobID   `json:"job"`
	Attempt    int           `json:"attempt"`
	Live       bool          `json:"live"`                 // it has not ended
	Allocation bool          `json:"allocation,omitempty"` // it only holds its nodes for steps, see [FlagAllocation]
	Usage      *Usage        `json:"usage,omitempty"`      // of all workers of which it is known; none: of none
	Workers    []WorkerUsage `json:"workers"`              // in order
	Steps      []StepUsage   `json:"steps"`                // that run, in order
	Missing    int           `json:"missing"`              // workers that run, of which it is not known
	Error      string        `json:"error,omitempty"`      // why not, of the first of them
}

// StepUsage is what a step has used by now on the nodes of which it is known. Its workers are its nodes.
type StepUsage struct {
	Step     int    `json:"step"`
	Usage    *Usage `json:"usage"`
	PeakNode string `json:"peak_node"` // the one whose part had the most memory
}

// WorkerUsage is what one worker has used by now, or until it ended.
type WorkerUsage struct {
	Worker    int           `json:"worker"`
	Node      string        `json:"node"`
	State     string        `json:"state"`
	MemoryNow jobspec.Bytes `json:"memory_now,omitempty"` // of one that runs
	Usage     *Usage        `json:"usage,omitempty"`      // none: it is not known
}

// MaxRSS is the most memory that one worker had, with the pages of files that were cached for it.
// It and the methods below are for nil too, of which nothing is known.
func (u *Usage) MaxRSS() jobspec.Bytes {
	if u == nil {
		return 0
	}
	return u.PeakMemory
}

// AveRSS is the mean of the peaks of all workers.
func (u *Usage) AveRSS() jobspec.Bytes {
	if u == nil || u.Workers == 0 {
		return 0
	}
	return u.Memory / jobspec.Bytes(u.Workers)
}

// TotalCPU is the processor time of all workers, in seconds.
func (u *Usage) TotalCPU() float64 {
	if u == nil {
		return 0
	}
	return u.CPUSeconds
}

// SystemCPU is the part of TotalCPU that the system had, in seconds.
func (u *Usage) SystemCPU() float64 {
	if u == nil {
		return 0
	}
	return u.SystemSeconds
}

// OfExtern is the part of processes that were started beside the job's tasks, as a usage of its own: nil if they
// used nothing. AveRSS is known of one worker alone.
func (u *Usage) OfExtern() *Usage {
	if u == nil || u.Extern == nil {
		return nil
	}
	e := u.Extern
	out := &Usage{CPUSeconds: e.CPUSeconds, SystemSeconds: e.SystemSeconds, PeakMemory: e.PeakMemory, Workers: u.Workers}
	if u.Workers == 1 {
		out.Memory = e.PeakMemory
	}
	return out
}

// UserCPU is the part of TotalCPU that the programs had, in seconds.
func (u *Usage) UserCPU() float64 { return u.TotalCPU() - u.SystemCPU() }

// TRESUsageInTot is the usage of all workers, in the form of sacct's field of that name. It is ""
// if nothing is known, or if the memory is unknown, as of a script beside steps.
func (u *Usage) TRESUsageInTot() string {
	if u.MaxRSS() == 0 {
		return ""
	}
	return u.tres(u.CPUSeconds, u.Memory, u.PeakGPUMemory)
}

// TRESUsageInAve is the mean of that: processor time of so many tasks, memory of a worker and of its GPUs.
func (u *Usage) TRESUsageInAve(tasks int) string {
	if u.MaxRSS() == 0 {
		return ""
	}
	return u.tres(u.CPUSeconds/float64(max(tasks, 1)), u.AveRSS(), u.PeakGPUMemory/jobspec.Bytes(max(u.Workers, 1)))
}

func (u *Usage) tres(cpu float64, memory, gpuMemory jobspec.Bytes) string {
	s := int64(cpu)
	parts := []string{fmt.Sprintf("cpu=%02d:%02d:%02d", s/3600, s/60%60, s%60)}
	if gpuMemory > 0 {
		parts = append(parts, fmt.Sprintf("gres/gpumem=%dK", gpuMemory>>10))
	}
	if u.PeakGPUUtil > 0 {
		parts = append(parts, fmt.Sprintf("gres/gpuutil=%d", u.GPUUtil))
	}
	if memory > 0 { // that of a step on several nodes is not known
		parts = append(parts, fmt.Sprintf("mem=%dK", memory>>10))
	}
	return strings.Join(parts, ",")
}
