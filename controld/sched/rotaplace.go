package sched

import (
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/jobspec"
)

// place finds spots for a gang. A single worker that likes all nodes alike goes where it takes no room that is kept free for
// trial-and-error jobs if it can, and where it leaves least of what is scarce or, once parts of GPUs are asked for, where it leaves most of those usable.
func (t *rotaPolicy) place(c *contender) ([]fit.Spot, bool) {
	g := c.gang(t.trial)
	var lost func(int, cluster.Request) int
	if c.job.Class == jobspec.BE && t.spare != nil {
		lost = t.spare.cost
	}
	alone := g.Size() == 1 && g.Levels == nil
	switch {
	case alone && t.pack.sharing():
		spots, ok := t.pack.leaveUsable(g, lost)
		return spots, ok && t.spare.allows(c.job, g, spots)
	case !alone || len(t.view.Nodes()) > packNodes:
		spots, ok := t.room.Place(g)
		return spots, ok && t.spare.allows(c.job, g, spots)
	}
	node := t.pack.tightest(g, lost)
	if node < 0 {
		return nil, false
	}
	spots, ok := t.room.PlaceOn(g, node)
	return spots, ok && t.spare.allows(c.job, g, spots)
}
