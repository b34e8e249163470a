package noded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/gpu"
	"github.com/rota-hpc/rota/noded/journal"
	"github.com/rota-hpc/rota/noded/machine"
	"github.com/rota-hpc/rota/noded/progress"
)

// Controller is what an agent needs of the control plane. *api.Client is one.
type Controller interface {
	Register(ctx context.Context, node string, req api.RegisterRequest) (*api.RegisterResponse, error)
	Allocs(ctx context.Context, node, bootID string, after uint64, wait time.Duration) (*api.NodeAllocs, error)
	Report(ctx context.Context, node string, req api.ReportRequest) (*api.ReportResponse, error)
}

// Bundles makes and disposes of what lies on disk for a container.
type Bundles interface {
	// Build writes the bundle of a worker that is to run on cores (nil: anywhere) of a node with these
	// GPUs, and returns its directory.
	Build(ctx context.Context, id container.ID, a *api.Alloc, cores []int, gpus []cluster.GPU) (string, error)
	// Notice tells a container why and until when it is being stopped.
	Notice(id container.ID, n container.Notice) error
	// Retire keeps the log of an ended container and drops the rest of its bundle.
	Retire(id container.ID) error
	// Progress is where the progress of a worker is read, nil when that is not known.
	Progress(id container.ID) *progress.Source
	// Findings are what log policies have found in the output of a worker, oldest first.
	Findings(id container.ID) ([]container.Finding, error)
}

// Journal is what an agent needs of a journal.
type Journal interface {
	Append(records ...journal.Record) error
	Entry(id string) (journal.Entry, bool)
	Entries() []journal.Entry
}

// Parts is what an agent is made of.
type Parts struct {
	Node    cluster.Node // what is registered; its GPUs come from GPUs
	Control Controller
	Runtime container.Runtime
	Bundles Bundles
	Journal Journal
	GPUs    gpu.Source
	GPUFile gpu.InventoryFile // of the GPUs; zero: none
	Cores   *machine.Cores    // nil: by quota, not by core number
	Log     *slog.Logger
}

const (
	parallelSteps = 16               // steps of different containers at once: more only queue for the same disk and cores
	stepTimeout   = 60 * time.Second // of one step; making a container takes some 20 ms
	listInterval  = 10 * time.Second // full look at what runs, in case a change was missed
	pollWait      = 10 * time.Second // length of a long poll; its answers renew the lease
	retryMin      = 100 * time.Millisecond
	retryMax      = 10 * time.Second
	messageMax    = 2000 // bytes of an error that are reported
)

// Agent makes what runs on this node match what the controllers want, and tells them what became of it.
type Agent struct {
	Parts
	stepSlots   chan struct{}  // one for each step that may run
	createSlots chan struct{}  // the same of those that make containers, which may wait for a file server that the job names
	steps       sync.WaitGroup // that run
	registering chan struct{}  // held by a registration
	out         outbox

	mu           sync.Mutex
	ctx          context.Context // of Run
	workers      map[container.ID]*worker
	waiting      int    // workers that wait for an earlier attempt or for cores
	changes      uint64 // grows with every change of a worker, to tell what a listing has not seen
	index        uint64 // of the last answer acted on
	desiredKnown bool   // there was one
	lease        lease  // the last that was confirmed
	gpus         gpu.Inventory
	occupied     map[string]string // GPUs that something is left on, by UUID
	unregistered bool              // the inventory has changed since it was registered
}

// worker is one container, wanted, existing or both. It is guarded by the agent's mutex.
type worker struct {
	facts
	id             container.ID
	busy           bool   // a step runs
	changedAt      uint64 // Agent.clock when it last changed
	lastOp         op     // the step before, to slow down what is repeated
	delay          time.Duration
	notBefore      time.Time // no step before
	waiting        bool      // counted in Agent.blocked
	coresShort     bool      // its cores were not free
	lease          time.Time // that its shim knows
	timer          *time.Timer
	lastReported   cluster.WorkerState // last report handed to the outbox
	tail           progress.Tail
	read           *progressRead    // nil: none is under way
	source         *progress.Source // of progress, once it has been looked up
	findingsQueued int              // findings handed to the outbox
	rate           progress.RateMeter
}

// NewAgent returns an agent of these parts.
func NewAgent(p Parts) *Agent {
	return &Agent{
		Parts: p, stepSlots: make(chan struct{}, parallelSteps), createSlots: make(chan struct{}, parallelSteps), workers: map[container.ID]*worker{}, occupied: map[string]string{},
		registering: make(chan struct{}, 1), out: newOutbox(),
	}
}

// Run works until ctx ends. What runs on the node goes on running then.
func (a *Agent) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	a.mu.Lock()
	a.ctx = ctx
	a.mu.Unlock()
	if err := a.recoverState(ctx); err != nil {
		return err
	}
	group.Go(func() error { return a.watchContainers(ctx) })
	group.Go(func() error { return a.sendReports(ctx) })
	group.Go(func() error { return a.followControllers(ctx) })
	group.Go(func() error { return a.sampleProgress(ctx) })
	group.Go(func() error { return a.watchGPUs(ctx) })
	err := group.Wait()
	a.waitForSteps()
	return err
}

// rest stops the timers and waits for the steps that still run.
func (a *Agent) waitForSteps() {
	a.mu.Lock()
	for _, w := range a.workers {
		w.wakeAt(a, time.Time{})
	}
	a.mu.Unlock()
	a.steps.Wait()
}

// recall finds out, from the journal and the runtime, what the last agent left.
func (a *Agent) recoverState(ctx context.Context) error {
	if err := a.recoverEntries(); err != nil {
		return err
	}
	var wait backoff
	for {
		err := a.inspectAll(ctx)
		if err == nil || ctx.Err() != nil {
			return context.Cause(ctx)
		}
		// Nothing may be made or stopped before it is known what runs.
		a.logRetry(ctx, "cannot list containers; it will be repeated", err, wait.sleep(ctx))
	}
}

func (a *Agent) recoverEntries() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range a.Journal.Entries() {
		if e.Final != nil {
			continue // looked up when something asks for it
		}
		id, ok := container.ParseID(e.ID)
		if !ok {
			return fmt.Errorf("journal: %q is not the name of a container: job.attempt.worker", e.ID)
		}
		a.worker(id)
		if a.Cores != nil {
			a.Cores.MarkUsed(e.Cores)
		}
	}
	return nil
}

// worker returns the worker of an id, made from the journal when it is not there.
func (a *Agent) worker(id container.ID) *worker {
	w := a.workers[id]
	if w == nil {
		w = &worker{id: id}
		w.Entry, w.Journaled = a.Journal.Entry(id.String())
		a.workers[id] = w
		a.markChanged(w)
	}
	return w
}

func (a *Agent) markChanged(w *worker) {
	a.changes++
	w.changedAt = a.changes
}

// watch follows the runtime.
func (a *Agent) watchContainers(ctx context.Context) error {
	tick := time.NewTicker(listInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-a.Runtime.Changes():
		case <-tick.C:
		}
		a.drainChanges()
		if err := a.inspectAll(ctx); err != nil && ctx.Err() == nil {
			a.Log.Error("cannot list containers", "err", err)
		}
	}
}

// drainChanges forgets changes that the listing about to be made will show.
func (a *Agent) drainChanges() {
	for {
		select {
		case <-a.Runtime.Changes():
		default:
			return
		}
	}
}

// list compares every container with what is known.
func (a *Agent) inspectAll(ctx context.Context) error {
	a.mu.Lock()
	began := a.changes
	a.mu.Unlock()
	all, err := a.Runtime.List(ctx)
	if err != nil {
		return fmt.Errorf("list containers: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	seen := make(map[container.ID]bool, len(all))
	for _, s := range all {
		seen[s.ID] = true
		a.updateStatus(a.worker(s.ID), s)
	}
	for id, w := range a.workers {
		if !seen[id] && !w.busy && w.changedAt <= began && w.Actual != "" {
			a.setStatus(w, container.Status{ID: id})
		}
		a.reconcile(w)
	}
	return nil
}

// rank orders states: a container only ever goes forward.
func stateOrder(s container.State) int {
	switch s {
	case container.Created:
		return 1
	case container.Running:
		return 2
	case container.Exited, container.Lost:
		return 3
	}
	return 0
}

// observe takes in what the runtime says of a container, unless it is older than what is known.
func (a *Agent) updateStatus(w *worker, s container.Status) {
	if stateOrder(s.State) > stateOrder(w.Actual) {
		a.setStatus(w, s)
	}
}

func (a *Agent) setStatus(w *worker, s container.Status) {
	w.Actual, w.Exit, w.LostReason = s.State, s.Exit, s.Why
	a.markChanged(w)
}

// advance decides about one worker and begins its next step. The mutex is held.
func (a *Agent) reconcile(w *worker) {
	if w.busy || a.ctx == nil || a.ctx.Err() != nil {
		return
	}
	w.Blocked = w.Actual == "" && w.Desired != nil && !w.Journaled && a.olderAttemptRuns(w.id)
	a.queueReport(w)
	w.DesiredUnknown = !a.desiredKnown
	now := time.Now()
	s, again := nextStep(w.facts, now)
	a.setWaiting(w, w.Blocked || w.coresShort)
	if s.Op == opNone {
		w.lastOp, w.delay, w.notBefore, w.Tries = "", 0, time.Time{}, 0
		w.wakeAt(a, again)
		if w.idle() {
			a.dropWorker(w)
		}
		return
	}
	if s.Op != w.lastOp {
		w.lastOp, w.delay, w.notBefore, w.Tries = s.Op, 0, time.Time{}, 0
	}
	if now.Before(w.notBefore) {
		w.wakeAt(a, w.notBefore)
		return
	}
	a.startStep(w, s)
}

// idle reports whether nothing more will happen to the worker.
func (w *worker) idle() bool {
	return !w.DesiredUnknown && w.Desired == nil && w.Actual == "" && (w.Confirmed || w.Entry.Final == nil)
}

func (a *Agent) dropWorker(w *worker) {
	w.wakeAt(a, time.Time{})
	a.setWaiting(w, false)
	delete(a.workers, w.id)
}

// olderAttempt reports whether an earlier attempt of the job still has processes here: at most one may.
func (a *Agent) olderAttemptRuns(id container.ID) bool {
	for other, w := range a.workers {
		if other.Job == id.Job && other.Attempt < id.Attempt && (stateOrder(w.Actual) == 1 || stateOrder(w.Actual) == 2 || w.busy) {
			return true
		}
	}
	return false
}

func (a *Agent) setWaiting(w *worker, waiting bool) {
	if w.waiting == waiting {
		return
	}
	w.waiting = waiting
	if waiting {
		a.waiting++
	} else {
		a.waiting--
	}
}

// unblock looks again at the workers that waited for something which may be there now.
func (a *Agent) retryWaiting() {
	if a.waiting == 0 {
		return
	}
	for _, w := range a.workers {
		if w.waiting {
			w.notBefore = time.Time{}
			a.reconcile(w)
		}
	}
}

// wakeAt has the worker looked at again at t, or not again if t is zero.
func (w *worker) wakeAt(a *Agent, t time.Time) {
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
	if t.IsZero() {
		return
	}
	w.timer = time.AfterFunc(time.Until(t), func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.workers[w.id] == w { // it may have been dropped while this waited
			a.reconcile(w)
		}
	})
}

// begin runs a step beside everything else.
func (a *Agent) startStep(w *worker, s step) {
	w.busy = true
	w.wakeAt(a, time.Time{})
	f, ctx, slots := w.facts, a.ctx, a.stepSlots
	if s.Op == opCreate {
		slots = a.createSlots
	}
	a.steps.Go(func() {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			a.mu.Lock()
			w.busy = false
			a.mu.Unlock()
			return
		}
		done, err := a.runStep(ctx, w.id, f, s)
		<-slots
		a.finishStep(w, s, done, err)
	})
}

// end takes in what a step has come to, and goes on.
func (a *Agent) finishStep(w *worker, s step, done func(*worker), err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w.busy = false
	a.markChanged(w)
	if done != nil {
		done(w)
	}
	w.delayRepeat(s.Op, err)
	if err != nil && !errors.Is(err, errNoCores) && a.ctx.Err() == nil {
		a.Log.Warn("step failed and will be repeated", "job", w.id.Job, "alloc", w.id.String(), "step", string(s.Op), "in", w.delay, "err", err)
	}
	w.coresShort = errors.Is(err, errNoCores)
	a.reconcile(w)
	if err == nil {
		a.retryWaiting()
	}
}

// pause makes sure that a step which is wanted again at once, because it failed or has no effect yet, is not repeated in a rush.
func (w *worker) delayRepeat(o op, err error) {
	if err == nil && o != opKill {
		w.delay, w.notBefore, w.Tries = 0, time.Time{}, 0
		return
	}
	w.Tries++
	w.delay = min(max(2*w.delay, retryMin), retryMax)
	w.notBefore = time.Now().Add(w.delay)
}

// Live reports whether a container may still write output: it runs, or is about to.
func (a *Agent) Live(id container.ID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.workers[id]
	return w != nil && w.Entry.Final == nil && stateOrder(w.Actual) < 3
}
