package fsm

import (
	"container/heap"
	"fmt"
	"maps"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
)

// updateDependents keeps the index of dependents in step with a job that has changed, and wakes the jobs that waited for the change.
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
	s.notifyDependents(old, next)
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

// dependentsOf returns the jobs that wait for another, ascending.
func (s *State) dependentsOf(target model.JobID) []model.JobID {
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

// notifyDependents notes the jobs to be reconsidered because of a change, at the end of this entry.
func (s *State) notifyDependents(old, next *model.Job) {
	if old == nil || s.v.needing.Empty() {
		return
	}
	started := old.Started.At == 0 && next.Started.At != 0
	ended := !old.State.Final() && next.State.Final()
	if started || ended {
		s.requeueDependents(next.ID)
	}
	if next.Parent != 0 && ended {
		s.noteEndedTasks(next.Parent, model.Span(next.TaskNumber, next.TaskNumber), next.State == model.Completed)
	}
	if next.Children != nil && next.Children != old.Children {
		s.notifyDroppedTasks(next, next.Children.Dropped.Without(old.Children.Dropped))
	}
}

func (s *State) notifyDroppedTasks(record *model.Job, dropped model.Ranges) {
	if len(dropped) == 0 {
		return
	}
	s.noteEndedTasks(record.ID, dropped, false)
	for n := range dropped.All() {
		s.requeueDependents(record.ID + model.JobID(n))
	}
}

func (s *State) requeueDependents(target model.JobID) {
	for _, id := range s.dependentsOf(target) {
		heap.Push(&s.due, id)
	}
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
		if s.unsettled(j) && !s.v.unsettled {
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
