package fit

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
)

// search looks for nodes for one part of a gang.
type search struct {
	room    *Room
	part    *Component
	exclude []int       // positions of nodes to avoid
	asked   map[int]int // ports that parts placed so far will take, by node; nil of a gang of one part
	used    []stretch   // spots found so far
	options []option    // scratch of sharedStretches
}

// stretch is some workers on one node.
type stretch struct {
	node, workers int
}

// searchFor begins a search in the memory of the last one.
func (r *Room) searchFor(p *Component, exclude []int, asked map[int]int) *search {
	f := &r.search
	*f = search{room: r, part: p, exclude: exclude, asked: asked, used: f.used[:0], options: f.options[:0]}
	return f
}

// find finds nodes for the part, the first one with a port at which the gang can meet if it has to.
// Taking whole stretches of as many workers as a node may have, and smaller ones only when no node
// holds those, needs the fewest nodes.
func (f *search) find(meet bool) bool {
	if !f.fill(f.part.Workers) {
		return false
	}
	if !meet {
		return true
	}
	if i := slices.IndexFunc(f.used, func(s stretch) bool { return f.meets(s.node, s.workers) }); i >= 0 {
		f.used[0], f.used[i] = f.used[i], f.used[0]
		return true
	}
	return f.findFromPort()
}

// findFromPort searches again, from a node that has a port for the gang to meet at. Any order will
// do: the sum over the nodes does not depend on which is filled first.
func (f *search) findFromPort() bool {
	p := f.part
	for node := range f.room.grid.Len() {
		if !p.Wants(node) || slices.Contains(f.exclude, node) {
			continue
		}
		// As many workers as possible on the node with the port, so that the others need few nodes.
		w := min(p.PerNode, p.Workers)
		if p.Request.Share() == 0 {
			w = Capacity(p, f.room.Free(node))
		}
		for ; w > 0; w-- {
			if f.meets(node, w) && f.takes(node, p.Request, w) {
				f.used = append(f.used[:0], stretch{node, w})
				return f.fill(p.Workers - w)
			}
		}
	}
	return false
}

// fill appends stretches for more workers.
func (f *search) fill(left int) bool {
	for w := min(f.part.PerNode, left); w > 0 && left > 0; {
		found := f.stretches(w, left/w)
		left -= w * found
		if w = min(w-1, left); found == 0 && w > shortWay {
			w = min(w, f.most())
		}
	}
	return left == 0
}

// shortWay is how many numbers of workers for one node are tried sooner than all nodes are asked how
// many they could have.
const shortWay = 8

// most returns how many workers of the part a node has room for at most, if it has no other ones of
// it.
func (f *search) most() int {
	if f.part.Request.Share() > 0 { // the sum of several GPUs' free parts says too little
		return f.part.PerNode
	}
	most := 0
	for node := range f.room.grid.Len() {
		if f.part.Wants(node) && !f.uses(node) {
			most = max(most, Capacity(f.part, f.room.Free(node)))
		}
	}
	return most
}

// stretches appends at most n nodes that hold w workers each, those that the job likes best first,
// and returns how many it found.
func (f *search) stretches(w, n int) int {
	if f.part.Levels == nil {
		return f.stretchesOn(w, n, nil)
	}
	found := 0
	for _, level := range f.part.Levels {
		if found < n {
			found += f.stretchesOn(w, n-found, level.Nodes)
		}
	}
	return found
}

// stretchesOn is stretches on some nodes, nil for all: best fit first.
func (f *search) stretchesOn(w, n int, among NodeSet) int {
	p := f.part
	if share := p.Request.Share(); share > 0 {
		return f.sharedStretches(w, n, among, share)
	}
	// Nodes come in order of their empty GPUs, the fewest that suffice first: that is best fit.
	need, found := p.Request.Times(w), 0
	others := len(f.used) > 0 // one pass meets no node twice
	for _, node := range f.room.byEmptyGPUs(int(need.Active.GPUs/1000), p.Nodes, among) {
		if others && f.uses(node) || slices.Contains(f.exclude, node) || !f.holds(node, need, w) {
			continue
		}
		f.used = append(f.used, stretch{node, w})
		if found++; found == n {
			break
		}
	}
	return found
}

func (f *search) uses(node int) bool {
	return slices.ContainsFunc(f.used, func(s stretch) bool { return s.node == node })
}

// holds reports whether a node has room for some workers together and, in a gang of several parts,
// enough ports.
func (f *search) holds(node int, need model.Request, workers int) bool {
	return f.room.grid.Obstacle(node, need, nil) == model.ReasonNone && (f.asked == nil || f.portsFor(node, workers))
}

// takes is holds with the request of each worker, which may be a part of a GPU.
func (f *search) takes(node int, worker model.Request, workers int) bool {
	return f.room.grid.ObstacleTo(node, worker, workers) == model.ReasonNone &&
		(f.asked == nil || f.portsFor(node, workers))
}

// meets reports whether a gang can meet on a node with some of its workers. The node must have a
// port left, or no range of ports.
func (f *search) meets(node, workers int) bool {
	if f.asked != nil {
		return f.portsFor(node, workers+1)
	}
	if f.room.grid.Node(node).PortMin == 0 {
		return true
	}
	_, ok := f.room.port(node)
	return ok
}

// portsFor reports whether a node has n ports left beside those asked for, or has no range of
// ports.
func (f *search) portsFor(node, n int) bool {
	name, taken := f.room.grid.Node(node).Name, slices.Clone(f.room.ports[node])
	if f.room.grid.Node(node).PortMin == 0 {
		return true
	}
	for range f.asked[node] + n {
		port, ok := f.room.view.FreePort(name, taken...)
		if !ok {
			return false
		}
		taken = append(taken, port)
	}
	return true
}

// option is a node for workers that share GPUs, and how much of a GPU the first worker finds there.
// Less is a tighter fit.
type option struct {
	node int
	left int64
}

// sharedStretches is stretchesOn for workers that ask for a part of a GPU.
func (f *search) sharedStretches(w, n int, among NodeSet, share int64) int {
	// Where GPUs are shared, the number of empty GPUs does not say how tight a node fits. So all nodes
	// are rated. If only one is sought, nodes that fit no tighter than the best so far are skipped.
	f.options = f.options[:0]
	others := len(f.used) > 0
	for empty, node := range f.room.byEmptyGPUs(0, f.part.Nodes, among) {
		o := option{node, f.tightness(node, empty, share)}
		if n == 1 && len(f.options) > 0 && o.left >= f.options[0].left || o.left == 0 {
			continue
		}
		if others && f.uses(node) || slices.Contains(f.exclude, node) || !f.takes(node, f.part.Request, w) {
			continue
		}
		if n == 1 {
			f.options = f.options[:0]
		}
		f.options = append(f.options, o)
	}
	slices.SortStableFunc(f.options, func(a, b option) int {
		return cmp.Or(cmp.Compare(a.left, b.left),
			cmp.Compare(a.node, b.node))
	})
	found := min(n, len(f.options))
	for _, o := range f.options[:found] {
		f.used = append(f.used, stretch{o.node, w})
	}
	return found
}

// tightness returns how much is free of the GPU of a node on which a share leaves least. If only
// empty GPUs will do, it is the sum of all of them, so that nodes with few empty GPUs fit tighter.
// 0: the node has no GPU for the share.
func (f *search) tightness(node, empty int, share int64) int64 {
	if f.room.grid.SharedGPUs(node) != 0 {
		if n := f.room.grid.BestFitGPU(node, share); n >= 0 && f.room.grid.FreeShare(node, n) < gpu {
			return f.room.grid.FreeShare(node, n)
		}
	}
	return gpu * int64(empty)
}

// spots converts the result of the search into spots.
func (f *search) spots() []Spot {
	p := f.part
	spots, share := make([]Spot, 0, p.Workers), p.Request.Share()
	for _, s := range f.used {
		if share > 0 {
			spots = f.room.shareOut(spots, s, share)
			continue
		}
		free, n := list(f.room.grid.FreeGPUs(s.node)), int(p.Request.Active.GPUs/1000)
		for range s.workers {
			gpus := pick(free, n)
			free = slices.DeleteFunc(free, func(i int) bool { return slices.Contains(gpus, i) })
			spots = append(spots, Spot{Node: s.node, GPUs: gpus})
		}
	}
	return spots
}
