package consensus_test

import (
	"io"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rota-hpc/rota/consensus"
	"github.com/rota-hpc/rota/consensus/consensustest"
)

// bulky is a machine with a large state. It remembers how many bytes of proposals there were at
// each snapshot.
type bulky struct {
	mu   sync.Mutex
	seen int
	at   []int
}

const bulk = 2 << 20

func (m *bulky) Apply(_ uint64, proposals [][]byte) []any {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range proposals {
		m.seen += len(p)
	}
	return make([]any, len(proposals))
}

func (m *bulky) Snapshot() (func(io.Writer) error, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at = append(m.at, m.seen)
	return func(w io.Writer) error {
		_, err := w.Write(make([]byte, bulk))
		return err
	}, nil
}

func (m *bulky) Restore(r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	return err
}

func (m *bulky) snapshots() []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]int(nil), m.at...)
}

func TestALargeStateIsWrittenLessOften(t *testing.T) {
	const every = 10
	machines := []*bulky{}
	c := consensustest.Start(t, 1, func(string) consensus.Machine {
		machines = append(machines, &bulky{})
		return machines[len(machines)-1]
	}, func(cfg *consensus.Config) {
		cfg.SnapshotEvery = every
	})
	c.WaitLeader()
	// Random bytes cannot be compressed, so that entries have the size of their proposals.
	random := rand.NewChaCha8([32]byte{})
	add := func(size int) {
		proposal := make([]byte, size)
		random.Read(proposal)
		if _, _, err := c.Node("n1").Propose(t.Context(), proposal); err != nil {
			t.Fatal(err)
		}
	}
	for range every {
		add(1)
	}
	c.Eventually("first snapshot", func() bool {
		found, _ := filepath.Glob(filepath.Join(c.Dir("n1"), "snapshots", "*", "state.bin"))
		return len(found) > 0 && !strings.HasSuffix(filepath.Dir(found[0]), ".tmp")
	})
	grow := func(m *bulky, snapshots int) []int {
		for range 3 * every { // far more entries than would do for a small state
			add(1)
		}
		for len(m.snapshots()) < snapshots {
			add(bulk / 4)
		}
		return m.snapshots()
	}
	if at := grow(machines[0], 2); at[1]-at[0] < bulk {
		t.Errorf("a state of %d bytes was written again after %d bytes of log", bulk, at[1]-at[0])
	}
	c.Stop("n1")
	c.Restart("n1")
	c.WaitLeader()
	if at := grow(machines[1], 1); at[0] < bulk {
		t.Errorf("after a restart it was written after %d bytes of log", at[0])
	}
}
