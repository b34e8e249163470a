package model

// # What a job counts for
//
// Service is told in milliseconds of one GPU, also for a job without GPUs. Such a job counts for
// the GPUs that come with its cores or its memory, whichever is more. Cores alone would be unfair:
// hardware threads counted as cores double a job's service. On a node with four cores for each GPU,
// a job on all cores would count four times as much as a job on all GPUs.
//
// The resources that come with a GPU are those of the nodes with GPUs, in any state, for each GPU.
// Nodes without GPUs change nothing. In a cluster without GPUs an eighth of a node counts as one,
// but no more than a 256th of the cluster. So it does not matter how many machines the cores are
// in. The equivalents are noted at submission and hold for the job's life. They are part of the key
// by which it is queued, and waiting jobs are not queued anew because a node joins or leaves. A job
// that came before all nodes is counted by its cores.

// UnitParts is for how many GPUs a node counts where no node has any: nodes with GPUs mostly have
// so many.
const UnitParts = 8

// FewestParts is for how many GPUs all nodes together count at least where none has any.
const FewestParts = 256

// Millionths of a GPU are what a core is counted by, so that cores which have been rounded up add
// up to the same thousandths.
const Millionths = 1_000_000

// GPUEquivalents returns for how many thousandths of a GPU all workers of a job count, at least 1.
func (j *Job) GPUEquivalents() int64 { return j.GPUEquivalentsOf(j.Total()) }

// GPUEquivalentsOf is Worth for a part of what a job holds.
func (j *Job) GPUEquivalentsOf(v Vector) int64 {
	switch {
	case v.GPUs > 0:
		return v.GPUs
	case j.PerCore > 0:
		return max(1, MulDiv(v.Cores, int64(j.PerCore), Millionths/WholeGPU))
	}
	return max(1, v.Cores) * WholeGPU
}

// Attained returns the service that a job was charged, in milliseconds of one GPU. For a live
// attempt it counts ended workers, and the holdings of all workers until [Attempt.ChargedFrom].
func (j *Job) Attained() int64 {
	switch {
	case j.Ledger.GPUMS > 0:
		return j.Ledger.GPUMS
	case j.PerCore > 0:
		return MulDiv(j.Ledger.CoreMS, int64(j.PerCore), Millionths)
	}
	return j.Ledger.CoreMS
}

// RuntimeOf returns for how long a job holds what it asks for to come to so much service, in ms.
func (j *Job) RuntimeOf(service int64) int64 { return TimeOf(service, j.GPUEquivalents()) }

// ServiceOf returns the service of a job that holds what it asks for so many ms.
func (j *Job) ServiceOf(ms int64) int64 { return GPUTime(ms, j.GPUEquivalents()) }
