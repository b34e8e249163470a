package fit

import (
	"math/bits"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/grid"
	"github.com/rota-hpc/rota/controld/model"
)

// Suspended is one worker of a suspended attempt: its node, the room that it keeps there, and the
// room that it needs to resume.
type Suspended struct {
	Node  int
	Keeps model.Request
	Needs model.Request
	Had   []int // the GPUs that it had, if its node can give it no others
}

// find returns the GPUs with which a suspended worker can go on, false if they are not free.
func (w Suspended) find(free uint64) ([]int, bool) {
	if w.Had != nil {
		return w.Had, !slices.ContainsFunc(w.Had, func(g int) bool { return free&(1<<g) == 0 })
	}
	n := int(w.Needs.Active.GPUs / model.WholeGPU)
	if bits.OnesCount64(free) < n {
		return nil, false
	}
	return list(free)[:n], true
}

// Resume takes the room with which suspended workers go on, or none if they do not all find it, and
// returns the GPUs of each.
func (r *Room) Resume(workers []Suspended) ([][]int, bool) {
	gpus := make([][]int, len(workers))
	for i, w := range workers {
		// The worker gives back its kept room and takes the room that it needs. If one worker finds
		// no room, all before it are undone.
		r.grid.Release(w.Node, w.Keeps, []int{})
		if found, ok := w.find(r.grid.FreeGPUs(w.Node)); ok &&
			r.grid.ObstacleAgain(w.Node, w.Needs, nil) == model.ReasonNone {
			gpus[i] = found
			r.grid.Allocate(w.Node, w.Needs, grid.OrNone(gpus[i]))
			continue
		}
		r.grid.Allocate(w.Node, w.Keeps, []int{})
		for k, o := range workers[:i] {
			r.grid.Release(o.Node, o.Needs, gpus[k])
			r.grid.Allocate(o.Node, o.Keeps, []int{})
		}
		return nil, false
	}
	return gpus, true
}

// Join takes the room that a suspended worker needs beside its shared GPU, and reports whether it
// found it.
func (r *Room) Join(w Suspended) bool {
	r.grid.Release(w.Node, w.Keeps, []int{})
	if r.grid.ObstacleAgain(w.Node, w.Needs, []int{}) != model.ReasonNone {
		r.grid.Allocate(w.Node, w.Keeps, []int{})
		return false
	}
	r.grid.Allocate(w.Node, w.Needs, []int{})
	return true
}
