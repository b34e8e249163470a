// Package fit finds room for gangs on the grid of nodes and GPUs.
//
// A gang is placed whole or not at all. Each of its parts gets as few nodes as its workers may
// share, each chosen among those that meet the job's constraints by what the job prefers and then
// by best fit: the node with the fewest free GPUs that still suffice, and of those the first by
// name. A worker that asks for a part of a GPU gets it where least of the GPU is left over, and an
// empty GPU only if no other will do. Whether a worker fits is asked of grid.Fits alone, with
// which Apply checks the plan again.
package fit

import (
	"math/bits"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/grid"
	"github.com/rota-hpc/rota/controld/model"
)

// Spot is one worker's place, by position of the node in the view.
type Spot struct {
	Node int
	GPUs []int
	Port int // of a worker of a gang of several parts, once it is taken
}

// Room is a scratch copy of a view's free room with the reservations on it. It is not for
// concurrent use.
type Room struct {
	view         *fsm.View
	grid         grid.Grid
	reservations []*model.Reservation
	ports        map[int][]int // ports taken on the copy
	used         []stretch     // scratch of search
	options      []option      // scratch of sharedStretches
	asked        map[int]int   // ports that parts placed so far will take; nil while a gang of one part is placed
}

// stretch is some workers on one node.
type stretch struct {
	node, workers int
}

// Reset makes r a copy of the free room of a view, in the memory that r has.
func (r *Room) Reset(v *fsm.View) {
	r.view, r.reservations = v, append(r.reservations[:0], v.Reservations()...)
	if r.ports == nil {
		r.ports = map[int][]int{}
	}
	clear(r.ports)
	r.used, r.options, r.asked = r.used[:0], r.options[:0], nil
	r.grid.CopyFrom(v.Grid())
}

// Fits reports whether a gang could be placed now.
func (r *Room) Fits(g *Gang) bool {
	if len(g.More) > 0 {
		_, ok := r.Place(g)
		return ok
	}
	defer r.Waive(g.For)()
	return r.search(&g.Part, g.Exclude, g.Workers > 1)
}

// Place finds a spot for every worker of a gang, part by part, and takes nothing yet. The first
// spot is on a node where [Room.Take] finds a port, if the gang needs one. False: it does not fit.
func (r *Room) Place(g *Gang) ([]Spot, bool) {
	defer r.Waive(g.For)()
	if len(g.More) > 0 {
		found, ok := r.placeParts(g)
		if !ok {
			return nil, false
		}
		return slices.Concat(found...), true
	}
	if !r.search(&g.Part, g.Exclude, g.Workers > 1) {
		return nil, false
	}
	return r.spots(&g.Part), true
}

// spots turns what search has found into spots.
func (r *Room) spots(p *Part) []Spot {
	spots := make([]Spot, 0, p.Workers)
	share := p.Request.Share()
	for _, s := range r.used {
		if share > 0 {
			spots = r.shareOut(spots, s, share)
			continue
		}
		free, n := list(r.grid.FreeGPUs(s.node)), int(p.Request.Active.GPUs/1000)
		for range s.workers {
			gpus := pick(free, n)
			free = slices.DeleteFunc(free, func(i int) bool { return slices.Contains(gpus, i) })
			spots = append(spots, Spot{Node: s.node, GPUs: gpus})
		}
	}
	return spots
}

// Reach returns how many workers of a gang of several parts find room before one of its parts does
// not.
func (r *Room) Reach(g *Gang) int {
	defer r.Waive(g.For)()
	found, _ := r.placeParts(g)
	n := 0
	for _, spots := range found {
		n += len(spots)
	}
	return n
}

// placeParts places the parts, those first that are hardest to place, and changes nothing. A part
// that finds no room behind others goes before them the next time, so that what only it can use is
// not given away. It returns the spots of each part that it came to, and whether these are all.
func (r *Room) placeParts(g *Gang) ([][]Spot, bool) {
	order := g.Hardest()
	for tries := g.Parts(); ; tries-- {
		found, failed := r.placeInOrder(g, order)
		if failed <= 0 || tries == 0 {
			return found, failed < 0
		}
		part := order[failed]
		copy(order[1:failed+1], order[:failed])
		order[0] = part
	}
}

// placeInOrder places each part with the room of those before it taken, and gives all back. It
// returns which in the order found no room, -1 if all did.
func (r *Room) placeInOrder(g *Gang, order []int) (found [][]Spot, failed int) {
	found = make([][]Spot, g.Parts())
	r.asked = map[int]int{}
	defer func() {
		for i, spots := range found {
			for _, s := range spots {
				r.grid.Release(s.Node, g.At(i).Request, orNone(s.GPUs))
			}
		}
		r.asked = nil
	}()
	for k, i := range order {
		p := g.At(i)
		if !r.search(p, g.Exclude, i == 0) {
			return found, k
		}
		found[i] = r.spots(p)
		if i == 0 {
			r.ask(found[i][0].Node) // where the gang meets
		}
		for _, s := range found[i] {
			r.grid.Allocate(s.Node, p.Request, orNone(s.GPUs))
			r.ask(s.Node)
		}
	}
	return found, -1
}

func (r *Room) ask(node int) {
	if r.grid.Node(node).PortMin > 0 {
		r.asked[node]++
	}
}

// Take takes the room of spots that Place has returned and lifts the gang's reservation. It returns
// the port at which the gang meets on its first node, 0 for a single worker where none is left and
// on nodes without a range. The workers of a gang of several parts get ports of their own.
func (r *Room) Take(g *Gang, spots []Spot) int {
	r.Unclaim(g.For)
	for s, part := range g.Seated(spots) {
		r.grid.Allocate(s.Node, part.Request, orNone(s.GPUs))
	}
	meeting := r.takePort(spots[0].Node)
	for i := range spots {
		if len(g.More) > 0 {
			spots[i].Port = r.takePort(spots[i].Node)
		}
	}
	return meeting
}

func (r *Room) takePort(node int) int {
	port, ok := r.port(node)
	if ok {
		r.ports[node] = append(r.ports[node], port)
	}
	return port
}

// search fills r.used with nodes for a part of a gang, the first one with a port at which the gang
// can meet if it has to. Taking whole stretches of as many workers as a node may have, and smaller
// ones only when no node holds those, needs the fewest nodes.
func (r *Room) search(p *Part, exclude []int, meet bool) bool {
	r.used = r.used[:0]
	if !r.fill(p, exclude, p.Workers) {
		return false
	}
	if !meet {
		return true
	}
	if i := slices.IndexFunc(r.used, func(s stretch) bool { return r.meets(s.node, s.workers) }); i >= 0 {
		r.used[0], r.used[i] = r.used[i], r.used[0]
		return true
	}
	return r.searchFrom(p, exclude)
}

// searchFrom searches again, from a node that has a port for the gang to meet at. Any will do: what
// the nodes hold together does not depend on which is filled first.
func (r *Room) searchFrom(p *Part, exclude []int) bool {
	for node := range r.grid.Len() {
		if !p.Wants(node) || slices.Contains(exclude, node) {
			continue
		}
		for w := min(p.PerNode, p.Workers); w > 0; w-- {
			if r.meets(node, w) && r.takes(node, p.Request, w) {
				r.used = append(r.used[:0], stretch{node, w})
				return r.fill(p, exclude, p.Workers-w)
			}
		}
	}
	return false
}

// fill appends stretches for more workers to r.used.
func (r *Room) fill(p *Part, exclude []int, left int) bool {
	for w := min(p.PerNode, left); w > 0 && left > 0; {
		left -= w * r.stretches(p, exclude, w, left/w)
		w = min(w-1, left)
	}
	return left == 0
}

// stretches appends at most n nodes that hold w workers each, those that the job likes best first,
// and returns how many it found.
func (r *Room) stretches(p *Part, exclude []int, w, n int) int {
	if p.Levels == nil {
		return r.stretchesOn(p, exclude, w, n, nil)
	}
	found := 0
	for i := range p.Levels {
		if found < n {
			found += r.stretchesOn(p, exclude, w, n-found, p.Levels[i].Nodes)
		}
	}
	return found
}

// stretchesOn is stretches on some nodes, nil for all: best fit first.
func (r *Room) stretchesOn(p *Part, exclude []int, w, n int, among NodeSet) int {
	if share := p.Request.Share(); share > 0 {
		return r.sharedStretches(p, exclude, w, n, among, share)
	}
	need, found := p.Request.Times(w), 0
	others := len(r.used) > 0 // one pass meets no node twice
	for _, node := range r.byEmptyGPUs(int(need.Active.GPUs/1000), p.Nodes, among) {
		if others && r.uses(node) || slices.Contains(exclude, node) || !r.holds(node, need, w) {
			continue
		}
		r.used = append(r.used, stretch{node, w})
		if found++; found == n {
			break
		}
	}
	return found
}

func (r *Room) uses(node int) bool {
	return slices.ContainsFunc(r.used, func(s stretch) bool { return s.node == node })
}

// holds reports whether a node has room for what some workers need together and, in a gang of
// several parts, as many ports.
func (r *Room) holds(node int, need model.Request, workers int) bool {
	return r.grid.Obstacle(node, need, nil) == model.ReasonNone && (r.asked == nil || r.portsFor(node, workers))
}

// takes is holds for what each of the workers needs, which may be a part of a GPU.
func (r *Room) takes(node int, worker model.Request, workers int) bool {
	return r.grid.ObstacleTo(node, worker, workers) == model.ReasonNone && (r.asked == nil || r.portsFor(node, workers))
}

// meets reports whether a gang can meet on a node with some of its workers: it has a port left, or
// none at all to give.
func (r *Room) meets(node, workers int) bool {
	if r.asked != nil {
		return r.portsFor(node, workers+1)
	}
	if r.grid.Node(node).PortMin == 0 {
		return true
	}
	_, ok := r.port(node)
	return ok
}

// portsFor reports whether a node has so many ports left beside those that are asked for, or none
// at all to give.
func (r *Room) portsFor(node, n int) bool {
	name, taken := r.grid.Node(node).Name, slices.Clone(r.ports[node])
	if r.grid.Node(node).PortMin == 0 {
		return true
	}
	for range r.asked[node] + n {
		port, ok := r.view.FreePort(name, taken...)
		if !ok {
			return false
		}
		taken = append(taken, port)
	}
	return true
}

func (r *Room) port(node int) (int, bool) {
	return r.view.FreePort(r.grid.Node(node).Name, r.ports[node]...)
}

// list turns a mask into ascending indices.
func list(mask uint64) []int {
	free := make([]int, 0, bits.OnesCount64(mask))
	for ; mask != 0; mask &= mask - 1 {
		free = append(free, bits.TrailingZeros64(mask))
	}
	return free
}

// orNone makes "no GPUs" differ from "any GPUs".
func orNone(gpus []int) []int {
	if gpus == nil {
		return []int{}
	}
	return gpus
}
