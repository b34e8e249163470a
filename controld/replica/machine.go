package replica

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
)

// machine applies the entries of the log to the state and publishes a view after each.
type machine struct {
	view     atomic.Pointer[state.View]
	applied  func(at model.Instant) // told the instant of each entry
	changed  broadcast
	prepared prepared
	users    userJobs

	mu    sync.Mutex // held while state changes or is checked
	state *fsm.Machine
}

func newMachine() *machine {
	m := &machine{applied: func(model.Instant) {}}
	m.adopt(fsm.New(cluster.InitialConfig()))
	return m
}

// applied is the result of one proposal.
type applied struct {
	value any
	err   error // a refusal
}

// Apply carries out a group of proposals. Each command gets its own index. The state counts
// commands rather than entries of the log, so that each change of a job or node has another index.
// A command that cannot be read ends the process: without it this replica would differ from the
// others.
func (m *machine) Apply(index uint64, proposals [][]byte) []any {
	m.mu.Lock()
	defer m.mu.Unlock()
	results := make([]any, len(proposals))
	for i, p := range proposals {
		entry, err := m.prepared.decode(p)
		if err != nil {
			panic(fmt.Sprintf("controld: entry %d of the log cannot be read: %v. Is this version older than the other "+
				"controllers'?", index, err))
		}
		value, err := m.state.Apply(m.state.Index()+1, entry)
		var unknown *fsm.UnknownKindError
		if errors.As(err, &unknown) {
			panic(fmt.Sprintf("controld: entry %d of the log: %v. Install the version that the other controllers run",
				index, err))
		}
		results[i] = applied{value, err}
	}
	m.publish()
	m.applied(m.view.Load().At())
	return results
}

// publish makes the state visible. The lists of each user come first: they have every job that a
// view has.
func (m *machine) publish() {
	before, after := m.view.Load(), m.state.View()
	if ids, all := m.state.ChangedJobs(); all {
		m.users.update(before, after, ids)
	} else {
		m.users.rebuild(after)
	}
	m.view.Store(after)
	m.changed.wake()
}

// adopt replaces the state as a whole.
func (m *machine) adopt(state *fsm.Machine) {
	state.TrackChanges()
	m.state = state
	v := state.View()
	m.users.rebuild(v)
	m.view.Store(v)
	m.changed.wake()
}

// Snapshot returns a function that writes the present state while later entries are applied.
func (m *machine) Snapshot() (func(io.Writer) error, error) {
	v := m.view.Load()
	return v.WriteSnapshot, nil
}

// Restore replaces the state by the one of a snapshot.
func (m *machine) Restore(r io.Reader) error {
	state, err := fsm.ReadSnapshot(r)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.adopt(state)
	return nil
}

func (m *machine) submitted(uid uint32, key, digest string) []model.JobID {
	m.mu.Lock()
	defer m.mu.Unlock()
	ids, err := m.state.SubmittedWithKey(uid, key, digest)
	if err != nil {
		return nil
	}
	return ids
}

func (m *machine) check() (*state.View, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.view.Load(), m.state.Check()
}

// broadcast wakes every goroutine that waits. The zero value is ready.
type broadcast struct {
	mu sync.Mutex
	ch chan struct{} // closed at the next wake; nil while none waits
}

// wait returns a channel that is closed at the next wake.
func (b *broadcast) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *broadcast) wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}
