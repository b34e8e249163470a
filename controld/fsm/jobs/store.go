// Package jobs stores jobs in the state and settles what follows for other jobs. A child changes its
// parent job, and the end of a job changes the jobs that depend on it.
//
// A parent job is an array job, or a job whose groups run one by one. It runs nothing itself: its
// children, array tasks or group jobs, do.
package jobs

import (
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
)

// Store puts jobs into a state. It collects what one entry of the log does to children, and to jobs
// on which others depend. Settle carries that on, before the entry is over.
type Store struct {
	state *state.State
	view  *state.View // the present, as the entry in progress has left it

	// jobs to look at because of their dependencies; between entries, those that are unsettled and
	// others
	due          idHeap
	ended        []EndedTasks                  // tasks to be told to those that follow them; empty between entries
	childChanges map[model.JobID]*childChanges // what the entry has done to children; empty between entries
}

// New returns a store that goes on from a state.
func New(s *state.State) *Store {
	t := &Store{state: s, view: s.Present()}
	if t.view.HasUnsettled() {
		for j := range t.view.WithDependencies() {
			t.due = append(t.due, j.ID) // ascending is a heap
		}
	}
	return t
}

// Put stores a job that a command has made or changed, and notes which jobs wait for the change.
func (s *Store) Put(next *model.Job) {
	s.notifyDependents(s.state.Put(next), next)
}

// Settle carries on what the entry has done: children to their parent jobs, and then ended jobs to
// the jobs that depend on them.
func (s *Store) Settle() {
	s.settleParents()
	s.settleDependencies()
}
