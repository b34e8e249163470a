package rota

import (
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/place"
	"github.com/rota-hpc/rota/controld/sched/queue"
	"github.com/rota-hpc/rota/jobspec"
)

// place finds spots for a gang. A single worker that likes all nodes alike avoids room that is kept
// free for trial-and-error jobs if it can. It goes where it leaves least of what is scarce. Once
// parts of GPUs are asked for, it goes where most of those stays usable.
func (t *rotaPolicy) place(c *queue.Contender) ([]fit.Spot, bool) {
	g := c.Gang(t.state)
	var lost func(int, model.Request) int
	if c.Job.Class == jobspec.BE && t.spare != nil {
		lost = t.spare.cost
	}
	var spots []fit.Spot
	ok, alone := false, g.Size() == 1 && g.Levels == nil
	switch {
	case alone && t.pack.Sharing():
		spots, ok = t.pack.LeaveUsable(g, lost)
	case !alone || len(t.state.View.Nodes()) > place.PackNodes:
		spots, ok = t.state.Room.Place(g)
	default:
		if node := t.pack.Tightest(g, lost); node >= 0 {
			spots, ok = t.state.Room.PlaceOn(g, node)
		}
	}
	return spots, ok && t.spare.allows(c.Job, g, spots)
}
