package fit

import (
	"cmp"
	"iter"
	"math/bits"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/grid"
	"github.com/rota-hpc/rota/controld/model"
)

// gpu is one GPU in the unit of vectors.
const gpu = model.WholeGPU

// shareOut appends spots for the workers of a stretch that ask for a part of a GPU.
func (r *Room) shareOut(spots []Spot, s stretch, share int64) []Spot {
	left := r.Left(s.node)
	for range s.workers {
		// The GPU on which the share leaves least, so that other GPUs stay empty.
		best := -1
		for n, free := range left {
			if free >= share && (best < 0 || free < left[best]) {
				best = n
			}
		}
		left[best] -= share
		spots = append(spots, Spot{Node: s.node, GPUs: []int{best}})
	}
	return spots
}

// Left returns how many thousandths of each GPU of a node are free.
func (r *Room) Left(node int) []int64 { return r.LeftIn(node, nil) }

// LeftIn is Left in the memory of a list that is not needed any more.
func (r *Room) LeftIn(node int, left []int64) []int64 {
	left = left[:0]
	for n := range r.grid.Node(node).GPUs {
		left = append(left, r.grid.FreeShare(node, n))
	}
	return left
}

// AddWorking adds the given thousandths of some GPUs to the free part of each GPU of a node. Broken
// GPUs are left out, since they are of no use to others.
func (r *Room) AddWorking(left []int64, node int, gpus []int, each int64) {
	for _, i := range gpus {
		if r.grid.Node(node).GPUs[i].Healthy {
			left[i] += min(gpu, each)
		}
	}
}

// Sharing reports whether any GPU has been shared since the grid was made.
func (r *Room) Sharing() bool { return r.grid.HasSharedGPUs() }

// ForPreemptors returns a copy with the reservations for preemptors only, while LiftHeads lifts the
// others.
func (r *Room) ForPreemptors() *Room {
	c := r.Copy()
	c.reservations = slices.DeleteFunc(c.reservations, func(v *model.Reservation) bool { return !v.ForPreemptor })
	return c
}

// PreemptorClaims returns how many thousandths of a node's GPUs other preemptors than a job have
// reserved, the greatest first. Workers that ask for parts of GPUs are listed one by one.
func (r *Room) PreemptorClaims(node int, id model.JobID) []int64 {
	var list []int64
	for _, v := range r.reservations {
		if !v.ForPreemptor || v.Job == id {
			continue
		}
		for _, c := range v.Claims {
			if c.Node == r.grid.Node(node).Name {
				list = append(list, r.apiece(v.Job, c.Resources.GPUs)...)
			}
		}
	}
	slices.SortFunc(list, func(a, b int64) int { return cmp.Compare(b, a) })
	return list
}

// apiece splits the claim of a job into its workers, if they share GPUs.
func (r *Room) apiece(id model.JobID, claimed int64) (list []int64) {
	each := claimed
	if j := r.view.Job(id); j != nil {
		if q := j.RequestOf(0); q.Share() > 0 && len(j.Parts) == 0 {
			each = q.Share()
		}
	}
	for ; claimed > 0; claimed -= each {
		list = append(list, min(each, claimed))
	}
	return list
}

// Shares reports whether something is free of GPUs of a node that some share.
func (r *Room) Shares(node int) bool { return r.grid.SharedGPUs(node) != 0 }

// Candidates yields nodes that have room for one worker of a part, those with the fewest empty GPUs
// first.
func (r *Room) Candidates(p *Component, exclude []int) iter.Seq[int] {
	return func(yield func(int) bool) {
		first := 0
		if p.Request.Share() == 0 {
			first = p.Request.Devices()
		}
		for _, node := range r.byEmptyGPUs(first, p.Nodes, nil) {
			if !slices.Contains(exclude, node) && r.Holds(node, p) && !yield(node) {
				return
			}
		}
	}
}

// Rest returns the free room of a node, GPU by GPU, in the memory of shared.
func (r *Room) Rest(node int, shared []int64) grid.FreeResources {
	return r.grid.FreeResources(node, shared)
}

// HoldsOn is Holds on certain GPUs of a node.
func (r *Room) HoldsOn(node int, p *Component, gpus []int) bool {
	return r.grid.Obstacle(node, p.Request, gpus) == model.ReasonNone
}

// SharedGPUs returns the shared GPUs of a node that have a free part, by index.
func (r *Room) SharedGPUs(node int) []int { return list(r.grid.SharedGPUs(node)) }

// FirstEmpty returns the first empty GPU of a node, -1 if there is none.
func (r *Room) FirstEmpty(node int) int {
	free := r.grid.FreeGPUs(node)
	if free == 0 {
		return -1
	}
	return bits.TrailingZeros64(free)
}

// gpusFor returns how much of the free GPUs of a node counts for a part. For workers with whole
// GPUs, only empty GPUs count. For workers that share, it returns so many thousandths that
// [Capacity] finds the number of workers that really fit.
func (r *Room) gpusFor(node int, p *Component) int64 {
	shared := r.grid.SharedGPUs(node)
	if shared == 0 || p.Request.Active.GPUs == 0 {
		return r.grid.Free(node).GPUs
	}
	empty, share := int64(bits.OnesCount64(r.grid.FreeGPUs(node))), p.Request.Share()
	if share == 0 {
		return empty * gpu
	}
	per, workers := gpu/share, int64(0)
	for ; shared != 0; shared &= shared - 1 {
		workers += r.grid.FreeShare(node, bits.TrailingZeros64(shared)) / share
	}
	return (empty+workers/per)*gpu + workers%per*share
}
