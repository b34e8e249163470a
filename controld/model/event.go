package model

import "fmt"

// EventType is what happened.
type EventType string

// Event is something that Apply did. Each replica keeps the last maxEvents since it started; events
// are not replicated.
type Event struct {
	Index   uint64
	At      Instant
	Wall    UnixMS
	Type    EventType
	Job     JobID
	Attempt int
	Node    string // for an event of an attempt: all its nodes, as n[1-3]
	Cause   Cause
	For     JobID // the job for whose sake it was done
	Text    string
	Leave   *Leave // for a job that must stop for others; otherwise nil
	Trial   *Trial // of [EventTried] and [EventMeasured]
}

// Leave says for which user a preempted job made room, and at what cost. It is a struct of its own
// because few events have it.
type Leave struct {
	User, Account string // owner and account of the job that gets the resources
	Lost          int64  // cost so far, as in [Lost.Total]
}

// String writes it for logs and tests.
func (l *Leave) String() string { return fmt.Sprintf("%s/%s %d", l.User, l.Account, l.Lost) }

// MaxEvents bounds the memory of a replica: a few minutes of a busy cluster, a few MiB.
const MaxEvents = 10_000

// Events of jobs and nodes.
const (
	EventSubmitted  EventType = "submitted"
	EventHeld       EventType = "held"
	EventReleased   EventType = "released" // from a hold
	EventUpdated    EventType = "updated"  // its limit, priority, name or comment has changed
	EventAssigned   EventType = "assigned"
	EventCreated    EventType = "created" // every container exists; commands may start
	EventStarted    EventType = "started"
	EventStopping   EventType = "stopping"
	EventEarly      EventType = "limit-near"     // the job was told that its time limit is near
	EventSuspending EventType = "suspending"     // the job was told to pause
	EventSuspended  EventType = "suspended"      // all workers of the job have paused
	EventResuming   EventType = "resuming"       // the job was told to continue, because its GPUs are free again
	EventContinued  EventType = "resumed"        // all workers of the job run again
	EventResizing   EventType = "resizing"       // workers join or leave while the others continue
	EventResized    EventType = "resized"        // the joining workers run, or the leaving workers have left
	EventTried      EventType = "tried"          // a trial began; Trial has the expected gain
	EventMeasured   EventType = "measured"       // the result of a trial was measured
	EventClass      EventType = "progress-class" // the training of an attempt has a new progress class; the text names it
	EventPolicy     EventType = "log-policy"     // a log policy has matched the output; the attempt says which
	EventEnded      EventType = "ended"          // an attempt has ended
	EventRequeued   EventType = "requeued"
	EventFinished   EventType = "finished"
	EventReserved   EventType = "reserved"
	EventUnreserved EventType = "unreserved"
	EventNodeUp     EventType = "node-up"
	EventNodeDown   EventType = "node-down"
	EventNodeDrain  EventType = "node-drained"
	EventNodeDead   EventType = "node-dead" // an operator has confirmed that nothing runs on a node that is down
	EventConfig     EventType = "config"
	EventPaused     EventType = "sched-paused" // a part of scheduling; the text names it and the operator
	EventResumed    EventType = "sched-resumed"
	EventDryRunOn   EventType = "dry-run-on" // from now on displacements are only recorded
	EventDryRunOff  EventType = "dry-run-off"
	EventGeneration EventType = "generation" // of the cluster: began or took effect; the text names it
	// without the dry run, the job would have been told to stop or to give up workers
	EventWouldPreempt EventType = "would-preempt"
)

// TrimEvents keeps only the newest events.
func TrimEvents(e []Event) []Event { return e[max(0, len(e)-MaxEvents):] }
