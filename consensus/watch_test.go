package consensus_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rota-hpc/rota/consensus"
	"github.com/rota-hpc/rota/consensus/consensustest"
)

// deafen makes every member wait ten minutes for a silent leader.
func deafen(t *testing.T, c *consensustest.Cluster) {
	t.Helper()
	for _, name := range c.Names() {
		if c.Node(name) == nil {
			continue
		}
		if err := c.Node(name).WaitForSilence(10 * time.Minute); err != nil {
			t.Fatal(err)
		}
	}
}

// TestALeaderThatEndsIsReplacedAtOnce kills leaders of members that would wait ten minutes for a
// silent one, which is longer than the test does.
func TestALeaderThatEndsIsReplacedAtOnce(t *testing.T) {
	for _, n := range []int{3, 5} {
		c := consensustest.Start(t, n, newRecord, nil)
		for range n / 2 {
			leader := c.WaitLeader()
			sameEverywhere(t, c)
			awaitFollowers(t, c, leader)
			deafen(t, c)
			c.Kill(leader)
			if next := c.WaitLeader(); next == leader {
				t.Fatalf("%s leads after it was killed", next)
			}
			if got := propose(t, c, "after"); got == "" {
				t.Error("the next leader answers nothing")
			}
		}
	}
}

// awaitFollowers waits until every running member follows leader.
func awaitFollowers(t *testing.T, c *consensustest.Cluster, leader string) {
	t.Helper()
	c.Eventually("followers", func() bool {
		for _, name := range c.Names() {
			if c.Node(name) == nil {
				continue
			}
			if m, ok := c.Node(name).Leader(); !ok || m.Name != leader {
				return false
			}
		}
		return true
	})
}

// TestASilentLeaderIsGivenItsTime cuts a leader off: its machine refuses nothing, and only silence
// tells that it is gone. It notices a member that stands for election because a connection failed in
// any other way than by refusal.
func TestASilentLeaderIsGivenItsTime(t *testing.T) {
	var dials sync.Map // from the name of a member to how often it was dialled
	c := consensustest.Start(t, 3, newRecord, func(cfg *consensus.Config) {
		dial := cfg.Dial
		cfg.Dial = func(ctx context.Context, to consensus.Member) (net.Conn, error) {
			n, _ := dials.LoadOrStore(to.Name, new(atomic.Int64))
			n.(*atomic.Int64).Add(1)
			return dial(ctx, to)
		}
	})
	leader := c.WaitLeader()
	awaitFollowers(t, c, leader)
	deafen(t, c)
	term := c.Node(leader).Term()
	c.Isolate(leader)
	n, _ := dials.LoadOrStore(leader, new(atomic.Int64))
	before := n.(*atomic.Int64).Load()
	c.Eventually("tries to reach the leader", func() bool { return n.(*atomic.Int64).Load() > before+8 })
	for _, name := range c.Names() {
		if got := c.Node(name).Term(); got != term {
			t.Errorf("%s is at term %d, before the cut it was %d", name, got, term)
		}
	}
}
