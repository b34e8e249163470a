package state

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
)

// nameKey is the scope in which a job is found by name.
type nameKey struct {
	uid  uint32
	name string
}

// named is the jobs of one owner with one name, ascending. Members of parent jobs have none of their own.
type named struct {
	all  []model.JobID // those in the state
	open []model.JobID // those that have not ended
}

// sameName returns the jobs of an owner with a name, nil if there are none. The index is made when it is first needed: most clusters never
// do, and then it costs nothing.
func (s *State) sameName(uid uint32, name string) *named {
	if s.names == nil {
		s.names = map[nameKey]*named{}
		for j := range s.v.jobs.Values() {
			s.callName(j)
		}
	}
	return s.names[nameKey{uid, name}]
}

func nameKeyOf(j *model.Job) nameKey { return nameKey{j.Owner.UID, j.Spec.Name} }

// callName adds a job to the index by name.
func (s *State) callName(j *model.Job) {
	if j.Parent != 0 {
		return
	}
	k := nameKeyOf(j)
	n := s.names[k]
	if n == nil {
		n = &named{}
		s.names[k] = n
	}
	n.all = withID(n.all, j.ID)
	if !j.State.Final() {
		n.open = withID(n.open, j.ID)
	}
}

// forgetName is the reverse of callName.
func (s *State) forgetName(j *model.Job) {
	k := nameKeyOf(j)
	n := s.names[k]
	if n == nil || j.Parent != 0 {
		return
	}
	n.all, n.open = withoutID(n.all, j.ID), withoutID(n.open, j.ID)
	if len(n.all) == 0 {
		delete(s.names, k)
	}
}

// renamed keeps the index by name in step with a job that has changed.
func (s *State) renamed(old, next *model.Job) {
	switch {
	case s.names == nil || next.Parent != 0:
	case old == nil:
		s.callName(next)
	case old.Spec != next.Spec && nameKeyOf(old) != nameKeyOf(next):
		s.forgetName(old)
		s.callName(next)
	case !old.State.Final() && next.State.Final():
		n := s.names[nameKeyOf(next)]
		n.open = withoutID(n.open, next.ID)
	}
}

// NewestNamed returns the youngest job of an owner with a name, 0 if the state has none.
func (s *State) NewestNamed(uid uint32, name string) model.JobID {
	if n := s.sameName(uid, name); n != nil {
		return n.all[len(n.all)-1]
	}
	return 0
}

// OpenNamedBefore returns the youngest job older than id that has its owner and name and has not ended, 0 if there is none.
func (s *State) OpenNamedBefore(id model.JobID, uid uint32, name string) model.JobID {
	n := s.sameName(uid, name)
	if n == nil {
		return 0
	}
	if i, _ := slices.BinarySearch(n.open, id); i > 0 {
		return n.open[i-1]
	}
	return 0
}

// withID adds an id to an ascending list that has one owner.
func withID(list []model.JobID, id model.JobID) []model.JobID {
	if n := len(list); n == 0 || list[n-1] < id {
		return append(list, id)
	}
	i, found := slices.BinarySearch(list, id)
	if found {
		return list
	}
	return slices.Insert(list, i, id)
}

// withoutID removes an id from an ascending list that has one owner. It moves what is on the shorter side, so that emptying a long list from
// either end takes no time to speak of.
func withoutID(list []model.JobID, id model.JobID) []model.JobID {
	i, found := slices.BinarySearchFunc(list, id, cmp.Compare[model.JobID])
	switch {
	case !found:
		return list
	case i < len(list)/2:
		copy(list[1:i+1], list[:i])
		return list[1:]
	}
	return slices.Delete(list, i, i+1)
}
