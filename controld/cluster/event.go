package cluster

// EventType is what happened.
type EventType string

// Events of jobs and nodes.
const (
	EventSubmitted  EventType = "submitted"
	EventHeld       EventType = "held"
	EventReleased   EventType = "released" // from a hold
	EventUpdated    EventType = "updated"  // its limit, priority or name
	EventAssigned   EventType = "assigned"
	EventCreated    EventType = "created" // every container exists; commands may start
	EventStarted    EventType = "started"
	EventStopping   EventType = "stopping"
	EventPolicy     EventType = "log-policy" // one has found its pattern in the output; the attempt says which
	EventEnded      EventType = "ended"      // an attempt
	EventRequeued   EventType = "requeued"
	EventFinished   EventType = "finished"
	EventReserved   EventType = "reserved"
	EventUnreserved EventType = "unreserved"
	EventNodeUp     EventType = "node-up"
	EventNodeDown   EventType = "node-down"
	EventNodeDrain  EventType = "node-drained"
	EventConfig     EventType = "config"
)

// Event is something that Apply did. Each replica keeps the last maxEvents since it started; they are not replicated.
type Event struct {
	Index   uint64
	At      Instant
	Wall    UnixMS
	Type    EventType
	Job     JobID
	Attempt int
	Node    string
	Cause   Cause
	For     JobID // the job that it was done for
}

// maxEvents bounds what a replica remembers: a few minutes of a busy cluster, a few MiB.
const maxEvents = 10_000

// trimEvents leaves the newest.
func trimEvents(e []Event) []Event { return e[max(0, len(e)-maxEvents):] }

// emit appends an event. Views share the array: they hold a shorter length, and what they see is never written again.
func (s *State) emit(e Event) {
	e.Index, e.At, e.Wall = s.v.index, s.v.at, s.v.wall
	if len(s.v.events) == cap(s.v.events) {
		s.makeRoomForEvents()
	}
	s.v.events = trimEvents(append(s.v.events, e))
}

// makeRoomForEvents moves the events to the beginning of their array, if most of it has been trimmed and no view has it, else to another one.
// That has room for several times what is remembered, or every few events would copy all of them.
func (s *State) makeRoomForEvents() {
	n := len(s.v.events)
	if s.eventsEpoch != s.epoch || 2*n > len(s.eventArray) {
		s.eventArray, s.eventsEpoch = make([]Event, min(2*n, 3*maxEvents)+64), s.epoch
	}
	copy(s.eventArray, s.v.events)
	s.v.events = s.eventArray[:n]
}

func (s *State) emitJob(t EventType, j *Job, cause Cause) {
	s.emit(Event{Type: t, Job: j.ID, Attempt: j.Attempt, Cause: cause})
}
