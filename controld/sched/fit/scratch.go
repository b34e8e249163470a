package fit

import (
	"maps"
	"slices"

	"github.com/rota-hpc/rota/controld/cluster"
)

// Copy returns a copy on which things can be tried that the original does not see.
func (r *Room) Copy() *Room {
	c := &Room{view: r.view, reservations: slices.Clone(r.reservations), ports: maps.Clone(r.ports)}
	c.grid.CopyFrom(&r.grid)
	return c
}

// Up reports whether a node may get work.
func (r *Room) Up(node int) bool { return r.grid.Up(node) }

// Release gives back what a worker holds on a node, as if it had ended: for looking ahead. Its port stays taken.
func (r *Room) Release(node int, q cluster.Request, gpus []int) { r.grid.Give(node, q, orNone(gpus)) }
