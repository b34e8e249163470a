package fit

import "github.com/rota-hpc/rota/controld/fsm"

// NewRoom copies the free room of a view.
func NewRoom(v *fsm.View) *Room {
	r := &Room{}
	r.Reset(v)
	return r
}
