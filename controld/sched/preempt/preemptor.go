// Package preempt finds the running jobs that leave so that another job can start.
//
// [Candidates] are the jobs that could be asked, each with its cost: size, grace period, and the
// work that would be lost. A [Question] says which of them may leave for one job. The search finds
// the cheapest set of them that frees enough room. An elastic job may give up workers instead of
// all its room: that is a partial preemption, an entry of its own. Where GPUs are shared, the
// search looks at each GPU by itself.
package preempt

import (
	"github.com/rota-hpc/rota/controld/sched/elastic"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// Preemptor finds the jobs that leave so that another one can start, for policies that weigh what
// each of them costs.
type Preemptor struct {
	state      *scratch.State
	cache      *Cache
	Elastic    []*elastic.RunningJob // jobs that could give up workers
	Candidates *Candidates           // nil until it is needed
	holders    [][]holder            // see holdersOn
}

// NewPreemptor returns a preemptor for one cycle.
func NewPreemptor(t *scratch.State, cache *Cache) *Preemptor {
	return &Preemptor{state: t, cache: cache}
}

// All returns the candidates with what each costs, which are listed once a cycle.
func (m *Preemptor) All() *Candidates {
	if m.Candidates == nil {
		m.Candidates = newCandidates(m.state, m.cache, true)
		m.Candidates.price(m.state)
	}
	return m.Candidates
}
