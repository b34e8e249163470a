package state

import (
	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/fsm/groups"
	"github.com/rota-hpc/rota/controld/fsm/index"
)

// forkedEpoch is above every epoch that a live state reaches, so that a fork owns nothing of what
// it was made from.
const forkedEpoch = 1 << 62

// Fork returns a state of its own that begins as the view is: for trying out what would happen. It
// shares everything that it does not change, so it costs little at any size. Readers of the view,
// and its state, see nothing of the fork's changes. It knows no idempotency keys. Several forks of
// one view may live side by side.
func Fork(v *View) *State {
	s := &State{v: *v, epoch: forkedEpoch, sharesArrays: true}
	s.v.keys = index.Keys{}
	s.groups = groups.Fork(&s.v.groups)
	s.names = index.NewNames(s.v.Jobs)
	s.recorder = estimate.NewRecorder(&s.v.statistics)
	s.v.usageCounters = v.usageCounters.Fork()
	s.v.limitUses = v.limitUses.Fork()
	s.v.usage = v.usage.Fork()
	return s
}
