// Package grid is the free capacity of all nodes: which cores, memory and GPUs are free, claimed or
// shared. [Fits] is the one feasibility rule: the scheduler decides with it on a copy, and the
// state machine checks with it again. A [Grid] is copied page by page when it is written, so that a
// copy costs next to nothing.
package grid

import (
	"math/bits"

	"github.com/rota-hpc/rota/controld/model"
)

// Grid is the room on every node: what is free, and what of it is claimed by reservations. Nodes
// are named by their position in state.View.Nodes. To try things out, take state.View.Grid,
// CopyFrom it, and try things on the copy. Copies share what neither of them has changed, since a
// decision changes the room on a few nodes of thousands.
type Grid struct {
	nodes  []*model.Node  // shared between copies
	usable []uint64       // healthy GPUs of each node; shared between copies
	total  []model.Vector // all that each node has; shared between copies
	pages  []*gridPage
	own    []uint64    // bit i: no other grid has page i
	spare  []*gridPage // of its own that it does not need now
	claims bool        // there may be some
	words  int         // of one bucket
	bucket []uint64    // one bucket after another; see Bucket
	// thousandths of GPUs that workers share, node by node, stride GPUs each; empty while none was
	// ever shared
	lent   []uint16
	stride int
	shared int // GPUs of which something is lent
}

// pageNodes is the nodes of a page: few, since the first change after a view copies a page.
const pageNodes = 16

// gridPage is what is free on nodes that follow each other, and what of it is claimed.
type gridPage struct {
	room   [pageNodes]freeCapacity
	claims [pageNodes]model.Vector // of all reservations
}

// freeCapacity is what is free on one node. It is kept small because cycles look at all of them.
type freeCapacity struct {
	cores       int32
	residentGPU int32 // thousandths
	memory      int64
	residentMem int64
	gpus        uint64 // free and healthy ones
	workers     int32  // that hold some of it
	up          bool
	whole       bool   // they have the node for themselves
	left        uint16 // thousandths that are free of healthy GPUs that some share
}

// NewGrid returns a grid with nothing taken. Inventories must be within the limits that
// RegisterNode enforces.
func NewGrid(nodes []*model.Node) *Grid {
	g := &Grid{nodes: nodes, usable: make([]uint64, len(nodes)), total: make([]model.Vector, len(nodes))}
	g.resize()
	for i, n := range nodes {
		g.usable[i], g.total[i] = model.Healthy(n), Capacity(n)
		*g.ownRoom(i) = empty(n)
	}
	g.fillBuckets()
	return g
}

// empty returns the room on a node that runs nothing.
func empty(n *model.Node) freeCapacity {
	return freeCapacity{
		cores: int32(n.Cores), memory: int64(n.Memory), gpus: model.Healthy(n), up: n.State == model.NodeUp,
		residentGPU: int32(len(n.GPUs) * model.WholeGPU), residentMem: int64(n.Memory),
	}
}

// fillBuckets sorts the nodes into buckets anew.
func (g *Grid) fillBuckets() {
	most := 0
	for _, n := range g.nodes {
		most = max(most, len(n.GPUs))
	}
	g.words = (len(g.nodes) + 63) / 64
	g.bucket = make([]uint64, g.words*(most+1))
	for i := range g.nodes {
		g.sort(i, true)
	}
}

// resize makes as many pages as the nodes need.
func (g *Grid) resize() {
	for len(g.pages)*pageNodes < len(g.nodes) {
		i := len(g.pages)
		g.pages = append(g.pages, new(gridPage))
		if len(g.own)*64 <= i {
			g.own = append(g.own, 0)
		}
		g.own[i/64] |= 1 << (i % 64)
	}
}

// at returns the room on a node, to be read.
func (g *Grid) at(i int) *freeCapacity { return &g.pages[uint(i)/pageNodes].room[uint(i)%pageNodes] }

// ownRoom returns the room on a node ready to be written.
func (g *Grid) ownRoom(i int) *freeCapacity { return &g.ownPage(i / pageNodes).room[uint(i)%pageNodes] }

// ownPage returns a page that no other grid has.
func (g *Grid) ownPage(p int) *gridPage {
	if bit := uint64(1) << (p % 64); g.own[p/64]&bit == 0 {
		next := g.blank()
		*next = *g.pages[p]
		g.pages[p] = next
		g.own[p/64] |= bit
	}
	return g.pages[p]
}

// blank returns a page to be written over.
func (g *Grid) blank() *gridPage {
	n := len(g.spare)
	if n == 0 {
		return new(gridPage)
	}
	page := g.spare[n-1]
	g.spare = g.spare[:n-1]
	return page
}

// Seal gives up what the grid owns: from now on others may read it.
func (g *Grid) Seal() { clear(g.own) }

// reclaim keeps the pages that only this grid has for other uses.
func (g *Grid) reclaim() {
	for w, word := range g.own {
		for ; word != 0; word &= word - 1 {
			g.spare = append(g.spare, g.pages[w*64+bits.TrailingZeros64(word)])
		}
	}
}

// sort puts node i into its bucket, or takes it out. Nodes that are not up, or that one job has for
// itself, are in none.
func (g *Grid) sort(i int, in bool) {
	rm := g.at(i)
	if !rm.up || rm.whole {
		return
	}
	word := bits.OnesCount64(rm.gpus)*g.words + i/64
	if in {
		g.bucket[word] |= 1 << (i % 64)
	} else {
		g.bucket[word] &^= 1 << (i % 64)
	}
}

// CopyFrom makes g equal to src without allocating once g has grown to its size. Neither sees later
// changes to the other. Several may copy a grid at the same time as long as nobody changes it.
func (g *Grid) CopyFrom(src *Grid) {
	g.reclaim()
	g.nodes, g.usable, g.total, g.claims, g.words, g.stride = src.nodes, src.usable, src.total, src.claims, src.words,
		src.stride
	g.pages = append(g.pages[:0], src.pages...)
	g.own = append(g.own[:0], src.own...)
	for w, word := range g.own { // src may go on writing what is its own
		for ; word != 0; word &= word - 1 {
			p := w*64 + bits.TrailingZeros64(word)
			next := g.blank()
			*next = *src.pages[p]
			g.pages[p] = next
		}
	}
	g.bucket = append(g.bucket[:0], src.bucket...)
	g.lent, g.shared = append(g.lent[:0], src.lent...), src.shared
}

// Len returns the number of nodes.
func (g *Grid) Len() int { return len(g.nodes) }

// Node returns the node at a position.
func (g *Grid) Node(i int) *model.Node { return g.nodes[i] }

// Up reports whether a node may get work.
func (g *Grid) Up(i int) bool { return g.at(i).up }

// Free returns what active work may still take of a node, claims not subtracted. Free parts of
// shared GPUs count, although only jobs that share too can take them: see Shared.
func (g *Grid) Free(i int) model.Vector {
	r := g.at(i)
	return model.VectorOf(int64(r.cores), r.memory, int64(bits.OnesCount64(r.gpus))*model.WholeGPU+int64(r.left))
}

// FreeResident returns what may still become resident on a node, claims not subtracted. It has no
// cores.
func (g *Grid) FreeResident(i int) model.Vector {
	r := g.at(i)
	return model.VectorOf(0, r.residentMem, int64(r.residentGPU))
}

// FreeGPUs returns the healthy GPUs of a node that are wholly free: bit n is set for index n.
func (g *Grid) FreeGPUs(i int) uint64 { return g.at(i).gpus }

// Claimed returns what reservations claim of a node, which may be more than is free there.
func (g *Grid) Claimed(i int) model.Vector {
	if !g.claims {
		return model.Vector{}
	}
	return g.pages[uint(i)/pageNodes].claims[uint(i)%pageNodes]
}

// Capacity returns everything that a node has, broken GPUs included.
func (g *Grid) Capacity(i int) model.Vector { return g.total[i] }

// BrokenGPUs returns how many GPUs of a node are not healthy.
func (g *Grid) BrokenGPUs(i int) int { return len(g.nodes[i].GPUs) - bits.OnesCount64(g.usable[i]) }

// Capacity returns all that a node has: cores, memory and thousandths of GPUs.
func Capacity(n *model.Node) model.Vector {
	return model.VectorOf(n.Cores, int64(n.Memory), int64(len(n.GPUs))*model.WholeGPU)
}

// Workers returns how many workers hold room on a node.
func (g *Grid) Workers(i int) int { return int(g.at(i).workers) }

// Exclusive reports whether the workers on a node have it for themselves.
func (g *Grid) Exclusive(i int) bool { return g.at(i).whole }

// Bucket returns the nodes that may get work and have exactly n wholly free GPUs. Bit i of the
// words is set for the node at position i. It is nil if no node has as many GPUs. The caller must
// not change it, and it changes as room is taken and given back.
func (g *Grid) Bucket(n int) []uint64 {
	if n < 0 || n >= g.Buckets() {
		return nil
	}
	return g.bucket[n*g.words : (n+1)*g.words]
}

// Buckets returns one more than the greatest number of GPUs that a node has.
func (g *Grid) Buckets() int {
	if g.words == 0 {
		return 0
	}
	return len(g.bucket) / g.words
}

// Fits says why one worker's request does not fit on a node now, or nil if it does. Deciding and
// committing both ask it. With gpus the worker gets exactly those; nil means any. Claims count as
// taken: a job with a claim of its own lifts it first (LiftClaims).
func Fits(g *Grid, node int, r model.Request, gpus []int) *model.Reason {
	return g.reason(g.Obstacle(node, r, gpus), node, r)
}

// reason says what is in the way of a request on a node, nil if nothing is.
func (g *Grid) reason(code model.ReasonCode, node int, r model.Request) *model.Reason {
	if code == model.ReasonNone {
		return nil
	}
	return &model.Reason{Code: code, Need: r.Active, Have: g.open(node), Node: g.nodes[node].Name}
}

// Obstacle is Fits for callers that ask about many nodes: it returns only the code, ReasonNone if
// the request fits, and allocates nothing.
func (g *Grid) Obstacle(node int, r model.Request, gpus []int) model.ReasonCode {
	rm := g.at(node)
	switch {
	case !rm.up && g.nodes[node].State == model.NodeDown:
		return model.ReasonNodeDown
	case !rm.up:
		return model.ReasonNotAvail
	}
	return g.inTheWay(node, r, gpus)
}

// FitsAgain is Fits for a worker that has stayed on the node all the time: a node that is drained
// lets it go on.
func FitsAgain(g *Grid, node int, r model.Request, gpus []int) *model.Reason {
	return g.reason(g.ObstacleAgain(node, r, gpus), node, r)
}

// ObstacleAgain is to FitsAgain what Obstacle is to Fits.
func (g *Grid) ObstacleAgain(node int, r model.Request, gpus []int) model.ReasonCode {
	if g.nodes[node].State == model.NodeDown {
		return model.ReasonNodeDown
	}
	return g.inTheWay(node, r, gpus)
}

// inTheWay is Obstacle on a node that takes the worker.
func (g *Grid) inTheWay(node int, r model.Request, gpus []int) model.ReasonCode {
	rm := g.at(node)
	switch {
	case rm.whole || r.Exclusive && rm.workers > 0 || !rm.holds(r, model.Vector{}) || !g.offers(node, r, 0, gpus):
		return model.ReasonResources
	case g.claims && !g.spares(node, r, gpus):
		return model.ReasonReservation
	}
	return model.ReasonNone
}

// spares reports whether a request that fits on a node does so beside what is claimed there.
func (g *Grid) spares(node int, r model.Request, gpus []int) bool {
	claimed := g.Claimed(node)
	return g.at(node).holds(r, claimed) && g.offers(node, r, claimed.GPUs, gpus) &&
		(!r.Exclusive || claimed == model.Vector{})
}

// Joins reports whether a further worker fits on a node that its part of a gang has for itself.
func (g *Grid) Joins(node int, r model.Request, gpus []int) bool {
	rm := g.at(node)
	return rm.whole && rm.holds(r, model.Vector{}) && g.offers(node, r, 0, gpus)
}

// holds reports whether a request fits beside what is claimed, as far as it is not for GPUs to work
// on: see offers.
func (r *freeCapacity) holds(q model.Request, claimed model.Vector) bool {
	memory := int64(claimed.Memory)
	return int64(r.cores)-claimed.Cores >= q.Active.Cores &&
		r.memory-memory >= int64(q.Active.Memory) &&
		r.residentMem-memory >= int64(q.Resident.Memory) &&
		int64(r.residentGPU)-claimed.GPUs >= q.Resident.GPUs
}

// open returns what a node offers to those without claims.
func (g *Grid) open(i int) model.Vector {
	free, claimed := g.Free(i), g.Claimed(i)
	return model.VectorOf(max(0, free.Cores-claimed.Cores), int64(max(0, free.Memory-claimed.Memory)),
		max(0, free.GPUs-claimed.GPUs))
}

// Allocate takes a worker's room on a node; it must fit. Nil gpus take the free ones with the
// lowest indices, a share the [Grid.Tightest].
func (g *Grid) Allocate(node int, r model.Request, gpus []int) {
	mask := maskOf(gpus)
	switch share := r.Share(); {
	case gpus != nil:
	case share > 0:
		mask = 1 << g.BestFitGPU(node, share)
	default:
		mask = lowest(g.at(node).gpus, int(r.Active.GPUs/model.WholeGPU))
	}
	g.change(node, r, -1, mask)
}

// Release returns what Take took; gpus must name the GPUs, also when Take was left to choose.
// Broken ones do not become free.
func (g *Grid) Release(node int, r model.Request, gpus []int) { g.change(node, r, 1, maskOf(gpus)) }

func (g *Grid) change(node int, r model.Request, sign int64, gpus uint64) {
	g.sort(node, false)
	rm := g.ownRoom(node)
	rm.cores += int32(sign * r.Active.Cores)
	rm.memory += sign * int64(r.Active.Memory)
	rm.residentMem += sign * int64(r.Resident.Memory)
	rm.residentGPU += int32(sign * r.Resident.GPUs)
	switch share := r.Share(); {
	case share > 0 && gpus != 0:
		g.lend(node, bits.TrailingZeros64(gpus), -sign*share)
	case share > 0: // of a worker without a place, which Check reports
	case sign < 0:
		rm.gpus &^= gpus
	default:
		rm.gpus |= gpus & g.usable[node]
	}
	rm.workers -= int32(sign)
	rm.whole = rm.workers > 0 && (rm.whole || r.Exclusive)
	g.sort(node, true)
}

// Claim keeps room on a node from all jobs that do not lift the claim. It may be more than is free.
func (g *Grid) Claim(node int, room model.Vector) {
	g.claims = true
	claimed := &g.ownPage(node / pageNodes).claims[uint(node)%pageNodes]
	*claimed = claimed.Plus(room)
}

// Unclaim takes a claim back.
func (g *Grid) Unclaim(node int, room model.Vector) {
	if g.claims {
		claimed := &g.ownPage(node / pageNodes).claims[uint(node)%pageNodes]
		*claimed = claimed.Minus(room)
	}
}

func maskOf(gpus []int) uint64 {
	var mask uint64
	for _, n := range gpus {
		mask |= 1 << n
	}
	return mask
}

// lowest returns the n lowest bits of mask.
func lowest(mask uint64, n int) uint64 {
	var taken uint64
	for ; n > 0 && mask != 0; n-- {
		taken |= mask & -mask
		mask &= mask - 1
	}
	return taken
}
