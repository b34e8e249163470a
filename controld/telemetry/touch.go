package telemetry

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"strings"
	"sync"

	"github.com/rota-hpc/rota/controld/model/witness"
)

// Touch records the contact of this leader with nodes. A new leader has none. Instants are
// milliseconds of this machine's CLOCK_BOOTTIME. The zero value belongs to a controller that has
// never led.
type Touch struct {
	mu      sync.Mutex
	leader  string // identifies this leadership; "": none
	trips   witness.Trips
	silence int64             // the Silence by which trips were recorded: the shortest of the sets in use
	stored  map[string]uint64 // by node: number of the set that it has stored
}

// Restart forgets everything, when this controller becomes the leader.
func (t *Touch) Restart() {
	var id [8]byte
	_, _ = rand.Read(id[:]) // it never fails
	t.mu.Lock()
	defer t.mu.Unlock()
	t.leader, t.trips, t.silence, t.stored = hex.EncodeToString(id[:]), witness.Trips{}, 0, map[string]uint64{}
}

// Sent returns a name for an answer that is sent now, so that the node can echo it.
func (t *Touch) Sent(now int64) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.leader + "-" + strconv.FormatInt(now, 10)
}

// Heard records a node's echo of its last answer, and the number of the set that it has stored.
// sets are all sets in use.
func (t *Touch) Heard(node, sent, stored string, now int64, sets *witness.Chosen) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.leader == "" {
		return
	}
	number, _, _ := strings.Cut(stored, "-")
	if n, err := strconv.ParseUint(number, 10, 64); err == nil {
		t.stored[node] = n
	}
	t.settle(sets)
	by, at, _ := strings.Cut(sent, "-")
	if ms, err := strconv.ParseInt(at, 10, 64); err == nil && by == t.leader && ms <= now && t.silence > 0 {
		t.trips.Note(node, ms, now, t.silence)
	}
}

// settle drops round trips if a set with a shorter Silence came into use. The caller holds the
// mutex.
func (t *Touch) settle(sets *witness.Chosen) {
	shortest := sets.Silence()
	if shortest > 0 && shortest < t.silence {
		t.trips = witness.Trips{}
	}
	if shortest > 0 {
		t.silence = shortest
	}
}

// MayStart reports whether nothing can still run on a node whose lease has ended.
func (t *Touch) MayStart(now int64, from uint64, sets *witness.Chosen) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.settle(sets)
	return t.leader != "" && t.trips.MayStart(now, sets.From(from))
}

// Missing returns the members of the newest set that have had no contact with this leader for this
// many milliseconds.
func (t *Touch) Missing(now, span int64, sets *witness.Chosen) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	newest := sets.Newest()
	if newest == nil {
		return nil
	}
	return t.trips.Missing(now, sets.Silence(), span, newest)
}

// Stored returns the number of the set that each node has stored, as far as it has told this
// leader.
func (t *Touch) Stored() map[string]uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	stored := make(map[string]uint64, len(t.stored))
	for node, n := range t.stored {
		stored[node] = n
	}
	return stored
}
