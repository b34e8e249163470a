package replica

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
)

// userJobs has the jobs of each user, and which of them have changed lately. So the list of one
// user's jobs costs by the number of that user's jobs, not of all jobs. It is derived from the
// state, on every controller.
type userJobs struct {
	mu     sync.RWMutex
	byUser map[string]*jobList
	begun  atomic.Uint64 // the index of the last rebuild: changes before it are not known
}

// jobList is the jobs of one user. Once made, it is never removed.
type jobList struct {
	jobs    []model.JobID // ascending, with the ended ones that the state still has
	changes []change      // the newest, oldest first
	whole   uint64        // changes is complete after this index
	last    atomic.Uint64 // index of the newest; may be read without mu
}

// change is one job that was different from this index on.
type change struct {
	index uint64
	job   model.JobID
}

// maxChanges is the number of changes remembered for one user. A caller that is further behind gets
// the whole list.
const maxChanges = 1024

// rebuild replaces all lists by the jobs of a view.
func (f *userJobs) rebuild(v *state.View) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begun.Store(v.Index())
	for _, u := range f.byUser {
		u.reset(v.Index())
	}
	for j := range v.Jobs() {
		u := f.of(j.Owner.User, v)
		u.jobs = append(u.jobs, j.ID)
	}
}

// of returns a user's list, which is made if there is none. Its caller holds mu.
func (f *userJobs) of(user string, v *state.View) *jobList {
	u := f.byUser[user]
	if u == nil {
		u = &jobList{}
		u.reset(v.Index())
		if f.byUser == nil {
			f.byUser = map[string]*jobList{}
		}
		f.byUser[user] = u
	}
	return u
}

// reset empties a list. Changes up to this index are forgotten.
func (u *jobList) reset(index uint64) {
	u.jobs, u.changes, u.whole = nil, nil, index
	u.last.Store(index)
}

// update adds the changes between two views.
func (f *userJobs) update(before, after *state.View, changed []model.JobID) {
	if len(changed) == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	gone := map[*jobList]map[model.JobID]bool{}
	for _, id := range changed {
		j := after.Job(id)
		if j == nil {
			if j = before.Job(id); j != nil {
				u := f.of(j.Owner.User, before)
				if gone[u] == nil {
					gone[u] = map[model.JobID]bool{}
				}
				gone[u][id] = true
			}
			continue
		}
		f.of(j.Owner.User, before).add(id, after.Index())
	}
	for u, ids := range gone {
		u.jobs = slices.DeleteFunc(u.jobs, func(id model.JobID) bool { return ids[id] })
	}
}

// add adds a job that is new or has changed.
func (u *jobList) add(id model.JobID, index uint64) {
	if n := len(u.jobs); n == 0 || u.jobs[n-1] < id {
		u.jobs = append(u.jobs, id)
	} else if i, there := slices.BinarySearch(u.jobs, id); !there {
		u.jobs = slices.Insert(u.jobs, i, id)
	}
	u.last.Store(index)
	u.changes = append(u.changes, change{index, id})
	if extra := len(u.changes) - maxChanges; extra > maxChanges {
		u.whole = u.changes[extra-1].index
		u.changes = slices.Clone(u.changes[extra:])
	}
}

// jobs returns a user's jobs, ascending.
func (f *userJobs) jobs(user string) []model.JobID {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if u := f.byUser[user]; u != nil {
		return slices.Clone(u.jobs)
	}
	return nil
}

// since returns a user's jobs that have changed after an index, ascending, and false if that is not
// remembered.
func (f *userJobs) since(user string, index uint64) ([]model.JobID, bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	u := f.byUser[user]
	if u == nil {
		return nil, index >= f.begun.Load()
	}
	if index < u.whole {
		return nil, false
	}
	var ids []model.JobID
	for i := len(u.changes) - 1; i >= 0 && u.changes[i].index > index; i-- {
		ids = append(ids, u.changes[i].job)
	}
	slices.Sort(ids)
	return slices.Compact(ids), true
}

// changedAfter returns a condition: one of a user's jobs has changed after an index.
func (f *userJobs) changedAfter(user string, index uint64) func(*state.View) bool {
	u := f.known(user)
	return func(*state.View) bool {
		if u == nil {
			now := f.known(user)
			return index < f.begun.Load() || now != nil && now.last.Load() > index
		}
		return u.last.Load() > index
	}
}

func (f *userJobs) known(user string) *jobList {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.byUser[user]
}
