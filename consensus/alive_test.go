package consensus_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/rota-hpc/rota/consensus"
	"github.com/rota-hpc/rota/consensus/consensustest"
)

// TestAMemberIsAliveWithoutAQuorum notices members that count as hung because they have no leader or
// no quorum: a restart would not help them.
func TestAMemberIsAliveWithoutAQuorum(t *testing.T) {
	c := consensustest.Start(t, 3, newRecord, nil)
	old := c.WaitLeader()
	alive := func(when string) {
		t.Helper()
		for _, name := range c.Names() {
			if err := c.Node(name).Alive(withTimeout(t)); err != nil {
				t.Errorf("%s, %s is not alive: %v", when, name, err)
			}
		}
	}
	alive("with a leader")
	for _, name := range c.Names() {
		c.Isolate(name)
	}
	alive("right after the loss of the quorum")
	c.Eventually("no leader", func() bool { return !c.Node(old).IsLeader() })
	alive("without a leader")
}

// TestAMemberWhoseDiskHangsIsNotAlive notices a check that the loop of the log has no part in.
func TestAMemberWhoseDiskHangsIsNotAlive(t *testing.T) {
	c := consensustest.Start(t, 1, newRecord, func(cfg *consensus.Config) { cfg.Stall = consensustest.Patience })
	n := c.Node(c.WaitLeader())
	release := sync.OnceFunc(n.HangDisk())
	t.Cleanup(release) // before the member is stopped
	written := make(chan error, 1)
	go func() {
		_, _, err := n.Propose(context.Background(), []byte("hangs"))
		written <- err
	}()
	c.Eventually("it hangs", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		return errors.Is(n.Alive(ctx), context.DeadlineExceeded)
	})
	release()
	if err := n.Alive(withTimeout(t)); err != nil {
		t.Errorf("its disk answers, and it is not alive: %v", err)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
	if err := n.Shutdown(); err != nil {
		t.Error(err)
	}
	if err := n.Alive(withTimeout(t)); !errors.Is(err, consensus.ErrStopped) {
		t.Errorf("it has ended, and is alive: %v", err)
	}
}
