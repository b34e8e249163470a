package fit

import (
	"iter"
	"maps"
	"math/bits"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
)

// Copy returns a copy on which things can be tried that the original does not see.
func (r *Room) Copy() *Room {
	c := &Room{view: r.view, reservations: slices.Clone(r.reservations), ports: maps.Clone(r.ports)}
	c.grid.CopyFrom(&r.grid)
	return c
}

// Up reports whether a node may get work.
func (r *Room) Up(node int) bool { return r.grid.Up(node) }

// WithGPUs yields the nodes with at least the given number of empty GPUs. They may get work, and no
// job has them for itself.
func (r *Room) WithGPUs(least int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, node := range r.byEmptyGPUs(max(0, least), nil, nil) {
			if !yield(node) {
				return
			}
		}
	}
}

// byEmptyGPUs yields the same nodes, as far as they are in two sets, behind how many empty GPUs
// each has: those with the fewest first.
func (r *Room) byEmptyGPUs(least int, among, and NodeSet) iter.Seq2[int, int] {
	return func(yield func(empty, node int) bool) {
		for empty := least; empty < r.grid.Buckets(); empty++ {
			for i, word := range r.grid.Bucket(empty) {
				if among != nil {
					word &= among[i]
				}
				if and != nil {
					word &= and[i]
				}
				for ; word != 0; word &= word - 1 {
					if !yield(empty, i*64+bits.TrailingZeros64(word)) {
						return
					}
				}
			}
		}
	}
}

// Release frees the room of a worker on a node as if it had ended: for looking ahead. Its port
// stays taken.
func (r *Room) Release(node int, q model.Request, gpus []int) { r.grid.Release(node, q, orNone(gpus)) }

// PutBack undoes [Room.Release].
func (r *Room) PutBack(node int, q model.Request, gpus []int) { r.grid.Allocate(node, q, orNone(gpus)) }
