// Package fit finds room for gangs on the grid of nodes and GPUs.
//
// A gang is placed whole or not at all, on as few nodes as its workers may share, each chosen by best fit: the node with the
// fewest free GPUs that still suffice, and of those the first by name. Whether a worker fits is asked of cluster.Fits alone,
// with which Apply checks the plan again.
package fit

import (
	"math/bits"
	"slices"

	"github.com/rota-hpc/rota/controld/cluster"
)

// Gang is what a placement is asked for: Shape.Workers like workers, at most Shape.PerNode of them on one node.
type Gang struct {
	cluster.Shape
	For     cluster.JobID // whose reservation, if it has one, makes room for it
	Exclude []int         // positions of nodes to avoid
}

// Spot is one worker's place, by position of the node in the view.
type Spot struct {
	Node int
	GPUs []int
}

// Room is a scratch copy of a view's free room with the reservations on it. It is not for concurrent use.
type Room struct {
	view         *cluster.View
	grid         cluster.Grid
	reservations []*cluster.Reservation
	ports        map[int][]int // MASTER_PORTs taken on the copy
	used         []stretch     // scratch of search
}

// stretch is some workers on one node.
type stretch struct {
	node, workers int
}

// NewRoom copies the free room of a view.
func NewRoom(v *cluster.View) *Room {
	r := &Room{view: v, reservations: slices.Clone(v.Reservations()), ports: map[int][]int{}}
	r.grid.CopyFrom(v.Grid())
	return r
}

// Fits reports whether a gang could be placed now.
func (r *Room) Fits(g Gang) bool {
	defer r.Waive(g.For)()
	return r.search(g)
}

// Place finds a spot for every worker of a gang and takes nothing yet. The first spot is on a node where [Room.Take] finds a port, if
// the gang needs one. False: it does not fit.
func (r *Room) Place(g Gang) ([]Spot, bool) {
	defer r.Waive(g.For)()
	if !r.search(g) {
		return nil, false
	}
	spots := make([]Spot, 0, g.Workers)
	for _, s := range r.used {
		free, n := list(r.grid.FreeGPUs(s.node)), int(g.Request.Active.GPUs/1000)
		for range s.workers {
			gpus := pick(free, n)
			free = slices.DeleteFunc(free, func(i int) bool { return slices.Contains(gpus, i) })
			spots = append(spots, Spot{Node: s.node, GPUs: gpus})
		}
	}
	return spots, true
}

// Take takes the room of spots that Place has returned and lifts the gang's reservation. It returns the port at which the gang
// meets on its first node, 0 for a single worker where none is left and on nodes without a range.
func (r *Room) Take(g Gang, spots []Spot) int {
	r.Unclaim(g.For)
	for _, s := range spots {
		r.grid.Take(s.Node, g.Request, s.GPUs)
	}
	first := spots[0].Node
	port, ok := r.port(first)
	if ok {
		r.ports[first] = append(r.ports[first], port)
	}
	return port
}

// search fills r.used with nodes for a gang. Taking whole stretches of as many workers as a node may have, and smaller ones only when
// no node holds those, needs the fewest nodes.
func (r *Room) search(g Gang) bool {
	r.used = r.used[:0]
	if !r.fill(g, g.Workers) {
		return false
	}
	if g.Workers == 1 {
		return true
	}
	if i := slices.IndexFunc(r.used, func(s stretch) bool { return r.meets(s.node) }); i >= 0 {
		r.used[0], r.used[i] = r.used[i], r.used[0]
		return true
	}
	return r.searchFrom(g)
}

// searchFrom searches again, from a node that has a port for the gang to meet at. Any will do: what the nodes hold together
// does not depend on which is filled first.
func (r *Room) searchFrom(g Gang) bool {
	for node := range r.grid.Len() {
		if !r.meets(node) || slices.Contains(g.Exclude, node) {
			continue
		}
		for w := min(g.PerNode, g.Workers); w > 0; w-- {
			if r.holds(node, Times(g.Request, w)) {
				r.used = append(r.used[:0], stretch{node, w})
				return r.fill(g, g.Workers-w)
			}
		}
	}
	return false
}

// fill appends stretches for more workers to r.used.
func (r *Room) fill(g Gang, left int) bool {
	for w := min(g.PerNode, left); w > 0 && left > 0; {
		left -= w * r.stretches(g, w, left/w)
		w = min(w-1, left)
	}
	return left == 0
}

// stretches appends at most n nodes that hold w workers each, best fit first, and returns how many it found.
func (r *Room) stretches(g Gang, w, n int) int {
	need, found := Times(g.Request, w), 0
	others := len(r.used) > 0 // one pass meets no node twice
	for gpus := int(need.Active.GPUs / 1000); gpus < r.grid.Buckets() && found < n; gpus++ {
		for i, word := range r.grid.Bucket(gpus) {
			for ; word != 0 && found < n; word &= word - 1 {
				node := i*64 + bits.TrailingZeros64(word)
				if others && r.uses(node) || slices.Contains(g.Exclude, node) || !r.holds(node, need) {
					continue
				}
				r.used = append(r.used, stretch{node, w})
				found++
			}
		}
	}
	return found
}

func (r *Room) uses(node int) bool {
	return slices.ContainsFunc(r.used, func(s stretch) bool { return s.node == node })
}

func (r *Room) holds(node int, need cluster.Request) bool {
	return r.grid.Obstacle(node, need, nil) == cluster.ReasonNone
}

// meets reports whether a gang can meet on a node: it has a port left, or none at all to give.
func (r *Room) meets(node int) bool {
	if r.grid.Node(node).PortMin == 0 {
		return true
	}
	_, ok := r.port(node)
	return ok
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
