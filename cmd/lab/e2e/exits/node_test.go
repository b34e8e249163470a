package exits

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/gpu"
	"github.com/rota-hpc/rota/noded/journal"
)

// node is one node's daemon with hooks in what it works with.
type node struct {
	*link
	name    string
	bare    container.Runtime // without hooks
	journal *journal.Journal
	cancel  context.CancelFunc
	ended   chan error

	hooks  sync.Mutex
	hold   moment        // [created] or [released]: a first attempt does not come further
	held   bool          // it was held there
	let    chan struct{} // closed to let it go, which fails what was held
	asks   int           // calls that asked a first attempt to stop, or to end
	hidden bool          // the ends of containers are hidden from the daemon
	blind  bool          // the daemon does not see that containers end
	seen   []container.Status
}

// ports gives each node ports of its own: cells run at once on one machine.
var ports atomic.Int64

const portsFrom, portsEach = 10_000, 2

// newNode makes a node whose daemon has not started.
func newNode(c *controllers, name string) *node {
	return &node{link: &link{controllers: c}, name: name, let: make(chan struct{}), ended: make(chan error, 1)}
}

// start runs the daemon on a machine.
func (n *node) start(path string, r container.Runtime, b noded.Bundles) error {
	var err error
	if n.journal, err = journal.Open(path); err != nil {
		return err
	}
	n.bare = r
	first := portsFrom + int(ports.Add(portsEach)%9_000)
	agent := noded.NewAgent(noded.Parts{
		Node: model.Node{Name: n.name, Addr: n.name + ":1", BootID: "boot", Cores: 8, Memory: 64 * jobspec.GiB,
			PortMin: first, PortMax: first + portsEach - 1, SharedPath: []string{"/"}},
		Control: n.link, Runtime: hookedRuntime{r, n}, Bundles: b, Journal: hookedJournal{n.journal, n},
		GPUs: gpu.Sim{Node: n.name, N: 2}, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	go func() { n.ended <- agent.Run(ctx) }()
	return nil
}

// stop ends the daemon.
func (n *node) stop() error {
	n.cancel()
	<-n.ended
	return n.journal.Close()
}

// knows reports whether the daemon has carried over what the log says at an index.
func (n *node) knows(index uint64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.asked >= index
}

// passes holds the launch of a first attempt at a moment. It fails what was held: the order is lost.
func (n *node) passes(ctx context.Context, at moment, attempt int) error {
	n.hooks.Lock()
	holds := n.hold == at && attempt == 1
	n.held = n.held || holds
	n.hooks.Unlock()
	if !holds {
		return nil
	}
	select {
	case <-n.let:
		return errLost
	case <-ctx.Done():
		return ctx.Err()
	}
}

var errLost = errors.New("it was lost on the way")

// isHeld reports whether a launch is held.
func (n *node) isHeld() bool {
	n.hooks.Lock()
	defer n.hooks.Unlock()
	return n.held
}

// noteAsk counts a call that asks a first attempt to stop.
func (n *node) noteAsk(id container.ID) {
	n.hooks.Lock()
	defer n.hooks.Unlock()
	if id.Attempt == 1 {
		n.asks++
	}
}

func (n *node) asksSoFar() int {
	n.hooks.Lock()
	defer n.hooks.Unlock()
	return n.asks
}

// hide says that calls may not return, because the ends of containers are hidden.
func (n *node) hide() {
	n.hooks.Lock()
	defer n.hooks.Unlock()
	n.hidden = true
}

func (n *node) isHidden() bool {
	n.hooks.Lock()
	defer n.hooks.Unlock()
	return n.hidden
}

// blindfold keeps the daemon from seeing changes of its containers.
func (n *node) blindfold(on bool) error {
	list, err := n.bare.List(context.Background())
	n.hooks.Lock()
	defer n.hooks.Unlock()
	n.blind, n.seen = on, list
	return err
}

// hookedRuntime holds orders on their way to a runtime.
type hookedRuntime struct {
	container.Runtime
	n *node
}

// Start implements container.Runtime.
func (r hookedRuntime) Start(ctx context.Context, id container.ID) error {
	if err := r.n.passes(ctx, released, id.Attempt); err != nil {
		return err
	}
	return r.Runtime.Start(ctx, id)
}

// Signal implements container.Runtime.
func (r hookedRuntime) Signal(ctx context.Context, id container.ID, s container.Signal) error {
	if r.n.isHidden() {
		r.n.noteAsk(id) // a shim that is stopped does not answer
	} else {
		defer r.n.noteAsk(id)
	}
	return r.Runtime.Signal(ctx, id, s)
}

// Kill implements container.Runtime.
func (r hookedRuntime) Kill(ctx context.Context, id container.ID) error {
	defer r.n.noteAsk(id)
	return r.Runtime.Kill(ctx, id)
}

// List implements container.Runtime.
func (r hookedRuntime) List(ctx context.Context) ([]container.Status, error) {
	r.n.hooks.Lock()
	blind, seen := r.n.blind, r.n.seen
	r.n.hooks.Unlock()
	if blind {
		return seen, nil
	}
	return r.Runtime.List(ctx)
}

// hookedJournal holds records on their way to the disk.
type hookedJournal struct {
	*journal.Journal
	n *node
}

// Append implements noded.Journal.
func (j hookedJournal) Append(records ...journal.Record) error {
	for i := range records {
		id, _ := container.ParseID(records[i].ID)
		if records[i].Op != journal.Started {
			continue
		}
		if err := j.n.passes(context.Background(), created, id.Attempt); err != nil {
			return err
		}
	}
	return j.Journal.Append(records...)
}
