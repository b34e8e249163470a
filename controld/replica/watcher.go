package replica

import (
	"context"
	"sync"
	"time"

	"github.com/rota-hpc/rota/controld/fsm/state"
)

// watchers are the callers that wait for a condition on the state. One goroutine evaluates each
// condition once for all entries that were applied meanwhile. So a thousand long polls do not all
// wake at each entry of the log. The zero value is ready.
type watchers struct {
	mu  sync.Mutex
	all map[*watcher]struct{}
}

// watcher waits for one condition.
type watcher struct {
	ready func(*state.View) bool // quick, and without effect
	come  chan struct{}          // closed once ready has returned true
}

// add adds a condition. Its caller evaluates it once more afterwards, so that no change is missed,
// and removes it.
func (w *watchers) add(ready func(*state.View) bool) *watcher {
	one := &watcher{ready: ready, come: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = map[*watcher]struct{}{}
	}
	w.all[one] = struct{}{}
	return one
}

func (w *watchers) remove(one *watcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.all, one)
}

// wake wakes the watchers whose condition holds of v.
func (w *watchers) wake(v *state.View) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for one := range w.all {
		if one.ready(v) {
			delete(w.all, one)
			close(one.come)
		}
	}
}

// Watch wakes the callers of Until when their condition holds, until ctx ends.
func (r *Replica) Watch(ctx context.Context) error {
	for {
		changed := r.Changed()
		r.watchers.wake(r.View())
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

// Until waits until ready holds for the state, and returns that view. It returns the newest view
// and false if end was closed first. It is an error if ctx ended first.
func (r *Replica) Until(ctx context.Context, ready func(*state.View) bool, end <-chan struct{}) (*state.View,
	bool, error) {
	v := r.View()
	if ready(v) {
		return v, true, nil
	}
	one := r.watchers.add(ready)
	defer r.watchers.remove(one)
	if v = r.View(); ready(v) {
		return v, true, nil
	}
	select {
	case <-one.come:
		return r.View(), true, nil
	case <-end:
	case <-ctx.Done():
		return r.View(), false, context.Cause(ctx)
	}
	return r.View(), false, nil
}

// UntilApplied waits until this replica has applied index, for at most the time given.
func (r *Replica) UntilApplied(ctx context.Context, index uint64, most time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for {
		changed := r.Changed()
		if r.View().Index() >= index {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
