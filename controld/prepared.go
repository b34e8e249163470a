package controld

import (
	"sync"

	"github.com/rota-hpc/rota/controld/cluster"
)

// prepared keeps the submissions that this controller has proposed and not yet applied, in the form they had before they were encoded,
// so that Apply need not read back what this process has just written: that is half of what a submission costs. The log hands the very bytes
// back that it was given, which nobody changes meanwhile, so their place in memory tells an entry from all others; what is kept was itself
// read from JSON, so that both forms mean the same.
type prepared struct {
	mu      sync.Mutex
	entries map[*byte]cluster.Entry // by the first byte of the data
}

// put keeps an entry until forget is called. Nobody may change it any more.
func (p *prepared) put(data []byte, e cluster.Entry) (forget func()) {
	if _, ok := e.Command.(cluster.SubmitJobs); !ok {
		return func() {}
	}
	key := &data[0]
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.entries == nil {
		p.entries = map[*byte]cluster.Entry{}
	}
	p.entries[key] = e
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.entries, key)
	}
}

// decode returns the entry that data encodes.
func (p *prepared) decode(data []byte) (cluster.Entry, error) {
	if len(data) > 0 {
		p.mu.Lock()
		kept, ok := p.entries[&data[0]]
		p.mu.Unlock()
		if ok {
			return kept, nil
		}
	}
	return cluster.Decode(data)
}
