package cluster

import "math"

// # What a job counts for
//
// Service is told in milliseconds of one GPU, also that of a job without GPUs: it counts for as many as come with what it holds, of cores or of memory,
// whichever is more. In cores alone it would have had twice as much where hardware threads are counted as cores, and a job of all of a node's cores four
// times as much as one of all its GPUs where four cores come with each.
//
// What comes with a GPU is what the nodes with GPUs have, in any state, for each: other nodes do not make a GPU come with more. Where no node has any,
// an eighth of a node counts for a GPU, but no more than a 256th of the cluster, so that it does not matter in how few machines the cores are. It is noted
// when a job is submitted and holds for as long as the job lives: its level is part of what it is queued by, and those who wait are not queued anew
// because a node has joined or left. A job that came before all nodes is counted by its cores.

// unitParts is for how many GPUs a node counts where no node has any: nodes with GPUs mostly have so many.
const unitParts = 8

// fewestParts is for how many GPUs all nodes together count at least where none has any.
const fewestParts = 256

// millionths of a GPU are what a core is counted by, so that cores which have been rounded up add up to the same thousandths.
const millionths = 1_000_000

// setGPUEquivalents notes for what each core of a new job counts that has no GPUs.
func (s *State) setGPUEquivalents(j *Job) {
	total := j.Total()
	if j.PerCore = 0; len(s.v.nodes) == 0 || total.GPUs > 0 {
		return
	}
	have, gpus := &s.v.inventory.WithGPUs, s.v.inventory.All.GPUs
	if gpus == 0 {
		have, gpus = &s.v.inventory.All, max(int64(len(s.v.nodes))*unitParts, fewestParts)*WholeGPU
	}
	gpus *= millionths / WholeGPU
	worth := max(MulDiv(total.Cores, gpus, have.Cores), MulDiv(InMiB(int64(total.Memory)), gpus, max(1, have.Memory)))
	j.PerCore = int32(min((worth-1)/total.Cores+1, math.MaxInt32))
}

// Worth returns for how many thousandths of a GPU all workers of a job count, at least 1.
func (j *Job) Worth() int64 { return j.WorthOf(j.Total()) }

// WorthOf is Worth for a part of what a job holds.
func (j *Job) WorthOf(v Vector) int64 {
	switch {
	case v.GPUs > 0:
		return v.GPUs
	case j.PerCore > 0:
		return max(1, MulDiv(v.Cores, int64(j.PerCore), millionths/WholeGPU))
	}
	return max(1, v.Cores) * WholeGPU
}

// Attained returns the service that attempts that are over have given a job, in milliseconds of one GPU.
func (j *Job) Attained() int64 {
	switch {
	case j.Ledger.GPUMS > 0:
		return j.Ledger.GPUMS
	case j.PerCore > 0:
		return MulDiv(j.Ledger.CoreMS, int64(j.PerCore), millionths)
	}
	return j.Ledger.CoreMS
}

// RanFor returns for how long a job holds what it asks for to come to so much service, in ms.
func (j *Job) RanFor(service int64) int64 { return TimeOf(service, j.Worth()) }

// ServiceOf returns the service of a job that holds what it asks for so many ms.
func (j *Job) ServiceOf(ms int64) int64 { return GPUTime(ms, j.Worth()) }
