package consensus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/rota-hpc/rota/consensus/entry"
	"github.com/rota-hpc/rota/consensus/logcache"
	"github.com/rota-hpc/rota/consensus/raftlog"
)

// Limits of a node.
const (
	snapshotsKept  = 2
	commitInterval = 15 * time.Millisecond // an idle leader tells followers within this time which entries are committed
	trailingMin    = 64                    // entries kept before a snapshot, for followers a little behind
	trailingMax    = 10240                 // the most such entries
	trailingBytes  = 64 << 20              // the most bytes of such entries, estimated from the mean size
	snapshotRetry  = time.Minute
	never          = 365 * 24 * time.Hour
	drainTimeout   = 2 * time.Second // time for pending proposals when the node stops
)

// Node is one member. All methods may be called from any goroutine.
type Node struct {
	cfg     Config
	log     *slog.Logger
	dir     *directory
	guard   *guard
	stream  *stream
	trans   serialTransport
	known   *witness
	trusted atomic.Bool // this member may vote
	meeting sync.Map    // server IDs that probation is connecting to
	timings sync.Map    // server IDs of members with other timeouts that were warned about
	machine *adapter
	raft    *raft.Raft

	proposals chan *proposal
	inFlight  atomic.Pointer[batch] // the group that sendProposals waits for
	verifies  chan chan error       // reply channels of pending Verify calls, each with room for one answer
	elected   chan bool             // the library's notifications, in order
	observed  chan raft.Observation // changes of other members' leadership
	tasks     sync.WaitGroup

	stopping chan struct{} // closed first: the node takes no new work
	stopped  chan struct{} // closed once nothing more will happen
	failed   chan error

	mu         sync.Mutex
	leadership *leadership   // nil unless this member leads
	changed    chan struct{} // closed and replaced at each change of leadership, anywhere
	fatal      error
	isStopping bool // stopping is closed
	isStopped  bool // stopped is closed
	started    bool // raft is set
}

// Open starts the member described by cfg, with the state in its directory. Errors wrap
// ErrNotWritable, ErrNewer, ErrLocked, ErrCorrupt or ErrPortInUse where one of them is the reason.
func Open(cfg Config, m Machine) (*Node, error) {
	cfg = cfg.withDefaults()
	s, err := listen(cfg)
	if err != nil {
		return nil, err
	}
	dir, err := openDirectory(cfg.Dir, cfg.Record)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := dir.claim(cfg.Name); err != nil {
		return nil, errors.Join(err, s.Close(), dir.close())
	}
	n := newNode(cfg, m, dir, s)
	if err := n.start(); err != nil {
		return nil, errors.Join(err, s.Close(), dir.close())
	}
	return n, nil
}

// newNode creates a node that does nothing yet.
func newNode(cfg Config, m Machine, dir *directory, s *stream) *Node {
	n := &Node{
		cfg: cfg, dir: dir, stream: s, log: cfg.Logger.With("member", cfg.Name), known: newWitness(),
		proposals: make(chan *proposal, entry.GroupCountMax),
		verifies:  make(chan chan error),
		elected:   make(chan bool, 16),
		observed:  make(chan raft.Observation, 16),
		stopping:  make(chan struct{}),
		stopped:   make(chan struct{}),
		failed:    make(chan error, 1),
		changed:   make(chan struct{}),
	}
	n.known.load(cfg.Dir)
	n.trusted.Store(dir.fresh || dir.promises.recorded)
	n.stream.greet = &greeter{self: n.Self().serverID(), known: n.known, behind: n.behind, time: cfg.timing(),
		others: n.otherTiming}
	n.guard = &guard{store: dir.log, promises: dir.promises, applied: n.Applied, beyond: n.beyond, differs: n.differs,
		fail: n.fail, stall: cfg.Stall}
	n.machine = &adapter{
		machine: m, fail: n.fail, inFlight: n.inFlightBatch, due: make(chan struct{}, 1),
		every: cfg.SnapshotEvery,
	}
	return n
}

// start starts the library and the node's goroutines.
func (n *Node) start() error {
	n.trans = newTransport(n.stream, n.known, n.cfg.Find, n.onProbation, n.stopped, raftlog.New(n.log))
	if err := n.startRaft(n.trans); err != nil {
		return errors.Join(err, n.trans.Close())
	}
	if err := n.markStarted(); err != nil {
		return errors.Join(err, n.raft.Shutdown().Error())
	}
	n.raft.RegisterObserver(raft.NewObserver(n.observed, false, func(o *raft.Observation) bool {
		_, ok := o.Data.(raft.LeaderObservation)
		return ok
	}))
	for _, task := range []func(){
		n.watchLeadership, n.watchLeader, n.sendProposals, n.verifyOnDemand, n.takeSnapshots, n.takeRequests,
		n.endProbation, n.saveSeen,
	} {
		n.tasks.Go(task)
	}
	return nil
}

// markStarted publishes n.raft unless the disk has failed already.
func (n *Node) markStarted() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.started = true
	return n.fatal
}

// startRaft creates the library's node on its own goroutine, which the guard may end.
func (n *Node) startRaft(trans raft.Transport) error {
	log := raftlog.New(n.log)
	snapshots, err := openSnapshots(n.cfg.Dir, n.dir.promises, log)
	if err != nil {
		return notWritable(n.cfg.Dir, err)
	}
	config := n.raftConfig(log)
	if err := raft.ValidateConfig(config); err != nil {
		return fmt.Errorf("consensus of %s: %w", n.cfg.Name, err)
	}
	done := make(chan error, 1)
	go func() {
		err := fmt.Errorf("start raft: %w", ErrStopped) // returned if the guard ends this goroutine
		defer func() {
			if p := recover(); p != nil {
				err = corrupt(filepath.Join(n.cfg.Dir, logFile), fmt.Errorf("%v", p))
			}
			done <- err
		}()
		debug.SetPanicOnFault(true)
		end, _ := n.guard.LastIndex()
		n.guard.chain = n.guard.chainAt(end)
		n.raft, err = raft.NewRaft(config, n.machine, &logcache.Cache{LogStore: n.guard}, n.guard, snapshots, trans)
	}()
	if err := <-done; err != nil {
		return n.startError(err)
	}
	return nil
}

// startError finds the cause of the library's error.
func (n *Node) startError(err error) error {
	if fatal := n.fatalError(); fatal != nil {
		return fatal
	}
	if cause := n.machine.lastRestoreError(); cause != nil {
		return fmt.Errorf("%s: %w", filepath.Join(n.cfg.Dir, snapshotsDir), cause)
	}
	if errors.Is(err, ErrCorrupt) {
		return err
	}
	return corrupt(n.cfg.Dir, err)
}

// raftConfig converts the configuration. takeSnapshots decides when to take snapshots, because it
// also counts bytes.
func (n *Node) raftConfig(log hclog.Logger) *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = n.Self().serverID()
	c.HeartbeatTimeout = n.cfg.Heartbeat
	c.ElectionTimeout = n.cfg.Election
	c.LeaderLeaseTimeout = n.cfg.LeaderLease
	c.CommitTimeout = commitInterval
	c.MaxAppendEntries = logcache.EntriesPerAppend
	c.TrailingLogs = trailingMax
	c.SnapshotInterval = never
	c.SnapshotThreshold = math.MaxUint64
	c.ShutdownOnRemove = false
	c.NotifyCh = n.elected
	c.NoLegacyTelemetry = true
	c.Logger = log
	return c
}

// Bootstrap makes members the voters of a new cluster. Every member must be called with the same
// list. It returns ErrBootstrapped if the member already has state.
func (n *Node) Bootstrap(members []Member) error {
	var c raft.Configuration
	for _, m := range members {
		c.Servers = append(c.Servers, raft.Server{ID: m.serverID(), Address: raft.ServerAddress(m.Addr)})
	}
	err := n.wait(context.Background(), n.raft.BootstrapCluster(c))
	if errors.Is(err, raft.ErrCantBootstrap) {
		return fmt.Errorf("bootstrap %s: %w", n.cfg.Name, ErrBootstrapped)
	}
	if err != nil {
		return fmt.Errorf("bootstrap %s: %w", n.cfg.Name, err)
	}
	return nil
}

// HasState reports whether this member belongs to a cluster: it was bootstrapped, or has received
// entries from a leader.
func (n *Node) HasState() bool { return n.raft.LastIndex() > 0 }

// Self returns this member.
func (n *Node) Self() Member {
	return Member{Name: n.cfg.Name, Addr: string(n.stream.addr), Log: n.dir.promises.log}
}

// Leader returns the leader, to this member's knowledge.
func (n *Node) Leader() (Member, bool) {
	addr, id := n.raft.LeaderWithID()
	return memberOf(id, addr), id != ""
}

// IsLeader reports whether this member believes to be the leader. Only [Node.Verify] makes sure.
func (n *Node) IsLeader() bool { return n.raft.State() == raft.Leader }

// Term returns the current term.
func (n *Node) Term() uint64 { return n.raft.CurrentTerm() }

// Applied returns the index of the last entry that the machine has applied or restored.
func (n *Node) Applied() uint64 { return n.machine.applied.Load() }

// LastContact returns when this member last heard from a leader: the current time on a leader, and
// zero if never.
func (n *Node) LastContact() time.Time {
	if n.IsLeader() {
		return time.Now()
	}
	return n.raft.LastContact()
}

// Snapshot writes a snapshot now and shortens the log.
func (n *Node) Snapshot(ctx context.Context) error {
	err := n.wait(ctx, n.snapshotFuture())
	if err != nil && !errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return fmt.Errorf("snapshot: %w", err)
	}
	return nil
}

// snapshotFuture requests a snapshot from the library, after setting how many entries stay in the
// log.
func (n *Node) snapshotFuture() raft.Future {
	c := n.raft.ReloadableConfig()
	c.TrailingLogs = trailing(n.machine.meanSize(), n.cfg.SnapshotEvery)
	if err := n.raft.ReloadConfig(c); err != nil {
		n.log.Warn("cannot set the length of the log", "error", err)
	}
	return n.raft.Snapshot()
}

// trailing returns how many entries of mean size stay before a snapshot.
func trailing(size int64, every int) uint64 {
	fits := trailingBytes / max(size, 1)
	return uint64(min(max(fits, trailingMin), trailingMax, max(int64(every), trailingMin)))
}

// takeSnapshots takes a snapshot whenever enough entries were applied. If the snapshot cannot be
// written, it tries again later, so that a full disk stops the log as late as possible.
func (n *Node) takeSnapshots() {
	retry := time.NewTimer(never)
	defer retry.Stop()
	for {
		select {
		case <-n.stopping:
			return
		case <-n.stopped:
			return
		case <-retry.C:
		case <-n.machine.due:
		}
		if err := n.Snapshot(context.Background()); err != nil && !errors.Is(err, ErrStopped) {
			n.log.Error("snapshot failed; the log grows until one succeeds", "dir", n.cfg.Dir, "error", err)
			retry.Reset(snapshotRetry)
		}
	}
}

// wait waits for f. The library may never answer after the node has stopped, so f gets its own
// goroutine.
func (n *Node) wait(ctx context.Context, f raft.Future) error {
	answer, err := receive(ctx, n, answerOf(f))
	if err != nil {
		return err
	}
	return n.translate(answer)
}

// answerOf returns a channel that delivers the result of f.
func answerOf(f raft.Future) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f.Error() }()
	return done
}

// receive returns the next value from a channel. It fails when ctx ends or the node stops.
func receive[T any](ctx context.Context, n *Node, from <-chan T) (T, error) {
	var zero T
	select {
	case v := <-from:
		return v, nil
	case <-ctx.Done():
		return zero, context.Cause(ctx)
	case <-n.stopped:
		return zero, n.stopError()
	}
}

// translate converts the library's errors into errors of this package.
func (n *Node) translate(err error) error {
	switch {
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return n.notLeader()
	case errors.Is(err, raft.ErrLeadershipLost), errors.Is(err, raft.ErrAbortedByRestore):
		return &UncertainError{Cause: n.lossCause()}
	case errors.Is(err, raft.ErrRaftShutdown):
		return n.stopError()
	}
	return err
}

// lossCause returns why leadership was lost: a failure of this member's disk, otherwise another
// member.
func (n *Node) lossCause() error {
	if n.fatalError() != nil {
		return n.stopError()
	}
	return ErrLeadershipLost
}

// notLeader names the leader unless it is this member, to its knowledge.
func (n *Node) notLeader() error {
	m, _ := n.Leader()
	if m.Name == n.cfg.Name {
		m = Member{}
	}
	return &NotLeaderError{Leader: m}
}

// fatalError returns the error that fail was called with.
func (n *Node) fatalError() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.fatal
}

// stopError is ErrStopped with the reason.
func (n *Node) stopError() error {
	if fatal := n.fatalError(); fatal != nil {
		return fmt.Errorf("%w: %w", ErrStopped, fatal)
	}
	return ErrStopped
}

// Failed delivers one *[FatalError] if the log cannot be written or read any more, or one
// *[LogError] if it must not be used any more. The member has then stopped by itself, and the
// process should exit with the message; [Node.Shutdown] still releases the directory.
func (n *Node) Failed() <-chan error { return n.failed }

// fail stops the node because of its disk. It runs on goroutines of the library, so it must not
// wait.
func (n *Node) fail(op string, err error) {
	if !errors.Is(err, errLogClosed) {
		n.stop(&FatalError{Dir: n.cfg.Dir, Op: op, Err: err})
	}
}

// stop stops the node because it cannot continue.
func (n *Node) stop(fatal error) {
	n.mu.Lock()
	if n.fatal != nil || n.isStopped {
		n.mu.Unlock()
		return
	}
	n.fatal = fatal
	n.mu.Unlock()
	n.guard.kill()
	n.log.Error("consensus stops", "dir", n.cfg.Dir, "error", fatal)
	n.failed <- fatal
	n.markStopped()
	go n.halt() // on another goroutine, because the library may hold its locks on this one
}

// halt silences a failed node. A node that has not started yet is silent already.
func (n *Node) halt() {
	n.mu.Lock()
	started := n.started
	n.mu.Unlock()
	_ = n.stream.Close() // no caller could use the error
	if started {
		n.raft.Shutdown()
	}
}

// markStopping closes stopping and returns whether this call closed it.
func (n *Node) markStopping() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.isStopping {
		return false
	}
	n.isStopping = true
	close(n.stopping)
	return true
}

// markStopped closes stopped and ends leadership.
func (n *Node) markStopped() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.isStopped {
		return
	}
	n.isStopped = true
	close(n.stopped)
	if n.leadership != nil {
		n.leadership.cancel(ErrStopped)
	}
}

// Shutdown stops the node: it finishes pending proposals, hands over leadership, and releases
// address and directory. Later calls do nothing.
func (n *Node) Shutdown() error {
	if !n.markStopping() {
		return nil
	}
	n.drain()
	if n.IsLeader() && len(n.Members()) > 1 && n.fatalError() == nil {
		if err := n.wait(context.Background(), n.raft.LeadershipTransfer()); err != nil {
			n.log.Warn("cannot hand leadership to another controller", "error", err)
		}
	}
	return n.release()
}

// Abort stops the node like a crash: nothing is finished, and nothing more is written to the log.
// For tests.
func (n *Node) Abort() error {
	n.guard.killAndWait()
	if !n.markStopping() {
		return nil
	}
	return n.release()
}

// release ends every goroutine, and releases address and directory. If a disk write hangs, its
// goroutine cannot end, and the directory stays locked until the process exits.
func (n *Node) release() error {
	n.markStopped()
	future := n.raft.Shutdown()
	_ = n.stream.Close() // no caller could use the error
	if errors.Is(n.fatalError(), errStalled) {
		return fmt.Errorf("%s stays locked: %w", n.cfg.Dir, errStalled)
	}
	err := future.Error()
	n.guard.killAndWait()
	n.tasks.Wait()
	return errors.Join(err, n.dir.close())
}
