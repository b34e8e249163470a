package fit

import "github.com/rota-hpc/rota/controld/fsm/state"

// NewRoom copies the free room of a view.
func NewRoom(v *state.View) *Room {
	r := &Room{}
	r.Reset(v)
	return r
}
