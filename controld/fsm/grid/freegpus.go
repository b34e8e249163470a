package grid

import (
	"math/bits"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// FreeResources is what is free on one node, its GPUs told apart. Claims do not count.
type FreeResources struct {
	Cores  int64
	Memory jobspec.Bytes
	Empty  int64   // GPUs that are wholly free
	Shared []int64 // thousandths that are free of each GPU that some share, as far as that is anything
}

// FreeResources returns what is free on a node. It uses the memory of shared, which may be nil.
func (g *Grid) FreeResources(node int, shared []int64) FreeResources {
	rm := g.at(node)
	r := FreeResources{Cores: int64(rm.cores), Memory: jobspec.Bytes(rm.memory), Empty: int64(bits.OnesCount64(rm.gpus)),
		Shared: shared[:0]}
	for mask := g.SharedGPUs(node); mask != 0; mask &= mask - 1 {
		r.Shared = append(r.Shared, g.FreeShare(node, bits.TrailingZeros64(mask)))
	}
	return r
}

// GPUs returns how many thousandths of GPUs are free in all.
func (r *FreeResources) GPUs() int64 {
	sum := r.Empty * model.WholeGPU
	for _, left := range r.Shared {
		sum += left
	}
	return sum
}

// UnusableFor returns how much of the free GPUs is useless to workers with this request. That is
// everything if no worker fits, else the remainder of each GPU that is too little for one. For
// workers without GPUs it is all. This is the measure of fragmentation of FGD (ATC'23).
func (r *FreeResources) UnusableFor(worker model.Vector) int64 {
	if worker.GPUs <= 0 || worker.Cores > r.Cores || worker.Memory > r.Memory {
		return r.GPUs()
	}
	each, most, small, sum := min(worker.GPUs, model.WholeGPU), int64(0), int64(0), int64(0)
	for _, left := range r.Shared {
		sum += left
		most = max(most, left)
		if left < each {
			small += left
		}
	}
	if r.Empty*model.WholeGPU < worker.GPUs && most < worker.GPUs {
		return r.Empty*model.WholeGPU + sum
	}
	return small
}
