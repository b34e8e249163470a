// Package consensustest runs several members of a consensus cluster in one process, and can cut
// their links, kill and restart them.
package consensustest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/rota-hpc/rota/consensus"
)

// Patience is how long a Cluster waits for an expected event, such as an election.
const Patience = 20 * time.Second

// Cluster is a set of members named n1, n2 and so on, each with a directory of its own.
type Cluster struct {
	tb      testing.TB
	machine func(name string) consensus.Machine
	tune    func(*consensus.Config)
	network network

	mu      sync.Mutex
	members []*member
}

// member is one member over all its restarts.
type member struct {
	consensus.Member
	dir     string
	node    *consensus.Node // nil while it is down
	machine consensus.Machine
}

// Start starts and bootstraps n members. It calls machine at every start of a member for a new
// machine, and tune (may be nil) to change the configuration. All members stop when the test ends.
func Start(tb testing.TB, n int, machine func(name string) consensus.Machine, tune func(*consensus.Config)) *Cluster {
	tb.Helper()
	c := &Cluster{tb: tb, machine: machine, tune: tune, network: network{cut: map[[2]string]bool{}}}
	dir := tb.TempDir()
	tb.Cleanup(c.stop)
	for i := range n {
		name := fmt.Sprintf("n%d", i+1)
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			tb.Fatal(err)
		}
		m := &member{dir: filepath.Join(dir, name)}
		m.Member = consensus.Member{Name: name, Addr: ln.Addr().String()}
		c.members = append(c.members, m)
		c.network.addMember(m.Member)
		c.open(m, ln)
	}
	for _, name := range c.Names() {
		if err := c.Node(name).Bootstrap(c.Members()); err != nil && !errors.Is(err, consensus.ErrBootstrapped) {
			tb.Fatal(err)
		}
	}
	return c
}

// open starts m on ln; without ln at its earlier address.
func (c *Cluster) open(m *member, ln net.Listener) {
	c.tb.Helper()
	if err := c.start(m, ln); err != nil {
		c.tb.Fatalf("open %s: %v", m.Name, err)
	}
}

func (c *Cluster) start(m *member, ln net.Listener) error {
	cfg := consensus.DefaultConfig()
	cfg.Name, cfg.Dir, cfg.Addr, cfg.Record = m.Name, m.dir, m.Addr, m.dir+".record"
	cfg.Logger = slog.New(slog.DiscardHandler)
	cfg.Listener = ln
	cfg.Dial = func(ctx context.Context, to consensus.Member) (net.Conn, error) {
		return c.network.dial(ctx, m.Name, to.Addr)
	}
	if c.tune != nil {
		c.tune(&cfg)
	}
	machine := c.machine(m.Name)
	node, err := consensus.Open(cfg, machine)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m.node, m.machine, m.Log = node, machine, node.Self().Log
	return nil
}

// stop ends all running parts.
func (c *Cluster) stop() {
	for _, m := range c.members {
		if node := c.take(m); node != nil {
			if err := node.Abort(); err != nil {
				c.tb.Errorf("stop %s: %v", m.Name, err)
			}
		}
	}
}

// take marks m as down and returns its node.
func (c *Cluster) take(m *member) *consensus.Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	node := m.node
	m.node = nil
	return node
}

// find returns the member with this name.
func (c *Cluster) find(name string) *member {
	c.tb.Helper()
	for _, m := range c.members {
		if m.Name == name {
			return m
		}
	}
	c.tb.Fatalf("no member %s", name)
	return nil
}

// Names returns the names of all members.
func (c *Cluster) Names() []string {
	var names []string
	for _, m := range c.members {
		names = append(names, m.Name)
	}
	return names
}

// Members returns all members, running or not, with the logs of their last start.
func (c *Cluster) Members() []consensus.Member {
	c.mu.Lock()
	defer c.mu.Unlock()
	var members []consensus.Member
	for _, m := range c.members {
		members = append(members, m.Member)
	}
	return members
}

// Node returns the running node with this name, or nil.
func (c *Cluster) Node(name string) *consensus.Node {
	c.tb.Helper()
	m := c.find(name)
	c.mu.Lock()
	defer c.mu.Unlock()
	return m.node
}

// Machine returns the machine of the member's current or last start.
func (c *Cluster) Machine(name string) consensus.Machine {
	c.tb.Helper()
	m := c.find(name)
	c.mu.Lock()
	defer c.mu.Unlock()
	return m.machine
}

// Dir returns the member's directory.
func (c *Cluster) Dir(name string) string { return c.find(name).dir }

// Kill stops a member like a crash: connections break and work in progress is lost.
func (c *Cluster) Kill(name string) {
	c.tb.Helper()
	if node := c.take(c.find(name)); node != nil {
		if err := node.Abort(); err != nil {
			c.tb.Fatalf("kill %s: %v", name, err)
		}
	}
}

// Stop stops a member in good order.
func (c *Cluster) Stop(name string) {
	c.tb.Helper()
	if node := c.take(c.find(name)); node != nil {
		if err := node.Shutdown(); err != nil {
			c.tb.Fatalf("stop %s: %v", name, err)
		}
	}
}

// Restart starts a member that is down, with its old directory and address.
func (c *Cluster) Restart(name string) {
	c.tb.Helper()
	if c.Node(name) == nil {
		c.open(c.find(name), nil)
	}
}

// Cut breaks the link between two members.
func (c *Cluster) Cut(a, b string) { c.network.sever(a, b) }

// Isolate breaks every link of a member.
func (c *Cluster) Isolate(name string) {
	for _, other := range c.Names() {
		if other != name {
			c.Cut(name, other)
		}
	}
}

// Heal mends every link.
func (c *Cluster) Heal() { c.network.heal() }

// WaitLeader waits until a quorum confirms a running member as leader, and returns its name.
func (c *Cluster) WaitLeader() string {
	c.tb.Helper()
	leader := ""
	c.Eventually("a leader", func() bool {
		leader = c.verified()
		return leader != ""
	})
	return leader
}

// verified returns the member that a quorum confirms as leader, or "".
func (c *Cluster) verified() string {
	for _, name := range c.Names() {
		node := c.Node(name)
		if node == nil || !node.IsLeader() {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		err := node.Verify(ctx)
		cancel()
		if err == nil {
			return name
		}
	}
	return ""
}

// Eventually waits until ok returns true, and fails the test if that takes longer than Patience.
func (c *Cluster) Eventually(what string, ok func() bool) {
	c.tb.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(Patience); time.Now().Before(deadline); <-tick.C {
		if ok() {
			return
		}
	}
	c.tb.Fatalf("no %s within %v", what, Patience)
}
