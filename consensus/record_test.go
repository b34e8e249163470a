package consensus_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/rota-hpc/rota/consensus"
)

// record is a machine that remembers what it was given, in order. The result of a proposal is
// "<member>:<proposal>".
type record struct {
	name string

	mu       sync.Mutex
	seen     []string
	entries  int // calls of Apply since the start
	restored int
}

func newRecord(name string) consensus.Machine { return &record{name: name} }

func (r *record) Apply(_ uint64, proposals [][]byte) []any {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries++
	results := make([]any, len(proposals))
	for i, p := range proposals {
		r.seen = append(r.seen, string(p))
		results[i] = r.name + ":" + string(p)
	}
	return results
}

func (r *record) Snapshot() (func(io.Writer) error, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := slices.Clone(r.seen)
	return func(w io.Writer) error { return json.NewEncoder(w).Encode(seen) }, nil
}

func (r *record) Restore(from io.Reader) error {
	var seen []string
	if err := json.NewDecoder(from).Decode(&seen); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = seen
	r.restored++
	return nil
}

func (r *record) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.seen)
}

// counts returns how often each proposal was applied.
func (r *record) counts() map[string]int {
	counts := map[string]int{}
	for _, p := range r.all() {
		counts[p]++
	}
	return counts
}

// numbers returns Apply calls and Restore calls since the start.
func (r *record) numbers() (entries, restored int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.entries, r.restored
}

// missing returns what of want r has not exactly once.
func (r *record) missing(want map[string]bool) []string {
	counts := r.counts()
	var wrong []string
	for _, p := range slices.Sorted(maps.Keys(want)) {
		if counts[p] != 1 {
			wrong = append(wrong, fmt.Sprintf("%s applied %d times", p, counts[p]))
		}
	}
	return wrong
}
