package state

import (
	"iter"

	"github.com/rota-hpc/rota/controld/model"
)

// Child returns child n of a parent job, or nil if it has not been made or has left the state.
func (v *View) Child(parent model.JobID, n int) *model.Job {
	if j := v.Job(parent + model.JobID(n)); j != nil && j.Parent == parent {
		return j
	}
	return nil
}

// ChildrenOf yields the children that have been made and are in the state, by number. Those that
// have ended may have left it: the history has them.
func (v *View) ChildrenOf(parent model.JobID) iter.Seq[*model.Job] {
	j := v.Job(parent)
	if j == nil || j.Children == nil {
		return func(func(*model.Job) bool) {}
	}
	return v.MadeTasks(j)
}

// MadeTasks yields the children of a parent job that have been made and are in the state, by
// number.
func (v *View) MadeTasks(parent *model.Job) iter.Seq[*model.Job] {
	return func(yield func(*model.Job) bool) {
		for n := range parent.Children.MadeTasks().All() {
			if m := v.Job(parent.TaskID(n)); m != nil && !yield(m) {
				return
			}
		}
	}
}

// ParentOf returns the parent job that an id belongs to and the number of the child, whether it has
// been made or not. Nil and 0: it is the id of no child of a parent job in the state.
func (v *View) ParentOf(id model.JobID) (*model.Job, int) {
	r := v.JobBefore(id)
	if r != nil && r.Parent != 0 {
		r = v.Job(r.Parent)
	}
	if r == nil || r.Children == nil || id <= r.ID || id > r.ID+model.JobID(r.Children.Size) {
		return nil, 0
	}
	return r, int(id - r.ID)
}
