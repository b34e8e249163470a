package state

import (
	"github.com/rota-hpc/rota/controld/model"
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

// makeRoomForEvents moves the events to the beginning of their array, if most of it has been
// trimmed and no view has it, else to another one. That has room for several times what is
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
	s.Emit(model.Event{Type: t, Job: j.ID, Attempt: j.Attempt, Cause: cause})
}
