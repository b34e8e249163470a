package grid

import (
	"math/bits"

	"github.com/rota-hpc/rota/controld/model"
)

// Slots returns how many workers that ask for an amount some empty GPUs hold.
func Slots(empty, gpus int64) int64 {
	if model.IsShare(gpus) {
		return empty * (model.WholeGPU / gpus)
	}
	return empty * model.WholeGPU / gpus
}

// SharedGPUs returns the GPUs of a node that workers share and of which something is free: bit n is
// set for index n.
func (g *Grid) SharedGPUs(node int) uint64 {
	if g.at(node).left == 0 {
		return 0
	}
	var mask uint64
	for n, lent := range g.row(node) {
		if lent > 0 && lent < model.WholeGPU {
			mask |= 1 << n
		}
	}
	return mask & g.usable[node]
}

// HasSharedGPUs reports whether workers share any GPU now. It must follow from the present alone: a
// grid that is rebuilt from a snapshot has to decide like the old one.
func (g *Grid) HasSharedGPUs() bool { return g.shared > 0 }

// FreeShare returns how many thousandths of a GPU are free: of one that is broken none.
func (g *Grid) FreeShare(node, gpu int) int64 {
	switch {
	case g.at(node).gpus&(1<<gpu) != 0:
		return model.WholeGPU
	case len(g.lent) == 0 || g.usable[node]&(1<<gpu) == 0:
		return 0
	}
	return leftOf(int64(g.row(node)[gpu]))
}

// leftOf is what is free of a GPU of which some is lent. A GPU that is lent to no worker is free,
// or belongs to one worker as a whole.
func leftOf(lent int64) int64 {
	if lent == 0 {
		return 0
	}
	return max(0, model.WholeGPU-lent)
}

// row is what is lent of each GPU of a node; it must not be called while none was ever shared.
func (g *Grid) row(node int) []uint16 { return g.lent[node*g.stride : (node+1)*g.stride] }

// LentOn is row without the GPUs at the end that are lent to no worker.
func (g *Grid) LentOn(node int) []uint16 {
	if len(g.lent) == 0 {
		return nil
	}
	row := g.row(node)
	for len(row) > 0 && row[len(row)-1] == 0 {
		row = row[:len(row)-1]
	}
	return row
}

// BestFitGPU returns the GPU of a node on which a share leaves least: one that others share, or
// else the first empty one. -1: there is none.
func (g *Grid) BestFitGPU(node int, share int64) int {
	best, least := -1, int64(model.WholeGPU)
	for mask := g.SharedGPUs(node); mask != 0; mask &= mask - 1 {
		n := bits.TrailingZeros64(mask)
		if left := g.FreeShare(node, n); left >= share && left < least {
			best, least = n, left
		}
	}
	if free := g.at(node).gpus; best < 0 && free != 0 {
		best = bits.TrailingZeros64(free)
	}
	return best
}

// offers reports whether the GPUs of a node hold a request beside claims for so many thousandths:
// those that are named, or any.
func (g *Grid) offers(node int, r model.Request, claimed int64, gpus []int) bool {
	rm, share := g.at(node), r.Share()
	empty := int64(bits.OnesCount64(rm.gpus)) * model.WholeGPU
	switch {
	case r.Active.GPUs == 0:
		return empty+int64(rm.left) >= claimed && rm.names(gpus)
	case share == 0:
		return empty-g.pressing(node, claimed) >= r.Active.GPUs && rm.names(gpus)
	case gpus == nil:
		return g.opens(node, share, claimed) || empty+int64(rm.left)-claimed >= share && g.most(node) >= share
	case len(gpus) != 1 || gpus[0] < 0 || gpus[0] >= len(g.nodes[node].GPUs) || g.FreeShare(node, gpus[0]) < share:
		return false
	case rm.gpus&(1<<gpus[0]) != 0:
		return g.opens(node, share, claimed)
	}
	return empty+int64(rm.left)-claimed >= share
}

// opens reports whether a share may go on an empty GPU: what is claimed may all be for empty ones.
// Claims are added up and not told apart. So several jobs that were promised parts may take theirs
// in any order.
func (g *Grid) opens(node int, share, claimed int64) bool {
	empty := int64(bits.OnesCount64(g.at(node).gpus)) * model.WholeGPU
	return empty > 0 && empty-g.pressing(node, claimed) >= share
}

// pressing is how much of claims may be for empty GPUs: nothing if all together has room on one GPU
// that is shared.
func (g *Grid) pressing(node int, claimed int64) int64 {
	if model.IsShare(claimed) && g.at(node).left > 0 && g.most(node) >= claimed {
		return 0
	}
	return claimed
}

// most is the most that is free of any GPU of a node that workers share.
func (g *Grid) most(node int) int64 {
	most := int64(0)
	for mask := g.SharedGPUs(node); mask != 0; mask &= mask - 1 {
		most = max(most, g.FreeShare(node, bits.TrailingZeros64(mask)))
	}
	return most
}

// names reports whether each of the GPUs is free and named once.
func (r *freeCapacity) names(gpus []int) bool {
	var seen uint64
	for _, n := range gpus {
		if n < 0 || n >= model.MaxGPUsPerNode || (r.gpus&^seen)&(1<<n) == 0 {
			return false
		}
		seen |= 1 << n
	}
	return true
}

// ObstacleTo is Obstacle for several workers that are alike, on whatever GPUs.
func (g *Grid) ObstacleTo(node int, r model.Request, workers int) model.ReasonCode {
	all := model.Request{Active: r.Active.Times(int64(workers)), Resident: r.Resident.Times(int64(workers)),
		Exclusive: r.Exclusive}
	share := r.Share()
	if share == 0 || workers == 1 {
		return g.Obstacle(node, all, nil)
	}
	if !g.seats(node, share, workers, 0) {
		// more than any node has: what else is in the way comes first
		all.Active.GPUs = model.WholeGPU * (model.MaxGPUsPerNode + 1)
	} else if !g.seats(node, share, workers, g.Claimed(node).GPUs) {
		return model.ReasonReservation
	} else {
		all.Active.GPUs = 0
	}
	return g.Obstacle(node, all, nil)
}

// seats reports whether the GPUs of a node hold some workers with a share each beside claims, which
// may be for empty GPUs.
func (g *Grid) seats(node int, share int64, workers int, claimed int64) bool {
	empty := int64(bits.OnesCount64(g.at(node).gpus))*model.WholeGPU - model.RoundUp(claimed)
	if empty < 0 {
		return false
	}
	n := Slots(empty/model.WholeGPU, share)
	for mask := g.SharedGPUs(node); mask != 0; mask &= mask - 1 {
		n += g.FreeShare(node, bits.TrailingZeros64(mask)) / share
	}
	return n >= int64(workers)
}

// lend takes so many thousandths of a GPU that others may share, or gives them back if there are
// less than none.
func (g *Grid) lend(node, gpu int, by int64) {
	if len(g.lent) == 0 {
		g.stride = max(1, g.Buckets()-1)
		g.lent = append(g.lent[:0], make([]uint16, len(g.nodes)*g.stride)...)
	}
	rm, bit, lent := g.ownRoom(node), uint64(1)<<gpu, &g.row(node)[gpu]
	before := int64(*lent)
	after := before + by
	*lent = uint16(after)
	switch {
	case before == 0 && after > 0:
		g.shared++
	case before > 0 && after == 0:
		g.shared--
	}
	if g.usable[node]&bit == 0 {
		return
	}
	rm.left = uint16(int64(rm.left) + leftOf(after) - leftOf(before))
	switch {
	case before == 0:
		rm.gpus &^= bit
	case after == 0:
		rm.gpus |= bit
	}
}

// recall clears what is lent of a node's GPUs before it is counted anew, and makes place for as
// many as it has.
func (g *Grid) recall(node int) {
	if len(g.lent) == 0 {
		return
	}
	if most := len(g.nodes[node].GPUs); most > g.stride {
		wide := make([]uint16, len(g.nodes)*most)
		for i := range g.nodes {
			copy(wide[i*most:], g.row(i))
		}
		g.lent, g.stride = wide, most
	}
	for _, lent := range g.row(node) {
		if lent > 0 {
			g.shared--
		}
	}
	clear(g.row(node))
}
