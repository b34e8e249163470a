package sched

import (
	"cmp"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/preempt"
	"github.com/rota-hpc/rota/controld/sched/rota"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// Cache is the cycle cache. It runs cycles and keeps the memory of each for the next. So the next
// cycle begins with memory that it can use, and need not look again at jobs that have not changed.
// On a large cluster, making it anew and the garbage collection are most of the cost of a decision.
// The plan does not depend on the cache: it equals the plan of [Cycle], whatever views the cache
// has seen. The zero value is ready for use. It is not for concurrent use.
type Cache struct{ memory memory }

// Cycle is the function [Cycle] with this cache.
func (c *Cache) Cycle(v *state.View, now model.Instant, p cluster.Policy) (fsm.CommitPlan, model.Instant) {
	return planOf(v, now, p, &c.memory)
}

// memory is the data that a cycle may take over from an earlier cycle and overwrite. The zero value
// is an empty memory.
type memory struct {
	room       fit.Room
	due        scratch.Pages[model.Instant] // when the first time limit or deadline of the attempts of a page is over
	candidates preempt.Cache
	headroom   rota.Cache
	maxStarts  int     // of one cycle; 0: as the tunables say. Only tests set it
	dry        *memory // memory of the hypothetical cycles of a dry run; nil until there is one
}

// limit sets how many jobs a cycle starts at most.
func (m *memory) limit(t *scratch.State) { t.MaxStarts = cmp.Or(m.maxStarts, t.MaxStarts) }
