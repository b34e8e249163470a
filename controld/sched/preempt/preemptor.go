package preempt

import (
	"github.com/rota-hpc/rota/controld/sched/elastic"
	"github.com/rota-hpc/rota/controld/sched/place"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// Preemptor finds the jobs that leave so that another one can start, for policies that weigh what each of them costs.
type Preemptor struct {
	state      *scratch.State
	cache      *Cache
	packer     *place.Packer
	Elastic    []*elastic.Job // jobs that could give up workers
	Candidates *Candidates    // nil until it is needed
	holders    [][]holder     // see tenants
}

// NewPreemptor returns a preemptor for one cycle.
func NewPreemptor(t *scratch.State, cache *Cache, packer *place.Packer) *Preemptor {
	return &Preemptor{state: t, cache: cache, packer: packer}
}

// All returns the candidates with what each costs, which are listed once a cycle.
func (m *Preemptor) All() *Candidates {
	if m.Candidates == nil {
		m.Candidates = NewCandidates(m.state, m.cache)
		m.Candidates.price(m.state)
	}
	return m.Candidates
}
