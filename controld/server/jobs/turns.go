package jobs

import (
	"context"
	"sync"
)

// turns lets each user do one thing at a time.
type turns struct {
	mu    sync.Mutex
	taken map[uint32]chan struct{} // closed when the turn ends
}

// take waits for the turn of a user. end ends it.
func (t *turns) take(ctx context.Context, uid uint32) (end func(), err error) {
	for {
		t.mu.Lock()
		before, busy := t.taken[uid]
		if !busy {
			if t.taken == nil {
				t.taken = map[uint32]chan struct{}{}
			}
			mine := make(chan struct{})
			t.taken[uid] = mine
			t.mu.Unlock()
			return func() {
				t.mu.Lock()
				delete(t.taken, uid)
				t.mu.Unlock()
				close(mine)
			}, nil
		}
		t.mu.Unlock()
		select {
		case <-before:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
