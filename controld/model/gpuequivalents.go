package model

// # What a job counts for
//
// Service is told in milliseconds of one GPU, also that of a job without GPUs: it counts for as
// many as come with what it holds, of cores or of memory, whichever is more. In cores alone it
// would have had twice as much where hardware threads are counted as cores, and a job of all of a
// node's cores four times as much as one of all its GPUs where four cores come with each.
//
// What comes with a GPU is what the nodes with GPUs have, in any state, for each: other nodes do
// not make a GPU come with more. Where no node has any, an eighth of a node counts for a GPU, but
// no more than a 256th of the cluster, so that it does not matter in how few machines the cores
// are. It is noted when a job is submitted and holds for as long as the job lives: its level is
// part of what it is queued by, and waiting jobs are not queued anew because a node has joined or
// left. A job that came before all nodes is counted by its cores.

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

// Attained returns the service that a job was charged, in milliseconds of one GPU: of its live
// attempt that of workers that have ended, and what all held until [Attempt.ChargedFrom].
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
