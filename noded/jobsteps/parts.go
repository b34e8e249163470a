package jobsteps

import (
	"context"
	"maps"
	"sync"

	"github.com/rota-hpc/rota/noded/container"
)

// partStates says what the state of a part's container means. A container only moves to a later state.
var partStates = map[container.State]struct {
	order int
	live  bool // it has not ended
	begun bool // its tasks have started
}{
	container.Silent:  {order: 1, live: true, begun: true},
	container.Created: {order: 2, live: true},
	container.Running: {order: 3, live: true, begun: true},
	container.Exited:  {order: 4, begun: true},
	container.Lost:    {order: 4, begun: true},
}

func live(s container.State) bool  { return partStates[s].live }
func begun(s container.State) bool { return partStates[s].begun }

// later returns the status of the later state.
func later(a, b container.Status) container.Status {
	if partStates[b.State].order >= partStates[a.State].order {
		return b
	}
	return a
}

// partTable has the state of each part on this node.
type partTable struct {
	mu      sync.Mutex
	status  map[container.ID]container.Status
	changes uint64                         // counts starts and removals of parts
	noted   uint64                         // mark of the newest list that note took
	started map[container.ID]uint64        // the change that started a part, until a later list has it
	removed map[container.ID]uint64        // the change that removed a part, until a later list lacks it
	busy    map[container.ID]chan struct{} // parts that are being started or removed
	changed chan struct{}                  // closed at the next change of a status
}

func newPartTable() *partTable {
	return &partTable{status: map[container.ID]container.Status{}, started: map[container.ID]uint64{},
		removed: map[container.ID]uint64{}, busy: map[container.ID]chan struct{}{}, changed: make(chan struct{})}
}

// mark returns the present change.
func (t *partTable) mark() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.changes
}

// note takes a list of the containers, see [Local.Note]. It reports whether the list is the newest.
func (t *partTable) note(mark uint64, all []container.Status) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if mark < t.noted {
		return false // a newer list was there first
	}
	t.noted = mark
	// 1. Take the list, without parts that were removed after the mark.
	now := make(map[container.ID]container.Status, len(all))
	for _, s := range all {
		if t.removed[s.ID] <= mark {
			now[s.ID] = s
		}
	}
	// 2. Keep parts that were started after the mark: the list may lack them, or have an older state.
	for id, at := range t.started {
		if old, ok := t.status[id]; ok && at > mark {
			now[id] = later(old, now[id])
		} else {
			delete(t.started, id)
		}
	}
	// 3. Forget removals before the mark: later lists do not have those parts either.
	maps.DeleteFunc(t.removed, func(_ container.ID, at uint64) bool { return at <= mark })
	t.status = now
	close(t.changed)
	t.changed = make(chan struct{})
	return true
}

// beside returns the parts beside a worker whose states match.
func (t *partTable) beside(worker container.ID, match func(container.State) bool) []container.ID {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []container.ID
	for id, s := range t.status {
		if id.OfWorker() == worker && match(s.State) {
			list = append(list, id)
		}
	}
	return list
}

// claim waits until no other call starts or removes the part, and keeps others out until the
// returned function is called.
func (t *partTable) claim(ctx context.Context, id container.ID) (func(), error) {
	for {
		t.mu.Lock()
		other := t.busy[id]
		if other == nil {
			mine := make(chan struct{})
			t.busy[id] = mine
			t.mu.Unlock()
			return func() {
				t.mu.Lock()
				delete(t.busy, id)
				t.mu.Unlock()
				close(mine)
			}, nil
		}
		t.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// get returns the status of a part, and a channel that is closed at the next change of one. An unknown
// part has no state.
func (t *partTable) get(id container.ID) (container.Status, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.status[id], t.changed
}

// awaitEnd waits until a part does not live. The result is false if it is unknown.
func (t *partTable) awaitEnd(ctx context.Context, id container.ID) (bool, error) {
	for { // every new list of the containers closes changed
		s, changed := t.get(id)
		if !live(s.State) {
			return s.State != "", nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return true, context.Cause(ctx)
		}
	}
}

// set notes that a part has come to a state.
func (t *partTable) set(id container.ID, state container.State) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changes++
	t.started[id] = t.changes
	t.status[id] = later(t.status[id], container.Status{ID: id, State: state})
}

// drop notes that a part was removed.
func (t *partTable) drop(id container.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changes++
	t.removed[id] = t.changes
	delete(t.status, id)
	delete(t.started, id)
}
