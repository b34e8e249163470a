package present

import (
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm/state"
)

// Witnesses returns the newest set of witnesses with the addresses of its members, nil if there is none.
func Witnesses(v *state.View) *api.Witnesses {
	newest := v.Chosen().Newest()
	if newest == nil {
		return nil
	}
	out := &api.Witnesses{Set: *newest, Addrs: make([]string, len(newest.Members))}
	for i, name := range newest.Members {
		if n, _ := v.Node(name); n != nil {
			out.Addrs[i] = n.Addr
		}
	}
	return out
}
