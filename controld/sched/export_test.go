package sched

import (
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
)

// Names for tests, which are in a package of their own.

// Reused returns how many pages of attempts the last cycle took over from the one before: of
// candidates, and of ends.
func (c *Cache) Reused() (candidates, ends int) {
	return c.memory.candidates.Reused(), c.memory.due.Size()
}

// AtMost returns a cache whose cycles end after n starts.
func AtMost(n int) *Cache { return &Cache{memory{maxStarts: n}} }

// Reason returns why a job waits, as a cycle with this cache sees it.
func (c *Cache) Reason(v *state.View, now model.Instant, p cluster.Policy, id model.JobID) model.Reason {
	return reasonsWith(v, now, p, &c.memory).Reason(id)
}
