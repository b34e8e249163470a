package model

import "fmt"

// EventType is what happened.
type EventType string

// Event is something that Apply did. Each replica keeps the last maxEvents since it started; they
// are not replicated.
type Event struct {
	Index   uint64
	At      Instant
	Wall    UnixMS
	Type    EventType
	Job     JobID
	Attempt int
	Node    string // of an event of an attempt all its nodes, as n[1-3]
	Cause   Cause
	For     JobID // the job that it was done for
	Text    string
	Leave   *Leave // of one that had to leave its place; nil: of others
	Trial   *Trial // of [EventTried] and [EventMeasured]
}

// Leave says of an event for which user a job left its place, and at what cost. It is apart because
// few events have it.
type Leave struct {
	User, Account string // of the job that it was done for
	Lost          int64  // by then, as [Lost.Total] says
}

// String writes it for logs and tests.
func (l *Leave) String() string { return fmt.Sprintf("%s/%s %d", l.User, l.Account, l.Lost) }

// MaxEvents bounds what a replica remembers: a few minutes of a busy cluster, a few MiB.
const MaxEvents = 10_000

// Events of jobs and nodes.
const (
	EventSubmitted  EventType = "submitted"
	EventHeld       EventType = "held"
	EventReleased   EventType = "released" // from a hold
	EventUpdated    EventType = "updated"  // its limit, priority, name or comment
	EventAssigned   EventType = "assigned"
	EventCreated    EventType = "created" // every container exists; commands may start
	EventStarted    EventType = "started"
	EventStopping   EventType = "stopping"
	EventEarly      EventType = "limit-near"     // it was told that its time limit comes
	EventSuspending EventType = "suspending"     // it is to pause
	EventSuspended  EventType = "suspended"      // all its workers have paused
	EventResuming   EventType = "resuming"       // it has room again
	EventContinued  EventType = "resumed"        // all its workers go on
	EventResizing   EventType = "resizing"       // workers join or leave while the others go on
	EventResized    EventType = "resized"        // they run, or have left
	EventTried      EventType = "tried"          // something was tried, with its expected gain
	EventMeasured   EventType = "measured"       // what that brought
	EventClass      EventType = "progress-class" // how far the training of an attempt has come; the text says it
	EventPolicy     EventType = "log-policy"     // one has found its pattern in the output; the attempt says which
	EventEnded      EventType = "ended"          // an attempt
	EventRequeued   EventType = "requeued"
	EventFinished   EventType = "finished"
	EventReserved   EventType = "reserved"
	EventUnreserved EventType = "unreserved"
	EventNodeUp     EventType = "node-up"
	EventNodeDown   EventType = "node-down"
	EventNodeDrain  EventType = "node-drained"
	EventNodeDead   EventType = "node-dead" // an operator has confirmed that nothing runs on a node that is down
	EventConfig     EventType = "config"
	EventPaused     EventType = "sched-paused" // a part of scheduling; the text says which, and by which user
	EventResumed    EventType = "sched-resumed"
	EventDryRunOn   EventType = "dry-run-on" // displacements are only recorded from now on
	EventDryRunOff  EventType = "dry-run-off"
	EventGeneration EventType = "generation" // another one of the cluster began, or holds; the text says which
	// a job would have been asked to leave, or to give up workers, had there been no dry run
	EventWouldPreempt EventType = "would-preempt"
)

// TrimEvents leaves the newest.
func TrimEvents(e []Event) []Event { return e[max(0, len(e)-MaxEvents):] }
