// Package workers has the workers of a node. It compares the allocations of the controllers with
// the containers that exist, and starts the action that is due. Package reconcile decides, and
// package run acts.
//
//   - recover.go learns at the start what an earlier daemon has left.
//   - inspect.go lists the containers, at each change and every ten seconds.
//   - wanted.go takes the wish of the controllers, and lease.go passes leases on to the shims.
//   - decide.go starts the action that is due, and applies its outcome.
//   - reports.go queues states for the controllers.
//   - steps.go knows which srun steps run beside a worker, and queries.go answers the other rooms.
//
// A [Table] has one lock. Methods that need it belong to the type held, of which only [Table.lock]
// makes values. No action, and no request to a shim, runs under the lock.
package workers

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec/lossy"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/follow"
	"github.com/rota-hpc/rota/noded/jobsteps"
	"github.com/rota-hpc/rota/noded/journal"
	"github.com/rota-hpc/rota/noded/machine"
	"github.com/rota-hpc/rota/noded/reconcile"
	"github.com/rota-hpc/rota/noded/report"
	"github.com/rota-hpc/rota/noded/run"
)

// Journal is the record of earlier daemons. *journal.Journal implements it.
type Journal interface {
	// Entry returns the journal's record of one container.
	Entry(id string) (journal.Entry, bool)
	// Entries returns the journal's records of all containers.
	Entries() []journal.Entry
}

// Sockets has a socket in each container, at which its processes ask the controllers.
type Sockets interface {
	// Open opens the socket of a container whose bundle has been written, unless it is open.
	Open(id container.ID) error
	// Close closes it, and the connections there.
	Close(id container.ID)
}

// Meter measures workers. *measure.Meter implements it.
type Meter interface {
	// Report queues the measures of a worker for a report; nil: it has none.
	Report(id container.ID, known *journal.Measures)
	// Forget drops a worker that is not in the table any more.
	Forget(id container.ID)
}

// Config is the surroundings of a Table.
type Config struct {
	Node    string // name of this node
	Foreign bool   // the containers here are of a cluster that the node has left
	Runtime container.Runtime
	Journal Journal
	Outbox  *report.Outbox
	Sockets Sockets        // nil: processes in containers cannot ask the controllers
	Cores   *machine.Cores // nil: jobs get shares of processor time, not cores by number
	// Serves reports whether a process outside of containers computes on GPUs for jobs, as MPS
	// does; nil: none does.
	Serves func(pid int) bool
	// Folders returns the workers that have a checkpoint folder or a log here; nil: none has.
	Folders func() []container.ID
	Log     *slog.Logger

	// The rooms that need the table themselves are set before Run.

	Runner *run.Runner
	Meter  Meter
	Steps  *jobsteps.Manager // nil: no srun step runs here
}

// Table has the workers of this node.
type Table struct {
	Config
	slots chan struct{} // one entry for each action that runs
	// the same for actions that create containers: they may wait for a file server that the job
	// names
	createSlots chan struct{}
	actions     sync.WaitGroup     // those that run
	questions   chan chan struct{} // tells whether the loop turns: it closes each channel that it gets

	mu           sync.Mutex
	ctx          context.Context // of Run
	workers      map[container.ID]*worker
	changes      uint64       // grows with every change of a worker, so that older inspections are recognised
	desiredKnown bool         // a controller has answered since this daemon started
	lease        follow.Lease // the last lease that Apply or Extend got
	silentShims  string       // which shims do not answer
}

// worker is one container: wanted, existing, or both. The lock of the table guards it.
type worker struct {
	reconcile.Worker
	keptUnseen bool // it is kept, and this daemon does not know its order
	recovered  bool // the last daemon has started it
	stepsKnown bool // its steps of an earlier daemon go on
	judged     bool // its excess has been looked at

	// The present action, and when the next one may begin:
	busy       bool               // an action runs
	cancel     context.CancelFunc // ends the action that runs; nil: it runs to its end
	changedAt  uint64             // Table.changes at its last change
	lastKind   reconcile.Kind     // the previous action, to slow down repetitions
	delay      time.Duration
	notBefore  time.Time // no action starts earlier
	waiting    bool      // for an earlier attempt or for cores
	coresShort bool      // its cores were not free
	timer      *time.Timer

	// Messages that have been sent:
	lease        time.Time         // the end of the lease that its shim has, or would have if it were not leaseless
	leaseless    bool              // its shim was told that it has no lease
	lastReported model.WorkerState // the last state that was queued for a report
	lastSwitch   report.Switch     // the last message about pausing and going on that was queued
	lastLoss     lossy.Loss        // the last message about lost output that was queued
}

// New returns an empty table.
func New(c Config) *Table {
	return &Table{Config: c, slots: make(chan struct{}, run.Parallel), createSlots: make(chan struct{}, run.Parallel),
		workers: map[container.ID]*worker{}, questions: make(chan chan struct{})}
}

// Start has actions run until ctx ends. It comes before Recover and Watch.
func (t *Table) Start(ctx context.Context) {
	h, unlock := t.lock()
	defer unlock()
	h.ctx = ctx
}

// Wait stops the timers and waits for the actions that still run. The context of Start has ended.
func (t *Table) Wait() {
	h, unlock := t.lock()
	for _, w := range h.workers {
		h.wakeAt(w, time.Time{})
	}
	unlock()
	t.actions.Wait()
}

// lock locks the table. It returns the methods that need the lock, and the function that unlocks it.
func (t *Table) lock() (held, func()) {
	t.mu.Lock()
	return held{t}, t.mu.Unlock
}

// held is a Table whose lock is held. A method of this type runs under the lock.
type held struct{ *Table }

// of returns the worker of an id. A missing one is made from the journal.
func (h held) of(id container.ID) *worker {
	w := h.workers[id]
	if w == nil {
		w = &worker{Worker: reconcile.Worker{ID: id}}
		w.Entry, w.Journaled = h.Journal.Entry(id.String())
		h.workers[id] = w
		h.markChanged(w)
	}
	return w
}

// markChanged numbers the change of a worker, so that an inspection that began earlier does not
// undo it.
func (h held) markChanged(w *worker) {
	h.changes++
	w.changedAt = h.changes
}

// logOf returns a log whose messages name a container and its job.
func (t *Table) logOf(id container.ID) *slog.Logger {
	return t.Log.With("job", id.Job, "alloc", id.String())
}
