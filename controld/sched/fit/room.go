// Package fit finds room for gangs on the grid of nodes and GPUs.
//
// A gang is placed whole or not at all. Each of its parts gets as few nodes as its workers may
// share. A node must meet the job's constraints. Of these nodes the job's preferences decide, and
// then best fit: the node with the fewest free GPUs that still suffice. Of equal nodes the first by
// name wins. A worker that asks for a part of a GPU gets it where least of the GPU is left over. It
// gets an empty GPU only if no other will do. Whether a worker fits is asked of grid.Fits alone,
// with which Apply checks the plan again.
package fit

import (
	"math/bits"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/grid"
	"github.com/rota-hpc/rota/controld/fsm/state"
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
	view         *state.View
	grid         grid.Grid
	reservations []*model.Reservation
	ports        map[int][]int // ports taken on the copy
	search       search        // the last one: its memory is used again
}

// Reset makes r a copy of the free room of a view, in the memory that r has.
func (r *Room) Reset(v *state.View) {
	r.view, r.reservations = v, append(r.reservations[:0], v.Reservations()...)
	if r.ports == nil {
		r.ports = map[int][]int{}
	}
	clear(r.ports)
	r.grid.CopyFrom(v.Grid())
}

// Fits reports whether a gang could be placed now.
func (r *Room) Fits(g *Gang) bool {
	if len(g.More) > 0 {
		_, ok := r.Place(g)
		return ok
	}
	lifted := r.Lift(g.For)
	defer lifted.Restore()
	return r.searchFor(&g.Component, g.Exclude, nil).find(g.Workers > 1)
}

// Place finds a spot for every worker of a gang, part by part, and takes nothing yet. The first
// spot is on a node where [Room.Take] finds a port, if the gang needs one. False: it does not fit.
func (r *Room) Place(g *Gang) ([]Spot, bool) {
	lifted := r.Lift(g.For)
	defer lifted.Restore()
	if len(g.More) > 0 {
		found, missing := r.placeParts(g)
		if missing >= 0 {
			return nil, false
		}
		return slices.Concat(found...), true
	}
	if f := r.searchFor(&g.Component, g.Exclude, nil); f.find(g.Workers > 1) {
		return f.spots(), true
	}
	return nil, false
}

// Reach returns how many workers of a gang of several parts find room, and the first part that
// finds none; -1: all parts find room.
func (r *Room) Reach(g *Gang) (workers, missing int) {
	lifted := r.Lift(g.For)
	defer lifted.Restore()
	found, missing := r.placeParts(g)
	for _, spots := range found {
		workers += len(spots)
	}
	return workers, missing
}

// placeParts places the parts, those first that are hardest to place, and changes nothing. A part
// that finds no room behind others goes before them at the next try. So others do not take the room
// that only this part can use. It returns the spots of each part that it came to, and the part that
// found no room, -1 if all did.
func (r *Room) placeParts(g *Gang) (spots [][]Spot, missing int) {
	// A part that fails moves to the front, and all are placed again, at most once for each part. If
	// the first part fails, no order helps.
	order := g.Hardest()
	for tries := g.Parts(); ; tries-- {
		found, failed := r.placeInOrder(g, order)
		if failed < 0 {
			return found, -1
		}
		if failed == 0 || tries == 0 {
			return found, order[failed]
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
	asked := map[int]int{}
	defer func() {
		for i, spots := range found {
			for _, s := range spots {
				r.grid.Release(s.Node, g.At(i).Request, orNone(s.GPUs))
			}
		}
	}()
	// ask counts the ports that the workers placed so far will take.
	ask := func(node int) {
		if r.grid.Node(node).PortMin > 0 {
			asked[node]++
		}
	}
	for k, i := range order {
		p := g.At(i)
		f := r.searchFor(p, g.Exclude, asked)
		if !f.find(i == 0) {
			return found, k
		}
		found[i] = f.spots()
		if i == 0 {
			ask(found[i][0].Node) // where the gang meets
		}
		for _, s := range found[i] {
			r.grid.Allocate(s.Node, p.Request, orNone(s.GPUs))
			ask(s.Node)
		}
	}
	return found, -1
}

// Take takes the room of spots that Place has returned and lifts the gang's reservation. It returns
// the port at which the gang meets on its first node. The port is 0 on nodes without a range, and
// for a single worker if none is left. The workers of a gang of several parts get ports of their
// own.
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
