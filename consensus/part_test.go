package consensus_test

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rota-hpc/rota/consensus"
	"github.com/rota-hpc/rota/consensus/consensustest"
)

// parted is a machine that goes on with an entry only once a caller of an earlier part of it has
// been answered.
type parted struct {
	answered chan uint64   // the index of every answer
	late     chan struct{} // closed when the test has waited long enough
	index    uint64
	parts    atomic.Int64 // that went on
	stuck    atomic.Bool
}

func (m *parted) Apply(index uint64, proposals [][]byte) []any {
	if index == m.index && !m.heard(index) {
		m.stuck.Store(true)
	}
	m.index = index
	return make([]any, len(proposals))
}

// heard waits for an answer from entry index.
func (m *parted) heard(index uint64) bool {
	for {
		select {
		case from := <-m.answered:
			if from == index {
				m.parts.Add(1)
				return true
			}
		case <-m.late:
			return false
		}
	}
}

func (*parted) Restore(io.Reader) error { return nil }
func (*parted) Snapshot() (func(io.Writer) error, error) {
	return func(io.Writer) error { return nil }, nil
}

func TestCallersAreAnsweredBeforeTheirWholeEntryIsApplied(t *testing.T) {
	const callers, rounds = 64, 50
	m := &parted{answered: make(chan uint64, callers*rounds), late: make(chan struct{})}
	timer := time.AfterFunc(30*time.Second, func() { close(m.late) })
	defer timer.Stop()
	c := consensustest.Start(t, 1, func(string) consensus.Machine { return m }, nil)
	node := c.Node(c.WaitLeader())
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range rounds {
				_, index, err := node.Propose(context.Background(), []byte("x"))
				if err != nil {
					t.Error(err)
					return
				}
				m.answered <- index
			}
		})
	}
	wg.Wait()
	if m.stuck.Load() || m.parts.Load() == 0 {
		t.Errorf("%d parts of entries went on after an answer from the same entry; stuck: %v", m.parts.Load(), m.stuck.Load())
	}
}
