package index

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
)

// Name is the scope in which a job is found by name.
type Name struct {
	UID  uint32
	Name string
}

// NameOf returns that of a job.
func NameOf(j *model.Job) Name { return Name{j.Owner.UID, j.Spec.Name} }

// Names is the jobs of each owner and name. Children of parent jobs have no name of their own. The
// index is made when it is first asked: most clusters never ask, and then it costs nothing.
type Names struct {
	jobs func() iter.Seq[*model.Job]
	by   map[Name]*named
}

// named is the jobs of one owner with one name, ascending.
type named struct {
	all  []model.JobID // those in the state
	open []model.JobID // those that have not ended
}

// NewNames returns the index of the jobs that a function yields in order of id.
func NewNames(jobs func() iter.Seq[*model.Job]) Names { return Names{jobs: jobs} }

func (t *Names) of(n Name) *named {
	if t.by == nil {
		t.by = t.anew()
	}
	return t.by[n]
}

func (t *Names) anew() map[Name]*named {
	fresh := Names{by: map[Name]*named{}}
	for j := range t.jobs() {
		fresh.add(j)
	}
	return fresh.by
}

func (t *Names) add(j *model.Job) {
	if j.Parent != 0 {
		return
	}
	n := t.by[NameOf(j)]
	if n == nil {
		n = &named{}
		t.by[NameOf(j)] = n
	}
	n.all = withID(n.all, j.ID)
	if !j.State.Final() {
		n.open = withID(n.open, j.ID)
	}
}

// Forget drops a job that leaves the state.
func (t *Names) Forget(j *model.Job) {
	n := t.by[NameOf(j)]
	if n == nil || j.Parent != 0 {
		return
	}
	n.all, n.open = withoutID(n.all, j.ID), withoutID(n.open, j.ID)
	if len(n.all) == 0 {
		delete(t.by, NameOf(j))
	}
}

// Update keeps the index in step with a job that has changed from old, nil if it is new, to next.
func (t *Names) Update(old, next *model.Job) {
	switch {
	case t.by == nil || next.Parent != 0:
	case old == nil:
		t.add(next)
	case old.Spec != next.Spec && NameOf(old) != NameOf(next):
		t.Forget(old)
		t.add(next)
	case !old.State.Final() && next.State.Final():
		n := t.by[NameOf(next)]
		n.open = withoutID(n.open, next.ID)
	}
}

// Newest returns the youngest job with a name, 0 if there is none.
func (t *Names) Newest(of Name) model.JobID {
	if n := t.of(of); n != nil {
		return n.all[len(n.all)-1]
	}
	return 0
}

// OpenBefore returns the youngest job older than id that has a name and has not ended, 0 if there
// is none.
func (t *Names) OpenBefore(id model.JobID, of Name) model.JobID {
	if n := t.of(of); n != nil {
		if i, _ := slices.BinarySearch(n.open, id); i > 0 {
			return n.open[i-1]
		}
	}
	return 0
}

// Check compares the index, if it has been made, with one made anew.
func (t *Names) Check() error {
	if t.by == nil {
		return nil
	}
	same := func(a, b *named) bool { return slices.Equal(a.all, b.all) && slices.Equal(a.open, b.open) }
	if want := t.anew(); !maps.EqualFunc(t.by, want, same) {
		return fmt.Errorf("the index of names has %d entries for %d jobs, or wrong ones", len(t.by), len(want))
	}
	return nil
}

// NameCount counts the jobs with one name, for an auditor.
type NameCount struct{ All, Open int }

// CheckCount compares the index, if it has been made, with what an auditor counted of one name.
func (t *Names) CheckCount(name Name, want NameCount) error {
	if t.by == nil {
		return nil
	}
	got := t.by[name]
	if got == nil {
		got = &named{}
	}
	if len(got.all) != want.All || len(got.open) != want.Open {
		return fmt.Errorf("the index of names has the wrong jobs for name %q", name.Name)
	}
	return nil
}

// CheckJob says whether the index, if it has been made, has a job that has a name of its own.
func (t *Names) CheckJob(j *model.Job) error {
	if t.by == nil {
		return nil
	}
	n := t.by[NameOf(j)]
	if n == nil {
		n = &named{}
	}
	_, in := slices.BinarySearch(n.all, j.ID)
	if _, open := slices.BinarySearch(n.open, j.ID); !in || open == j.State.Final() {
		return fmt.Errorf("the index of names has a wrong entry for job %d", j.ID)
	}
	return nil
}
