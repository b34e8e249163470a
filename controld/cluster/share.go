package cluster

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/rota-hpc/rota/jobspec"
)

// A worker may ask for a part of one GPU: 1 to 999 thousandths of it. Of several GPUs it gets each as a whole. Whoever shares a GPU is told
// apart by amounts only: [Place].GPUs names the device, the worker's request says how much of it is his. A job file that asks for a share
// is refused by name, because nodes do not confine one yet; jobs with shares come from the simulator.

// Share returns how many thousandths of one GPU a worker asks for, 0 if it gets its GPUs as a whole or needs none.
func (r *Request) Share() int64 {
	if isShare(r.Active.GPUs) {
		return r.Active.GPUs
	}
	return 0
}

// Devices returns on how many GPUs a worker lies: the length of its [Place].GPUs.
func (r *Request) Devices() int { return int(roundUp(r.Active.GPUs) / WholeGPU) }

// checkShares refuses parts of several GPUs.
func checkShares(g *jobspec.Group) error {
	for i := range g.Tasks {
		r := &g.Tasks[i].Resources
		if r.GPU == nil || r.GPU.Share == 0 {
			continue
		}
		if r.GPUs != 1 || r.GPU.Share < 0 || r.GPU.Share >= WholeGPU {
			return &SpecError{fmt.Sprintf("a share is 1 to %d thousandths of one GPU, not %d of %d", WholeGPU-1, r.GPU.Share, r.GPUs)}
		}
	}
	if r := GroupRequest(g); r.Active.GPUs > WholeGPU && r.Active.GPUs%WholeGPU != 0 {
		return &SpecError{fmt.Sprintf("the tasks of group %q ask for %s GPUs together: a worker has a part of one GPU, or whole ones", g.Name, gpuText(r.Active.GPUs))}
	}
	return nil
}

// sharesGPU reports whether a group asks for a part of a GPU.
func sharesGPU(g jobspec.Group) bool {
	return slices.ContainsFunc(g.Tasks, func(t jobspec.Task) bool { return t.Resources.GPU != nil && t.Resources.GPU.Share != 0 })
}

// devices is on how many GPUs a worker of a job lies.
func devices(j *Job, worker int) int {
	r := j.RequestOf(worker)
	return r.Devices()
}

func isShare(gpus int64) bool { return gpus > 0 && gpus < WholeGPU }

// roundUp is an amount of GPUs, in thousandths, with a part of one counted as a whole one.
func roundUp(gpus int64) int64 { return (gpus + WholeGPU - 1) / WholeGPU * WholeGPU }

// MulDiv is a*b/c of numbers that are not negative, without overflow in between; what does not fit is the largest number.
func MulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(q, math.MaxInt64))
}

// GPUTime is how much time of one GPU holding so many thousandths for a time is, rounded down, in the unit of the time.
func GPUTime(ms, gpus int64) int64 { return ms/WholeGPU*gpus + ms%WholeGPU*gpus/WholeGPU }

// TimeOf is the reverse of [GPUTime]: for how long so many thousandths, which are not 0, have been held.
func TimeOf(gpuTime, gpus int64) int64 { return gpuTime/gpus*WholeGPU + gpuTime%gpus*WholeGPU/gpus }

// slots returns how many workers that ask for an amount some empty GPUs hold.
func slots(empty, gpus int64) int64 {
	if isShare(gpus) {
		return empty * (WholeGPU / gpus)
	}
	return empty * WholeGPU / gpus
}

// Shared returns the GPUs of a node that workers share and of which something is free: bit n is set for index n.
func (g *Grid) Shared(node int) uint64 {
	if g.at(node).left == 0 {
		return 0
	}
	var mask uint64
	for n, lent := range g.row(node) {
		if lent > 0 && lent < WholeGPU {
			mask |= 1 << n
		}
	}
	return mask & g.usable[node]
}

// Sharing reports whether any GPU has been shared since the grid was made.
func (g *Grid) Sharing() bool { return len(g.lent) > 0 }

// Left returns how many thousandths of a GPU are free: of one that is broken none.
func (g *Grid) Left(node, gpu int) int64 {
	switch {
	case g.at(node).gpus&(1<<gpu) != 0:
		return WholeGPU
	case len(g.lent) == 0 || g.usable[node]&(1<<gpu) == 0:
		return 0
	}
	return leftOf(int64(g.row(node)[gpu]))
}

// leftOf is what is free of a GPU of which some is lent. What is lent to nobody is free, or somebody has it as a whole.
func leftOf(lent int64) int64 {
	if lent == 0 {
		return 0
	}
	return max(0, WholeGPU-lent)
}

// row is what is lent of each GPU of a node; nobody may ask while none was ever shared.
func (g *Grid) row(node int) []uint16 { return g.lent[node*g.stride : (node+1)*g.stride] }

// lentOn is row without the GPUs at the end that are lent to nobody.
func (g *Grid) lentOn(node int) []uint16 {
	if len(g.lent) == 0 {
		return nil
	}
	row := g.row(node)
	for len(row) > 0 && row[len(row)-1] == 0 {
		row = row[:len(row)-1]
	}
	return row
}

// Tightest returns the GPU of a node on which a share leaves least: one that others share, or else the first empty one. -1: there is none.
func (g *Grid) Tightest(node int, share int64) int {
	best, least := -1, int64(WholeGPU)
	for mask := g.Shared(node); mask != 0; mask &= mask - 1 {
		n := bits.TrailingZeros64(mask)
		if left := g.Left(node, n); left >= share && left < least {
			best, least = n, left
		}
	}
	if free := g.at(node).gpus; best < 0 && free != 0 {
		best = bits.TrailingZeros64(free)
	}
	return best
}

// offers reports whether the GPUs of a node hold a request beside claims for so many thousandths: those that are named, or any.
func (g *Grid) offers(node int, r Request, claimed int64, gpus []int) bool {
	rm, share := g.at(node), r.Share()
	empty := int64(bits.OnesCount64(rm.gpus)) * WholeGPU
	switch {
	case r.Active.GPUs == 0:
		return empty+int64(rm.left) >= claimed && rm.names(gpus)
	case share == 0:
		return empty-g.pressing(node, claimed) >= r.Active.GPUs && rm.names(gpus)
	case gpus == nil:
		return g.opens(node, share, claimed) || empty+int64(rm.left)-claimed >= share && g.most(node) >= share
	case len(gpus) != 1 || gpus[0] < 0 || gpus[0] >= len(g.nodes[node].GPUs) || g.Left(node, gpus[0]) < share:
		return false
	case rm.gpus&(1<<gpus[0]) != 0:
		return g.opens(node, share, claimed)
	}
	return empty+int64(rm.left)-claimed >= share
}

// opens reports whether a share may go on an empty GPU: what is claimed may all be for empty ones. Claims are added up and not told apart, so that
// of several who were promised parts each may take his, in whatever order they come.
func (g *Grid) opens(node int, share, claimed int64) bool {
	empty := int64(bits.OnesCount64(g.at(node).gpus)) * WholeGPU
	return empty > 0 && empty-g.pressing(node, claimed) >= share
}

// pressing is how much of claims may be for empty GPUs: nothing if all together has room on one GPU that is shared.
func (g *Grid) pressing(node int, claimed int64) int64 {
	if isShare(claimed) && g.at(node).left > 0 && g.most(node) >= claimed {
		return 0
	}
	return claimed
}

// most is the most that is free of any GPU of a node that workers share.
func (g *Grid) most(node int) int64 {
	most := int64(0)
	for mask := g.Shared(node); mask != 0; mask &= mask - 1 {
		most = max(most, g.Left(node, bits.TrailingZeros64(mask)))
	}
	return most
}

// names reports whether each of the GPUs is free and named once.
func (r *freeCapacity) names(gpus []int) bool {
	var seen uint64
	for _, n := range gpus {
		if n < 0 || n >= MaxGPUsPerNode || (r.gpus&^seen)&(1<<n) == 0 {
			return false
		}
		seen |= 1 << n
	}
	return true
}

// ObstacleTo is Obstacle for several workers that are alike, on whatever GPUs.
func (g *Grid) ObstacleTo(node int, r Request, workers int) ReasonCode {
	all := Request{Active: r.Active.times(int64(workers)), Resident: r.Resident.times(int64(workers)), Exclusive: r.Exclusive}
	share := r.Share()
	if share == 0 || workers == 1 {
		return g.Obstacle(node, all, nil)
	}
	if !g.seats(node, share, workers, 0) {
		all.Active.GPUs = WholeGPU * (MaxGPUsPerNode + 1) // more than any node has: what else is in the way comes first
	} else if !g.seats(node, share, workers, g.Claimed(node).GPUs) {
		return ReasonReservation
	} else {
		all.Active.GPUs = 0
	}
	return g.Obstacle(node, all, nil)
}

// seats reports whether the GPUs of a node hold some workers with a share each beside claims, which may be for empty GPUs.
func (g *Grid) seats(node int, share int64, workers int, claimed int64) bool {
	empty := int64(bits.OnesCount64(g.at(node).gpus))*WholeGPU - roundUp(claimed)
	if empty < 0 {
		return false
	}
	n := slots(empty/WholeGPU, share)
	for mask := g.Shared(node); mask != 0; mask &= mask - 1 {
		n += g.Left(node, bits.TrailingZeros64(mask)) / share
	}
	return n >= int64(workers)
}

// lend takes so many thousandths of a GPU that others may share, or gives them back if there are less than none.
func (g *Grid) lend(node, gpu int, by int64) {
	if len(g.lent) == 0 {
		g.stride = max(1, g.Buckets()-1)
		g.lent = append(g.lent[:0], make([]uint16, len(g.nodes)*g.stride)...)
	}
	rm, bit, lent := g.ownRoom(node), uint64(1)<<gpu, &g.row(node)[gpu]
	before := int64(*lent)
	after := before + by
	*lent = uint16(after)
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

// recall makes the GPUs of a node lent to nobody before it is said anew who holds them, and makes place for as many as it has.
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
	clear(g.row(node))
}
