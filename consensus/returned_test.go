package consensus_test

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rota-hpc/rota/consensus"
	"github.com/rota-hpc/rota/consensus/consensustest"
)

// failures counts what the library logs of requests to followers that failed.
type failures struct {
	heartbeats, appends *atomic.Int64
}

func newFailures() failures { return failures{new(atomic.Int64), new(atomic.Int64)} }

// Enabled implements slog.Handler.
func (f failures) Enabled(context.Context, slog.Level) bool { return true }

// WithAttrs implements slog.Handler.
func (f failures) WithAttrs([]slog.Attr) slog.Handler { return f }

// WithGroup implements slog.Handler.
func (f failures) WithGroup(string) slog.Handler { return f }

// Handle implements slog.Handler.
func (f failures) Handle(_ context.Context, r slog.Record) error {
	switch {
	case strings.Contains(r.Message, "failed to heartbeat"):
		f.heartbeats.Add(1)
	case strings.Contains(r.Message, "failed to appendEntries"):
		f.appends.Add(1)
	}
	return nil
}

// TestAReturnedMemberGetsEntriesAtOnce notices a leader that sends a member no entries for as long as
// the member was down, while the heartbeats arrive. Each failed request doubles the wait before the
// next one, so an outage may fail one request, and not ten.
func TestAReturnedMemberGetsEntriesAtOnce(t *testing.T) {
	seen := newFailures()
	c := consensustest.Start(t, 3, newRecord, func(cfg *consensus.Config) { cfg.Logger = slog.New(seen) })
	leader := c.WaitLeader()
	var others []string
	for _, name := range c.Names() {
		if name != leader {
			others = append(others, name)
		}
	}
	propose(t, c, "all are up")
	c.Kill(others[0])
	propose(t, c, "one is down")
	seen.heartbeats.Store(0)
	c.Eventually("heartbeats fail", func() bool { return seen.heartbeats.Load() >= 12 })
	if c.WaitLeader() != leader {
		t.Skip("another one leads: the machine is too busy for this story")
	}
	if n := seen.appends.Load(); n > 1 {
		t.Errorf("%d requests with entries have failed while %d heartbeats did", n, seen.heartbeats.Load())
	}
	c.Restart(others[0])
	sameEverywhere(t, c)
	c.Kill(others[1])
	propose(t, c, "the member that has returned counts")
}
