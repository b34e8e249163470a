package cluster

import (
	"math/bits"

	"github.com/rota-hpc/rota/jobspec"
)

// Rest is what is free on one node, its GPUs told apart. Claims do not count.
type Rest struct {
	Cores  int64
	Memory jobspec.Bytes
	Empty  int64   // GPUs of which nobody has anything
	Shared []int64 // thousandths that are free of each GPU that some share, as far as that is anything
}

// Rest returns what is free on a node. It uses the memory of shared, which may be nil.
func (g *Grid) Rest(node int, shared []int64) Rest {
	rm := g.at(node)
	r := Rest{Cores: int64(rm.cores), Memory: jobspec.Bytes(rm.memory), Empty: int64(bits.OnesCount64(rm.gpus)), Shared: shared[:0]}
	for mask := g.Shared(node); mask != 0; mask &= mask - 1 {
		r.Shared = append(r.Shared, g.Left(node, bits.TrailingZeros64(mask)))
	}
	return r
}

// GPUs returns how many thousandths of GPUs are free in all.
func (r *Rest) GPUs() int64 {
	sum := r.Empty * WholeGPU
	for _, left := range r.Shared {
		sum += left
	}
	return sum
}

// Unusable returns how much of the free GPUs is of no use to workers that ask for so much: all, if not one of them fits, else what is left of
// each GPU that is too little for one. For workers without GPUs it is all. This is the measure of fragmentation of FGD (ATC'23).
func (r *Rest) Unusable(worker Vector) int64 {
	if worker.GPUs <= 0 || worker.Cores > r.Cores || worker.Memory > r.Memory {
		return r.GPUs()
	}
	each, most, small, sum := min(worker.GPUs, WholeGPU), int64(0), int64(0), int64(0)
	for _, left := range r.Shared {
		sum += left
		most = max(most, left)
		if left < each {
			small += left
		}
	}
	if r.Empty*WholeGPU < worker.GPUs && most < worker.GPUs {
		return r.Empty*WholeGPU + sum
	}
	return small
}
