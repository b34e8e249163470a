package index

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/table"
	"github.com/rota-hpc/rota/controld/model"
)

// Dependents is the unfinished jobs that have dependencies, and the jobs by those that they wait
// for. The zero value is empty.
type Dependents struct {
	waiting table.Table[*model.Job]
	by      map[model.JobID][]model.JobID // nil until it is first asked; a view has none
}

// View returns the table of jobs with dependencies as it is now, to be read only.
func (t *Dependents) View() Dependents { return Dependents{waiting: t.waiting.View()} }

// Jobs yields the unfinished jobs that have dependencies, in order of id.
func (t *Dependents) Jobs() iter.Seq[*model.Job] { return t.waiting.Values() }

// Empty reports whether no unfinished job has dependencies.
func (t *Dependents) Empty() bool { return t.waiting.Empty() }

// Size counts the unfinished jobs that have dependencies.
func (t *Dependents) Size() int { return t.waiting.Size() }

// Has reports whether the table has a job as it is.
func (t *Dependents) Has(j *model.Job) bool {
	got, _ := t.waiting.Get(int64(j.ID))
	return got == j
}

// Knows reports whether the table has a job with some id.
func (t *Dependents) Knows(id model.JobID) bool {
	_, in := t.waiting.Get(int64(id))
	return in
}

// Update keeps the index in step with a job that has changed from old, nil if it is new, to next.
func (t *Dependents) Update(old, next *model.Job) {
	before, after := old.Targets(), next.Targets()
	if t.by != nil && !slices.Equal(before, after) {
		t.link(next.ID, before, after)
	}
	switch {
	case len(next.Dependencies) > 0 && !next.State.Final():
		t.waiting.Set(int64(next.ID), next)
	case old != nil && len(old.Dependencies) > 0:
		t.waiting.Drop(int64(next.ID))
	}
}

func (t *Dependents) link(id model.JobID, before, after []model.JobID) {
	for _, target := range before {
		if _, still := slices.BinarySearch(after, target); !still {
			if t.by[target] = withoutID(t.by[target], id); len(t.by[target]) == 0 {
				delete(t.by, target)
			}
		}
	}
	for _, target := range after {
		if _, was := slices.BinarySearch(before, target); !was {
			t.by[target] = withID(t.by[target], id)
		}
	}
}

// Of returns the jobs that wait for another, ascending.
func (t *Dependents) Of(target model.JobID) []model.JobID {
	if t.by == nil {
		t.by = t.anew()
	}
	return t.by[target]
}

func (t *Dependents) anew() map[model.JobID][]model.JobID {
	by := map[model.JobID][]model.JobID{}
	for id, j := range t.waiting.From(0) {
		for _, target := range j.Targets() {
			by[target] = append(by[target], model.JobID(id))
		}
	}
	return by
}

// Check compares the index with the jobs of a state.
func (t *Dependents) Check(jobs iter.Seq[*model.Job], note func(error)) {
	waiting := 0
	for j := range jobs {
		if j.State.Final() || len(j.Dependencies) == 0 {
			continue
		}
		waiting++
		if !t.Has(j) {
			note(fmt.Errorf("job %d has dependencies, but is missing from the index of dependent jobs", j.ID))
		}
	}
	if waiting != t.Size() {
		note(fmt.Errorf("index of jobs with dependencies has %d entries for %d", t.Size(), waiting))
	}
	if t.by != nil && !maps.EqualFunc(t.by, t.anew(), slices.Equal[[]model.JobID]) {
		note(fmt.Errorf("the index of dependents is %v, recomputed %v", t.by, t.anew()))
	}
}

// CheckTarget compares the dependents of one job, if the index has been made, with what an auditor
// knows of them.
func (t *Dependents) CheckTarget(target model.JobID, want []model.JobID) error {
	if t.by != nil && !slices.Equal(t.by[target], want) {
		return fmt.Errorf("the dependents of job %d are %v, recomputed %v", target, t.by[target], want)
	}
	return nil
}
