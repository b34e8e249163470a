package replica

import (
	"sync"

	"github.com/rota-hpc/rota/controld/fsm"
)

// prepared keeps the submissions that this controller has proposed and not yet applied, as they
// were before they were encoded. So Apply need not decode an entry that this process has just
// encoded, which is half the cost of a submission. The log hands back the very bytes that it was
// given, and they do not change meanwhile: their place in memory identifies an entry. The kept
// command was itself decoded from JSON, so both forms mean the same.
type prepared struct {
	mu      sync.Mutex
	entries map[*byte]fsm.Entry // by the first byte of the data
}

// put keeps an entry until forget is called. The entry must not change any more.
func (p *prepared) put(data []byte, e fsm.Entry) (forget func()) {
	if _, ok := e.Command.(fsm.SubmitJobs); !ok {
		return func() {}
	}
	key := &data[0]
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.entries == nil {
		p.entries = map[*byte]fsm.Entry{}
	}
	p.entries[key] = e
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.entries, key)
	}
}

// decode returns the entry that data encodes.
func (p *prepared) decode(data []byte) (fsm.Entry, error) {
	if len(data) > 0 {
		p.mu.Lock()
		kept, ok := p.entries[&data[0]]
		p.mu.Unlock()
		if ok {
			return kept, nil
		}
	}
	return fsm.Decode(data)
}
