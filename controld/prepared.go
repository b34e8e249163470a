package controld

import (
	"bytes"
	"hash/maphash"
	"sync"

	"github.com/rota-hpc/rota/controld/cluster"
)

// prepared keeps the submissions that this controller has proposed and not yet applied, in the form they had before they were encoded,
// so that Apply need not read back what this process has just written: that is half of what a submission costs. An entry is only found
// by exactly the bytes that it was encoded to, and what is kept was itself read from JSON, so that both forms mean the same.
type prepared struct {
	mu      sync.Mutex
	entries map[uint64]preparedEntry // by hash of the data
}

type preparedEntry struct {
	data  []byte
	entry cluster.Entry
}

var preparedSeed = maphash.MakeSeed()

// put keeps an entry until forget is called. Nobody may change it any more.
func (p *prepared) put(data []byte, e cluster.Entry) (forget func()) {
	switch e.Command.(type) {
	case cluster.SubmitJobs, cluster.SubmitJobs2, cluster.SubmitJobs3:
	default:
		return func() {}
	}
	key := maphash.Bytes(preparedSeed, data)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.entries == nil {
		p.entries = map[uint64]preparedEntry{}
	}
	p.entries[key] = preparedEntry{data, e}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.entries, key)
	}
}

// decode returns the entry that data encodes.
func (p *prepared) decode(data []byte) (cluster.Entry, error) {
	p.mu.Lock()
	kept, ok := p.entries[maphash.Bytes(preparedSeed, data)]
	p.mu.Unlock()
	if ok && bytes.Equal(kept.data, data) {
		return kept.entry, nil
	}
	return cluster.Decode(data)
}
