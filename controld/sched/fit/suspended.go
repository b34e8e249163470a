package fit

import (
	"math/bits"

	"github.com/rota-hpc/rota/controld/fsm/grid"
	"github.com/rota-hpc/rota/controld/model"
)

// Suspended is one worker of a suspended attempt: where it is, what it keeps there, and what it
// needs to go on.
type Suspended struct {
	Node  int
	Keeps model.Request
	Needs model.Request
}

// Resume takes the room with which suspended workers go on, or none if they do not all find it, and
// returns the GPUs of each.
func (r *Room) Resume(workers []Suspended) ([][]int, bool) {
	gpus := make([][]int, len(workers))
	for i, w := range workers {
		r.grid.Release(w.Node, w.Keeps, []int{})
		n := int(w.Needs.Active.GPUs / model.WholeGPU)
		if free := r.grid.FreeGPUs(w.Node); bits.OnesCount64(free) >= n &&
			r.grid.ObstacleAgain(w.Node, w.Needs, nil) == model.ReasonNone {
			gpus[i] = list(free)[:n]
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

// Join takes what a suspended worker needs beside the GPU that others share with it, and reports
// whether it found that.
func (r *Room) Join(w Suspended) bool {
	r.grid.Release(w.Node, w.Keeps, []int{})
	if r.grid.ObstacleAgain(w.Node, w.Needs, []int{}) != model.ReasonNone {
		r.grid.Allocate(w.Node, w.Keeps, []int{})
		return false
	}
	r.grid.Allocate(w.Node, w.Needs, []int{})
	return true
}
