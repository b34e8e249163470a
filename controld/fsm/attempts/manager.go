// Package attempts begins attempts of jobs, changes them while they run, and ends them. It takes in
// the news of their workers.
package attempts

import (
	"github.com/rota-hpc/rota/controld/fsm/jobs"
	"github.com/rota-hpc/rota/controld/fsm/state"
)

// Manager changes attempts of jobs in a state. A change that is not possible returns an error and
// leaves the state as it was.
type Manager struct {
	state *state.State
	view  *state.View // the present, as the entry in progress has left it
	jobs  *jobs.Store
}

// New returns a manager of the attempts in a state, which stores jobs in a store of that state.
func New(s *state.State, j *jobs.Store) *Manager {
	return &Manager{state: s, view: s.Present(), jobs: j}
}
