package state

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/lifecycle"
	"github.com/rota-hpc/rota/controld/model"
)

// updateDependents keeps the index of dependents in step with a job that has changed.
func (s *State) updateDependents(old, next *model.Job) {
	before, after := old.Targets(), next.Targets()
	if !slices.Equal(before, after) {
		s.link(next.ID, before, after)
	}
	switch {
	case len(next.Dependencies) > 0 && !next.State.Final():
		s.v.needing.Set(int64(next.ID), next)
	case old != nil && len(old.Dependencies) > 0:
		s.v.needing.Drop(int64(next.ID))
	}
}

func (s *State) link(id model.JobID, before, after []model.JobID) {
	if s.dependents == nil {
		return // made when it is needed, from the table of jobs with dependencies
	}
	for _, t := range before {
		if _, still := slices.BinarySearch(after, t); !still {
			s.setDependents(t, withoutID(s.dependents[t], id))
		}
	}
	for _, t := range after {
		if _, was := slices.BinarySearch(before, t); !was {
			s.setDependents(t, withID(s.dependents[t], id))
		}
	}
}

func (s *State) setDependents(target model.JobID, list []model.JobID) {
	if len(list) == 0 {
		delete(s.dependents, target)
		return
	}
	s.dependents[target] = list
}

// DependentsOf returns the jobs that wait for another, ascending.
func (s *State) DependentsOf(target model.JobID) []model.JobID {
	if s.dependents == nil {
		s.dependents = s.allDependents()
	}
	return s.dependents[target]
}

// allDependents makes the index anew.
func (s *State) allDependents() map[model.JobID][]model.JobID {
	index := map[model.JobID][]model.JobID{}
	for id, j := range s.v.needing.From(0) {
		for _, t := range j.Targets() {
			index[t] = append(index[t], model.JobID(id))
		}
	}
	return index
}

// checkNeeds compares what is derived from dependencies with what it is derived from.
func (s *State) checkNeeds(note func(error)) {
	needing := 0
	for j := range s.v.jobs.Values() {
		if j.State.Final() || len(j.Dependencies) == 0 {
			continue
		}
		needing++
		if got, _ := s.v.needing.Get(int64(j.ID)); got != j {
			note(fmt.Errorf("job %d has dependencies and is not in the index of such jobs", j.ID))
		}
		if s.Unsettled(j) && !s.v.unsettled {
			note(fmt.Errorf("job %d has dependencies %+v of which the outcome is known and nothing followed", j.ID, j.Dependencies))
		}
	}
	if needing != s.v.needing.Size() {
		note(fmt.Errorf("index of jobs with dependencies has %d entries for %d", s.v.needing.Size(), needing))
	}
	if s.dependents != nil && !maps.EqualFunc(s.dependents, s.allDependents(), slices.Equal[[]model.JobID]) {
		note(fmt.Errorf("the index of dependents is %v, made anew %v", s.dependents, s.allDependents()))
	}
	s.checkNames(note)
	if !s.sharesArrays { // else it knows of its own only
		s.texts.Check(s.v.jobs.Values(), note)
	}
	s.checkDated(note)
}

// checkNames compares the index by name, if it has been made, with one made anew.
func (s *State) checkNames(note func(error)) {
	if s.names == nil {
		return
	}
	got := s.names
	s.names = nil
	s.sameName(0, "")
	same := func(a, b *named) bool { return slices.Equal(a.all, b.all) && slices.Equal(a.open, b.open) }
	if !maps.EqualFunc(got, s.names, same) {
		note(fmt.Errorf("the index of names has %d entries, or other ones, for %d", len(got), len(s.names)))
	}
	s.names = got
}

// forget drops a job that leaves the state from the indexes of this file and of names.
func (s *State) forget(j *model.Job) {
	s.texts.Drop(j)
	if s.names != nil {
		s.forgetName(j)
	}
}

// Progress returns how far a job has come, or a child of a parent job, which may not have been made yet.
func (v *View) Progress(id model.JobID) lifecycle.Progress {
	if j := v.Job(id); j != nil {
		ended := j.State.Final()
		return lifecycle.Progress{Started: ended || j.Started.At != 0, Ended: ended, Well: j.State == model.Completed}
	}
	r, n := v.ParentOf(id)
	switch {
	case r == nil:
		return lifecycle.Progress{Started: true, Ended: true}
	case r.Children.Waiting.Has(n):
		return lifecycle.Progress{}
	}
	return lifecycle.Progress{Started: true, Ended: true, Well: !r.Children.Dropped.Has(n) && !r.Children.Unsuccessful.Has(n)}
}

// Reconsider says what has become of a dependency of a job. A singleton whose predecessor has ended waits for the one before that.
func (s *State) Reconsider(j *model.Job, n *model.OpenDependency) lifecycle.Dependency {
	d := lifecycle.DependencyOn(n, s.v.Progress)
	if n.Type == model.NeedSingleton && d.Met {
		if before := s.OpenNamedBefore(j.ID, j.Owner.UID, j.Spec.Name); before != 0 {
			d = lifecycle.Dependency{Open: []model.JobID{before}}
		}
	}
	return d
}

// Unsettled reports whether something of a job's dependencies has been decided and not been drawn conclusions from.
func (s *State) Unsettled(j *model.Job) bool {
	if j == nil || j.State.Final() {
		return false
	}
	for i := range j.Dependencies {
		n := &j.Dependencies[i]
		if d := s.Reconsider(j, n); d.Met || d.Never != 0 || !slices.Equal(d.Open, n.Jobs) {
			return true
		}
	}
	return false
}

// SetUnsettled notes whether more follows from jobs that have ended than one entry of the log may do.
func (s *State) SetUnsettled(is bool) { s.v.unsettled = is }

// WithDependencies yields the unfinished jobs that have dependencies, in order of id.
func (v *View) WithDependencies() iter.Seq[*model.Job] { return v.needing.Values() }

// NoDependencies reports whether no unfinished job has dependencies.
func (v *View) NoDependencies() bool { return v.needing.Empty() }
