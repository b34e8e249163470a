package model

import (
	"github.com/rota-hpc/rota/controld/model/ranges"
	"github.com/rota-hpc/rota/jobspec"
)

// Children is what a parent job knows of its children. Their ids follow its own: child n has id ID
// + n. Members of an array are made when they start, those of a job with several groups when it is
// submitted.
type Children struct {
	Size      int           `json:"size"`
	Waiting   ranges.Ranges `json:"waiting,omitempty"`    // children not made yet
	Dropped   ranges.Ranges `json:"dropped,omitempty"`    // cancelled before they were made
	Ready     ranges.Ranges `json:"ready,omitempty"`      // with aftercorr: waiting, and the counterpart has completed
	HeldUser  ranges.Ranges `json:"held_user,omitempty"`  // of Waiting: held by their owner one by one
	HeldAdmin ranges.Ranges `json:"held_admin,omitempty"` // by an operator
	Live      int           `json:"live"`                 // made and not ended
	Completed int           `json:"completed,omitempty"`  // ended well
	Failed    int           `json:"failed,omitempty"`     // ended in any other way but cancelled
	Cancelled int           `json:"cancelled,omitempty"`  // made and cancelled
	// those counted by Failed and Cancelled: they may have left the state
	Unsuccessful ranges.Ranges `json:"unsuccessful,omitempty"`
	// those of Dropped and Unsuccessful that early stopping cancelled: the array is complete without them
	Pruned ranges.Ranges `json:"pruned,omitempty"`

	// Fate is the state in which the parent job will end once its last child has, when that was
	// decided for the whole of it.
	Fate JobState `json:"fate,omitempty"`
}

// TaskOrder yields a parent's startable children in the order in which they should start: see
// [Job.Startable].
type TaskOrder struct {
	ready ranges.Ranges
	left  int
	mix   shuffle // of an array in random order
	rank  int
	size  int
}

// MaxArrayTasks bounds the children of one parent job. Their ids are given with its own.
const MaxArrayTasks = jobspec.MaxElements

// Trim keeps the sets that are about waiting children within them.
func (f *Children) Trim() {
	f.Ready, f.HeldUser, f.HeldAdmin = f.Ready.Both(f.Waiting), f.HeldUser.Both(f.Waiting), f.HeldAdmin.Both(f.Waiting)
}

// Drop gives up waiting children.
func (f *Children) Drop(members ranges.Ranges) {
	f.Dropped = f.Dropped.With(members.Both(f.Waiting))
	f.Waiting = f.Waiting.Without(members)
	f.Trim()
}

// Made returns how many children have been made, those that have ended included.
func (f *Children) Made() int { return f.Live + f.Completed + f.Failed + f.Cancelled }

// Waits reports whether a job, or a child of a parent job that is not made yet, waits to be
// started. It may be held.
func (j *Job) Waits() bool { return j.StillToStart() }

// Ready returns the waiting children that nothing keeps from starting but room and max_parallel.
func (j *Job) Ready() ranges.Ranges {
	r := j.MayStart()
	if f := j.Children; len(f.HeldUser)+len(f.HeldAdmin) > 0 {
		r = r.Without(f.HeldUser).Without(f.HeldAdmin)
	}
	return r
}

// Startable returns how many children of a parent may start now as far as the parent is concerned.
// They are pending, not held, and within max_parallel.
func (j *Job) Startable() int {
	return min(j.Ready().Len(), j.Slots())
}

// Slots returns how many more children may live at once.
func (j *Job) Slots() int {
	most := MaxArrayTasks
	if a := j.Spec.Array; a != nil && a.MaxParallel > 0 {
		most = a.MaxParallel
	}
	return max(0, most-j.Children.Live)
}

// TaskOrder begins with the child that should start next.
func (j *Job) TaskOrder() *TaskOrder {
	t := &TaskOrder{ready: j.Ready(), size: j.Children.Size}
	t.left = min(t.ready.Len(), j.Slots())
	if a := j.Spec.Array; a != nil && a.Order == "random" {
		t.mix = newShuffle(uint64(j.ID), t.size)
	}
	return t
}

// Len returns how many children it will still yield.
func (t *TaskOrder) Len() int { return t.left }

// Next returns the next child, 0 if there is none.
func (t *TaskOrder) Next() int {
	if t.left == 0 {
		return 0
	}
	t.left--
	if t.mix.rounds != nil {
		for ; ; t.rank++ {
			if member := 1 + t.mix.at(t.rank); t.ready.Has(member) {
				t.rank++
				return member
			}
		}
	}
	for t.rank >= t.ready[0].Last {
		t.ready = t.ready[1:]
	}
	t.rank = max(t.rank+1, t.ready[0].First)
	return t.rank
}

// StartableAttempts returns for how many attempts a job asks now. That is 1 for a job that waits
// and is not set aside, and for a parent job the number of children that may start.
func (j *Job) StartableAttempts() int64 {
	switch {
	case j == nil || !j.StillToStart() || IsSetAside(j):
		return 0
	case j.Children != nil:
		return int64(j.Startable())
	}
	return 1
}
