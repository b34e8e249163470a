package sched

// preemptor finds the jobs that leave so that another one can start, for policies that weigh what each of them costs.
type preemptor struct {
	state   *trial
	cache   *candidateCache
	packer  *packer
	elastic []*flexible // jobs that could give up workers
	roster  *roster     // nil until it is needed
	lodging [][]tenant  // see tenants
}

// all returns the candidates with what each costs, which are listed once a cycle.
func (m *preemptor) all() *roster {
	if m.roster == nil {
		m.roster = newRoster(m.state, m.cache)
		m.roster.price(m.state)
	}
	return m.roster
}
