package state

import (
	"slices"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec/hostlist"
)

// Emit appends an event. Views share the array: they hold a shorter length, and what they see is
// never written again.
func (s *State) Emit(e model.Event) {
	e.Index, e.At, e.Wall = s.v.index, s.v.at, s.v.wall
	if len(s.v.events) == cap(s.v.events) {
		s.makeRoomForEvents()
	}
	s.v.events = model.TrimEvents(append(s.v.events, e))
}

// makeRoomForEvents moves the events to the beginning of their array if most of it was trimmed and
// no view has it. Otherwise they move to another array. That has room for several times what is
// remembered, or every few events would copy all of them.
func (s *State) makeRoomForEvents() {
	n := len(s.v.events)
	if s.eventsEpoch != s.epoch || 2*n > len(s.eventArray) {
		s.eventArray, s.eventsEpoch = make([]model.Event, min(2*n, 3*model.MaxEvents)+64), s.epoch
	}
	copy(s.eventArray, s.v.events)
	s.v.events = s.eventArray[:n]
}

// EmitJob appends an event about a job.
func (s *State) EmitJob(t model.EventType, j *model.Job, cause model.Cause) {
	s.Emit(JobEvent(t, j, cause))
}

// JobEvent is an event about a job. One about an attempt names its nodes, so that what happened on a
// node can be told from the events alone.
func JobEvent(t model.EventType, j *model.Job, cause model.Cause) model.Event {
	e := model.Event{Type: t, Job: j.ID, Attempt: j.Attempt, Cause: cause}
	switch t {
	case model.EventAssigned, model.EventCreated, model.EventStarted, model.EventStopping, model.EventEnded,
		model.EventEarly, model.EventSuspending, model.EventSuspended, model.EventResuming, model.EventContinued,
		model.EventTried, model.EventMeasured:
		if n := len(j.Attempts); n > 0 {
			e.Node = nodesOf(j.Attempts[n-1].Workers)
		}
	}
	return e
}

// nodesOf lists the nodes of workers, as n[1-3] if there are several.
func nodesOf(workers []model.Worker) string {
	if len(workers) == 0 {
		return ""
	}
	first := workers[0].Node
	names := []string{first}
	for i := range workers {
		if name := workers[i].Node; name != names[len(names)-1] {
			names = append(names, name)
		}
	}
	if len(names) == 1 {
		return first
	}
	slices.Sort(names)
	return hostlist.Compress(slices.Compact(names))
}
