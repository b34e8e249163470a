package model

// EventType is what happened.
type EventType string

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

// MaxEvents bounds what a replica remembers: a few minutes of a busy cluster, a few MiB.
const MaxEvents = 10_000

// TrimEvents leaves the newest.
func TrimEvents(e []Event) []Event { return e[max(0, len(e)-MaxEvents):] }

const EventAssigned EventType = "assigned"

const EventConfig EventType = "config"

const EventCreated EventType = "created" // every container exists; commands may start

const EventEnded EventType = "ended" // an attempt

const EventFinished EventType = "finished"

const EventHeld EventType = "held"

const EventNodeDown EventType = "node-down"

const EventNodeDrain EventType = "node-drained"

const EventNodeUp EventType = "node-up"

const EventPolicy EventType = "log-policy" // one has found its pattern in the output; the attempt says which

const EventReleased EventType = "released" // from a hold

const EventRequeued EventType = "requeued"

const EventReserved EventType = "reserved"

const EventStarted EventType = "started"

const EventStopping EventType = "stopping"

const EventSubmitted EventType = "submitted"

const EventUnreserved EventType = "unreserved"

const EventUpdated EventType = "updated" // its limit, priority or name
