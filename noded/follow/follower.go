// Package follow keeps a node in touch with the leader of its cluster. It registers the node, polls
// for allocations, counts the lease of each answer, and follows the generation of the cluster. In an
// outage of all controllers it asks witnesses whether leases may be extended.
//
//   - poll.go has the loop, and judges whether an answer counts.
//   - lease.go counts leases on a clock that goes on while the machine is suspended.
//   - generation.go decides which controllers this node obeys.
//   - outage.go and witnessclient.go ask the witnesses.
//   - notice.go says in rota nodes what is unusual about this node.
//
// The package knows no container. It passes the leader's wishes and the duration of leases to
// [Node]. A [Follower] has a lock of its own. It calls Node while it holds that lock, so that
// answers and extensions reach the node in order. The node never calls a Follower while it holds
// its own lock.
package follow

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/witness"
	"github.com/rota-hpc/rota/noded/container"
)

// Controller is the part of the control plane that a Follower talks to.
type Controller interface {
	// Register puts the inventory of the node into the log.
	Register(ctx context.Context, node string, req api.RegisterRequest) (*api.RegisterResponse, error)
	// Allocs returns the allocations that should run on the node. It waits up to wait for a state
	// newer than after.
	Allocs(
		ctx context.Context, node, bootID string, after uint64, wait time.Duration, echo api.Echo,
	) (*api.NodeAllocs, error)
	// Generation returns the generation of the cluster that the controllers have.
	Generation(ctx context.Context, node, bootID string) (*api.Generation, error)
	// AcceptGeneration says that the node follows it, and reports the attempts that the node knows.
	AcceptGeneration(ctx context.Context, node string, req api.AcceptGeneration) (*api.Generation, error)
}

// Node is the part of the node daemon that has the containers.
type Node interface {
	// Apply makes the workers match an answer that counts, and passes its lease on to their shims.
	// received is the moment of the answer, from which its deadlines count.
	Apply(answer *api.NodeAllocs, received time.Time, l Lease)
	// Extend passes an extended lease on to the containers that go on in an outage. Containers in
	// runOut get none.
	Extend(l Lease, runOut map[container.ID]bool)
	// KeepAll has all present containers go on until their leases end. Nothing renews these leases:
	// the present controllers may not know the containers, or mean another job by the same id.
	// Until an answer counts again, the wish of the controllers is unknown. With unseen, ids are
	// not given again, so that a container without a known allocation is the one that an answer
	// lists.
	KeepAll(unseen bool)
	// Kept returns the kept containers that exist, in order.
	Kept() []string
	// KeepsAny reports whether a kept container still runs, or an action on one.
	KeepsAny() bool
	// Known returns the workers that this node knows of, and those among them that are here or whose
	// results are.
	Known() (known, live []string)
}

// Inventory is the GPUs of the node. *gpus.Set implements it.
type Inventory interface {
	// ForRegistration returns the GPUs as they are to be registered now.
	ForRegistration() []model.GPU
	// SetUnregistered notes that the last registration has failed.
	SetUnregistered()
	// NeedRegistration reports whether the GPUs have changed since the last registration.
	NeedRegistration() bool
}

// Config is the surroundings of a Follower.
type Config struct {
	Self    model.Node // is registered; its GPUs come from GPUs, its notice from here
	Control Controller
	Node    Node
	GPUs    Inventory
	Lineage *Lineage // the generation that the node follows; nil: it begins with 0
	Outage  *Outage  // the witnesses; nil: memory alone has them
	// AskWitness asks the daemon of a node for how long it has heard of no leader, in milliseconds.
	// If it is nil, no other node is asked.
	AskWitness func(ctx context.Context, node, addr string) (int64, error)
	// Boot is CLOCK_BOOTTIME in milliseconds, the clock of witnesses; nil: this machine's.
	Boot func() int64
	// Notices returns the notices of other parts of the daemon for rota nodes.
	Notices func() []string
	Log     *slog.Logger
}

// Follower follows the leader of the cluster.
type Follower struct {
	Config
	registering chan struct{} // held during a registration

	mu       sync.Mutex
	index    uint64    // of the last answer that was applied
	heard    time.Time // the last answer that counted, or the start of this daemon
	lease    Lease     // the last confirmed one, or as the witnesses have extended it
	notice   string    // about other controllers, for rota nodes
	noticeAt time.Time
	noticed  string // the whole notice that was registered
}

// New returns a Follower that has heard nothing yet.
func New(c Config) *Follower {
	f := &Follower{Config: c, registering: make(chan struct{}, 1), heard: time.Now()}
	if f.Lineage == nil {
		f.Lineage = &Lineage{}
	}
	if f.Outage == nil {
		f.Outage = &Outage{}
	}
	if f.Boot == nil {
		f.Boot = bootMS
	}
	f.Outage.holder = witness.Holder{Started: f.Boot()}
	return f
}

// Run follows the leader until ctx ends.
func (f *Follower) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return f.poll(ctx) })
	group.Go(func() error { return f.watchOutage(ctx) })
	return group.Wait()
}

// lock locks the Follower. It returns the methods that need the lock, and the function that unlocks it.
func (f *Follower) lock() (locked, func()) {
	f.mu.Lock()
	return locked{f}, f.mu.Unlock
}

// locked is a Follower whose lock is held. A method of this type runs under the lock, because only
// [Follower.lock] returns one.
type locked struct{ *Follower }

// AwaitFree returns when the lock is free. A watchdog asks so.
func (f *Follower) AwaitFree() {
	_, unlock := f.lock()
	unlock()
}
