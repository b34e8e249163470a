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
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/witness"
	"github.com/rota-hpc/rota/noded/checkpoints"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/gpu"
	"github.com/rota-hpc/rota/noded/gpus"
	"github.com/rota-hpc/rota/noded/journal"
	"github.com/rota-hpc/rota/noded/machine"
	"github.com/rota-hpc/rota/noded/measure"
	"github.com/rota-hpc/rota/noded/reconcile"
	"github.com/rota-hpc/rota/noded/report"
	"github.com/rota-hpc/rota/noded/retry"
	"github.com/rota-hpc/rota/noded/run"
)

// Controller is what an agent needs from the control plane. *api.Client implements it.
type Controller interface {
	// Register puts the inventory of the node into the log.
	Register(ctx context.Context, node string, req api.RegisterRequest) (*api.RegisterResponse, error)
	// Allocs returns what should run on the node. It waits up to wait for a state newer than after.
	Allocs(
		ctx context.Context, node, bootID string, after uint64, wait time.Duration, echo api.Echo,
	) (*api.NodeAllocs, error)
	// Report sends the states of workers and samples of their progress.
	Report(ctx context.Context, node string, req api.ReportRequest) (*api.ReportResponse, error)
	// DropCheckpoints returns which of the folders that the node keeps are not needed any more.
	DropCheckpoints(ctx context.Context, node string, req api.KeptCheckpoints) (*api.DroppedCheckpoints, error)
	// Generation returns the generation of the cluster that the controllers have.
	Generation(ctx context.Context, node, bootID string) (*api.Generation, error)
	// AcceptGeneration says that the node follows it, and what the node knows of attempts.
	AcceptGeneration(ctx context.Context, node string, req api.AcceptGeneration) (*api.Generation, error)
}

// Checkpoints makes, copies and removes the folders to which jobs save on this node.
// *checkpoint.Store implements it.
type Checkpoints interface {
	run.Checkpoints
	checkpoints.Folders
}

// Bundles makes and disposes of what lies on disk for a container. *bundle.Store implements it.
type Bundles interface {
	run.Bundles
	measure.Bundles
}

// Journal is what an agent needs from the journal of the node. *journal.Journal implements it.
type Journal interface {
	run.Journal
	// Entries returns what the journal says of all containers.
	Entries() []journal.Entry
}

// Parts is what an agent works with.
type Parts struct {
	Node        model.Node // is registered with the controllers; its GPUs come from GPUs
	Control     Controller
	Runtime     container.Runtime
	Bundles     Bundles
	Checkpoints Checkpoints    // nil: no job keeps its checkpoint here
	Criu        container.Criu // saves processes; without a path: none are saved here
	Journal     Journal
	GPUs        gpu.Source
	GPUFile     gpu.InventoryFile // keeps the inventory of the GPUs; the zero value keeps nothing
	Foreign     string            // cluster that the containers here are of, if it is not this node's; "" otherwise
	Cores       *machine.Cores    // nil: jobs get shares of processor time, not cores by number
	Log         *slog.Logger
	// Used returns what a container has used by now; nil: that is not known.
	Used func(id container.ID) (container.Used, error)
	// Serves reports whether a process that is in no container computes on GPUs for jobs, as those
	// of MPS do; nil: none does.
	Serves func(pid int) bool
	// Sockets lets the processes of containers ask the controllers; nil: they cannot.
	Sockets Sockets
	// Lineage is the generation of the cluster that the node follows; nil: it begins with 0.
	Lineage *Lineage
	// Outage is what the node knows for an outage of the controllers; nil: it keeps that in memory
	// only.
	Outage *Outage
	// AskWitness asks the daemon of a node at an address for how long it has heard of no leader, in
	// milliseconds; nil: no other node is asked.
	AskWitness func(ctx context.Context, node, addr string) (int64, error)
	// Boot is CLOCK_BOOTTIME in milliseconds, by which witnesses count; nil: that of this machine.
	Boot func() int64
	// KeptFile remembers the checkpoint folders that the controllers do not know; "": memory alone
	// does.
	KeptFile string
	// Logged returns the workers whose output is kept here; nil: none is.
	Logged func() []container.ID
}

// Sockets has a socket in each container, at which its processes ask the controllers.
type Sockets interface {
	// Open opens the socket of a container whose bundle has been written, unless it is open.
	Open(id container.ID) error
	// Close closes it, and the connections there.
	Close(id container.ID)
}

const (
	listInterval = reconcile.LookAgain // between two inspections of all containers, in case a change was missed
	pollWait     = 10 * time.Second    // of one request for allocations; its answer renews the lease
	pollMargin   = 15 * time.Second    // beyond pollWait, for a controller that is slow to answer
)

// Agent makes the containers of this node match the allocations of the controllers, and reports
// their states. Agent.reconcile decides about one worker, [reconcile.Next] says what is due, and
// Agent.runStep does it.
type Agent struct {
	Parts
	slots chan struct{} // one entry for each action that runs
	// the same for actions that create containers: they may wait for a file server that the job
	// names
	createSlots chan struct{}
	actions     sync.WaitGroup     // those that run
	registering chan struct{}      // held during a registration
	questions   chan chan struct{} // whether the agent's loop turns: it closes what it is given
	kept        *checkpoints.Kept
	out         *report.Outbox
	jobSteps    jobSteps
	gpus        *gpus.Set
	run         *run.Runner
	measure     *measure.Meter

	mu           sync.Mutex
	ctx          context.Context // of Run
	workers      map[container.ID]*worker
	changes      uint64    // grows with every change of a worker, so that older inspections are recognised
	index        uint64    // of the last answer that was applied
	heard        time.Time // the last confirmed answer, or the start of this daemon
	desiredKnown bool      // a controller has answered since this daemon started
	lease        lease     // the last confirmed one, or what the witnesses have made of it
	outage       *Outage
	notice       string // what rota nodes is to say of this node
	noticeAt     time.Time
	noticed      string // the notice that was registered
	silentShims  string // which shims do not answer
}

// worker is one container: wanted, existing, or both. The agent's mutex guards it.
type worker struct {
	reconcile.Worker
	keptUnseen   bool               // it is kept, and this daemon does not know what ordered it
	busy         bool               // an action runs
	cancel       context.CancelFunc // ends the action that runs; nil: it runs to its end
	changedAt    uint64             // Agent.changes at its last change
	lastKind     reconcile.Kind     // the previous action, to slow down repetitions
	delay        time.Duration
	notBefore    time.Time // no action starts earlier
	waiting      bool      // for an earlier attempt or for cores
	coresShort   bool      // its cores were not free
	lease        time.Time // the end of the lease that its shim has, or would have if it were not leaseless
	leaseless    bool      // its shim was told that it has no lease
	timer        *time.Timer
	lastReported model.WorkerState  // the last state that was queued for a report
	lastSwitch   model.WorkerReport // the last one about pausing and going on that was queued
	recovered    bool               // the last daemon has started it
	stepsKnown   bool               // its steps of an earlier daemon go on
	judged       bool               // its excess has been looked at
}

// NewAgent returns an agent that works with these parts.
func NewAgent(p Parts) *Agent {
	a := &Agent{
		Parts: p, slots: make(chan struct{}, run.Parallel), createSlots: make(chan struct{}, run.Parallel),
		workers:     map[container.ID]*worker{},
		registering: make(chan struct{}, 1), questions: make(chan chan struct{}), out: report.NewOutbox(),
	}
	a.gpus = gpus.New(gpus.Config{Source: p.GPUs, File: p.GPUFile, Log: p.Log, RunsHere: a.runsHere})
	a.measure = measure.New(measure.Config{Node: measuredNode{a}, Bundles: p.Bundles, Journal: p.Journal, Outbox: a.out,
		Driver: p.GPUs, GPUs: a.gpus, Log: p.Log, Used: p.Used, ContainerOf: a.containerOf})
	a.run = &run.Runner{Runtime: p.Runtime, Bundles: p.Bundles, Criu: p.Criu, Journal: p.Journal, Cores: p.Cores,
		GPUs: a.gpus, Outbox: a.out, Serves: p.Serves, Log: p.Log, OpenSocket: a.openSocket, CloseSocket: a.closeSocket,
		LeaseEnd: a.leaseEnd, Stopping: a.isStopping, Register: a.registerNow, Progress: a.measure.NewProgress,
		Findings: a.measure.QueueFindings, Usage: a.measure.UsageOf, ReachedTotal: a.measure.ReachedTotal}
	if p.Checkpoints != nil {
		a.run.Checkpoints = p.Checkpoints
	}
	a.heard = time.Now()
	if a.Lineage == nil {
		a.Lineage = &Lineage{}
	}
	if a.outage = a.Outage; a.outage == nil {
		a.outage = &Outage{}
	}
	if a.Boot == nil {
		a.Boot = bootMS
	}
	a.outage.holder = witness.Holder{Started: a.Boot()}
	a.kept = checkpoints.NewKept()
	return a
}

// Run works until ctx ends. Containers go on running after that.
func (a *Agent) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	a.mu.Lock()
	a.ctx = ctx
	a.mu.Unlock()
	if err := a.kept.Open(a.KeptFile); err != nil {
		return err
	}
	if err := a.recoverState(ctx); err != nil {
		return err
	}
	group.Go(func() error { return a.watchContainers(ctx) })
	group.Go(func() error { return a.sender().Run(ctx) })
	group.Go(func() error { return a.followControllers(ctx) })
	group.Go(func() error { return a.watchOutage(ctx) })
	group.Go(func() error { return a.measure.Run(ctx) })
	group.Go(func() error { return a.gpus.Watch(ctx) })
	group.Go(func() error { return a.keeper().Run(ctx) })
	err := group.Wait()
	a.waitForActions()
	if a.jobSteps.Manager != nil {
		a.jobSteps.Wait()
	}
	return err
}

// sender returns what sends the reports of this node.
func (a *Agent) sender() *report.Sender {
	return &report.Sender{Outbox: a.out, Control: a.Control, Node: a.Node.Name, BootID: a.Node.BootID, Log: a.Log,
		Retry: a.logRetry, StepsConfirmed: a.stepsConfirmed, Confirmed: a.markConfirmed}
}

// keeper returns what decides which checkpoint folders stay here.
func (a *Agent) keeper() *checkpoints.Keeper {
	k := &checkpoints.Keeper{Kept: a.kept, Control: a.Control, Node: a.Node.Name, BootID: a.Node.BootID, Log: a.Log,
		Here: a.isHere, Retry: a.logRetry}
	if a.Checkpoints != nil {
		k.Folders = a.Checkpoints
	}
	return k
}

// waitForActions stops the timers and waits for the actions that still run.
func (a *Agent) waitForActions() {
	a.mu.Lock()
	for _, w := range a.workers {
		w.wakeAt(a, time.Time{})
	}
	a.mu.Unlock()
	a.actions.Wait()
}

// recoverState learns from the journal and the runtime which containers the last agent left. Only
// then does Run follow the controllers.
func (a *Agent) recoverState(ctx context.Context) error {
	if err := a.recoverEntries(); err != nil {
		return err
	}
	var wait retry.Backoff
	for {
		err := a.inspectAll(ctx)
		if err == nil || ctx.Err() != nil {
			return context.Cause(ctx)
		}
		// Nothing may be created or stopped before it is known what runs.
		a.logRetry(ctx, "cannot list containers; it will be tried again", err, wait.Sleep(ctx))
	}
}

func (a *Agent) recoverEntries() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range a.Journal.Entries() {
		a.recoverRows(e)
		// A result alone needs no worker: workerOf reads it from the journal if a controller still
		// lists the container.
		if e.Final != nil && a.Foreign == "" {
			continue
		}
		id, ok := container.ParseID(e.ID)
		if !ok {
			return fmt.Errorf("journal: %q is not a container id (job.attempt.worker)", e.ID)
		}
		w := a.workerOf(id)
		w.recovered = e.Started
		if e.Final == nil {
			a.measure.Report(id, e.Measures)
		}
		if a.Cores != nil {
			a.Cores.MarkUsed(e.Cores)
		}
	}
	if a.Foreign != "" {
		a.keepAll("its containers are of cluster " + a.Foreign + ", which it has left: they run until their leases end")
	}
	return nil
}

// workerOf returns the worker of an id. A missing one is made from the journal.
func (a *Agent) workerOf(id container.ID) *worker {
	w := a.workers[id]
	if w == nil {
		w = &worker{Worker: reconcile.Worker{ID: id}}
		w.Entry, w.Journaled = a.Journal.Entry(id.String())
		a.workers[id] = w
		a.markChanged(w)
	}
	return w
}

// markChanged numbers the change of a worker, so that an inspection that began earlier does not
// undo it.
func (a *Agent) markChanged(w *worker) {
	a.changes++
	w.changedAt = a.changes
}

// watchContainers inspects all containers after each change, and every listInterval.
func (a *Agent) watchContainers(ctx context.Context) error {
	tick := time.NewTicker(listInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case answer := <-a.questions:
			// The watchdog asks if this loop turns and the mutex is free: a goroutine that never
			// gives the mutex back would stop everything.
			a.mu.Lock()
			a.mu.Unlock()
			close(answer)
			continue
		case <-a.Runtime.Changes():
		case <-tick.C:
		}
		a.drainChanges()
		if err := a.inspectAll(ctx); err != nil && ctx.Err() == nil {
			a.Log.Error("cannot list containers", "err", err)
		}
	}
}

// drainChanges drops the changes that the next inspection will show.
func (a *Agent) drainChanges() {
	for {
		select {
		case <-a.Runtime.Changes():
		default:
			return
		}
	}
}

// inspectAll lists all containers, updates the facts, and reconciles every worker. The list is made
// without the mutex and may be older than an action that ran meanwhile, so each step below guards
// against an old list.
func (a *Agent) inspectAll(ctx context.Context) error {
	// 1. List. began and mark say which changes came before the list.
	a.mu.Lock()
	began := a.changes
	a.mu.Unlock()
	mark := a.markSteps()
	all, err := a.Runtime.List(ctx)
	if err != nil {
		return fmt.Errorf("list containers: %w", err)
	}
	// 2. Open the job sockets of live containers, and close the others.
	for _, s := range all {
		if reconcile.Lives(s.State) && !a.isKept(s.ID) {
			a.openSocket(s.ID) // the last daemon may have made it
		} else {
			a.closeSocket(s.ID)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	// 3. Take over states. A container only moves forward, so an older state changes nothing.
	seen := make(map[container.ID]bool, len(all))
	var parts []container.Status // of steps
	for _, s := range all {
		if s.ID.Step > 0 {
			parts = append(parts, s)
			continue
		}
		seen[s.ID] = true
		w := a.workerOf(s.ID)
		if w.OlderThan(s) {
			a.setStatus(w, s)
		}
		w.Pid, w.Extern, w.Silent = s.Pid, s.Extern, s.Silent
	}
	// 4. A container that is not listed is gone, unless an action may have made it after the list.
	for id, w := range a.workers {
		if !seen[id] && !w.busy && w.changedAt <= began && w.Actual != "" {
			a.setStatus(w, container.Status{ID: id})
		}
	}
	a.noteSteps(mark, parts)
	a.noteSilent(all)
	// 5. Decide for each worker.
	for _, w := range a.workers {
		a.recoverSteps(w)
		a.reconcile(w)
	}
	return nil
}

// openSocket lets the processes of a container ask the controllers. The job can work without that,
// so an error is only logged.
func (a *Agent) openSocket(id container.ID) {
	if a.Sockets == nil {
		return
	}
	if err := a.Sockets.Open(id); err != nil {
		a.logOf(id).Warn("commands do not work in this job", "err", err)
	}
}

// isKept reports whether a container goes on although the controllers do not know it. They may know
// another job by its id, and its processes must not speak for that job.
func (a *Agent) isKept(id container.ID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.workers[id.OfWorker()]
	return w != nil && w.Kept
}

func (a *Agent) closeSocket(id container.ID) {
	if a.Sockets != nil {
		a.Sockets.Close(id)
	}
}

func (a *Agent) setStatus(w *worker, s container.Status) {
	w.Actual, w.Exit, w.LostReason, w.Switch, w.Save = s.State, s.Exit, s.Why, s.Switch, s.Save
	a.markChanged(w)
}

// reconcile decides which action is due for one worker and starts it. The mutex is held. It is
// called after every change of a fact, so it must be cheap and harmless to repeat.
func (a *Agent) reconcile(w *worker) {
	// 1. One action at a time: the end of the running one calls reconcile again.
	if w.busy && w.cancel != nil && (w.Desired == nil || w.Desired.Stop != nil) {
		w.cancel() // it must not hold up what is due now
	}
	if w.busy || a.ctx == nil || a.ctx.Err() != nil {
		return
	}
	// 2. Complete the facts that depend on other workers or on the clock, and queue changed states.
	w.Blocked = w.Actual == "" && w.Desired != nil && !w.Journaled && (a.olderAttemptRuns(w.ID) || a.keepsAny())
	a.queueReport(w)
	a.queueSwitch(w)
	w.DesiredUnknown = !a.desiredKnown
	w.StepsRun = a.outlived(w)
	w.LeaseOver = a.leaseOver(w)
	// 3. Decide. Without an action, forget the worker or come back at the time that Next names.
	now := time.Now()
	s, again := reconcile.Next(&w.Facts, now)
	w.waiting = w.Blocked || w.coresShort
	if s.Kind == reconcile.None {
		w.resetRetries(reconcile.None)
		if w.Idle() {
			again = time.Time{}
			delete(a.workers, w.ID)
			a.measure.Forget(w.ID)
		}
		w.wakeAt(a, again)
		return
	}
	// 4. Act now, or after the delay of a repeated action.
	if s.Kind != w.lastKind {
		w.resetRetries(s.Kind)
	}
	if now.Before(w.notBefore) {
		w.wakeAt(a, w.notBefore)
		return
	}
	a.startAction(w, s)
}

// olderAttemptRuns reports whether an earlier attempt of the job still has processes here. Two
// attempts never run at the same time.
func (a *Agent) olderAttemptRuns(id container.ID) bool {
	for other, w := range a.workers {
		if other.Job == id.Job && other.Attempt < id.Attempt && (w.Exists() || w.busy) {
			return true
		}
	}
	return false
}

// retryWaiting reconciles the workers that wait for an earlier attempt or for cores.
func (a *Agent) retryWaiting() {
	for _, w := range a.workers {
		if w.waiting {
			w.notBefore = time.Time{}
			a.reconcile(w)
		}
	}
}

// wakeAt reconciles the worker again at t. With a zero t it only cancels.
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
		if a.workers[w.ID] == w { // the worker may have been dropped meanwhile
			a.reconcile(w)
		}
	})
}

// startAction runs an action in a goroutine of its own, with a copy of the facts. Actions wait for
// a slot: creations have slots of their own, because they may hang on a file server that a job
// names.
func (a *Agent) startAction(w *worker, s reconcile.Action) {
	w.busy = true
	w.wakeAt(a, time.Time{})
	f, ctx, slots := w.Facts, a.ctx, a.slots
	switch s.Kind {
	case reconcile.Create:
		slots = a.createSlots
	case reconcile.Fetch:
		slots = nil // copies have a bound of their own, and a folder that is here needs no copy
		ctx, w.cancel = context.WithCancel(ctx)
	}
	a.actions.Go(func() {
		if slots == nil {
			done, err := a.run.Do(ctx, w.ID, &f, s)
			a.finishAction(w, s, done, err)
			return
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			a.mu.Lock()
			w.busy = false
			a.mu.Unlock()
			return
		}
		done, err := a.run.Do(ctx, w.ID, &f, s)
		<-slots
		a.finishAction(w, s, done, err)
	})
}

// finishAction applies the outcome of an action and reconciles the worker again. After a success
// the workers that wait for cores or for an earlier attempt get another try: this action may have
// freed them.
func (a *Agent) finishAction(w *worker, s reconcile.Action, done run.Change, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w.busy = false
	if w.cancel != nil {
		w.cancel()
		w.cancel = nil
	}
	a.markChanged(w)
	if done != nil {
		done(&w.Facts)
	}
	w.delayRepeat(s.Kind, err)
	if err != nil && !errors.Is(err, run.ErrNoCores) && a.ctx.Err() == nil {
		a.logOf(w.ID).Warn("an action failed and will be tried again", "action", string(s.Kind), "in", w.delay, "err", err)
	}
	w.coresShort = errors.Is(err, run.ErrNoCores)
	a.reconcile(w)
	if err == nil {
		a.retryWaiting()
	}
}

// delayRepeat delays an action that would be repeated at once, because it failed or has no effect
// yet. The delay doubles from [retry.Min] to [retry.Max].
func (w *worker) delayRepeat(o reconcile.Kind, err error) {
	if err == nil && o != reconcile.Kill && o != reconcile.Leave {
		w.resetRetries(o)
		return
	}
	w.Tries++
	w.delay = min(max(2*w.delay, retry.Min), retry.Max)
	w.notBefore = time.Now().Add(w.delay)
}

// resetRetries forgets the failures of the last action; o is the present one.
func (w *worker) resetRetries(o reconcile.Kind) {
	w.lastKind, w.delay, w.notBefore, w.Tries = o, 0, time.Time{}, 0
}

// logOf returns a log whose messages name a container and its job.
func (a *Agent) logOf(id container.ID) *slog.Logger {
	return a.Log.With("job", id.Job, "alloc", id.String())
}

// Live reports whether a container may still write output: it runs, or is about to.
func (a *Agent) Live(id container.ID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.workers[id]
	return w != nil && w.Entry.Final == nil && !reconcile.Ended(w.Actual)
}

func (a *Agent) isStopping() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ctx.Err() != nil
}

// leaseEnd returns when the lease of a container of an allocation ends that is created now; the zero
// time if it has none.
func (a *Agent) leaseEnd(of *api.Alloc) time.Time {
	if of.NoLease {
		return time.Time{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lease.end()
}
