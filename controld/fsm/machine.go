package fsm

import (
	"io"

	"github.com/rota-hpc/rota/controld/fsm/attempts"
	"github.com/rota-hpc/rota/controld/fsm/jobs"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/model/generation"
)

// Machine carries out the commands of the log on a state. It belongs to one goroutine; others read
// the views of its state.
type Machine struct {
	s *state.State
	v *state.View // the present, as the entry in progress has left it

	jobs     *jobs.Store       // stores jobs, with what follows for parents and dependants
	attempts *attempts.Manager // begins, changes and ends attempts
}

// New returns a machine with an empty state and a configuration, which must be the same on every
// replica.
func New(cfg cluster.Config) *Machine { return on(state.New(cfg)) }

// ReadSnapshot returns a machine that goes on from a snapshot.
func ReadSnapshot(r io.Reader) (*Machine, error) {
	s, err := state.ReadSnapshot(r)
	if err != nil {
		return nil, err
	}
	return on(s), nil
}

// Fork returns a machine that goes on from a view, for trying out what would happen, see
// [state.Fork].
func Fork(v *state.View) *Machine { return on(state.Fork(v)) }

func on(s *state.State) *Machine {
	store := jobs.New(s)
	return &Machine{s: s, v: s.Present(), jobs: store, attempts: attempts.New(s, store)}
}

// Index returns that of the last entry applied.
func (m *Machine) Index() uint64 { return m.v.Index() }

// View returns the state as it is now. Only the goroutine of Apply may call it; all may read the
// result.
func (m *Machine) View() *state.View { return m.s.View() }

// Present returns the state as it is now, to be read before the next entry is applied and not
// later. It spares a caller that decides and applies by turns the cost of a view.
func (m *Machine) Present() *state.View { return m.v }

// Check returns every invariant of the state that does not hold, joined, or nil. It reads the whole
// state, so it takes time in proportion.
func (m *Machine) Check() error { return m.s.Check() }

// Audit checks the whole state and returns what checks each further command.
func (m *Machine) Audit() (*state.Auditor, error) { return m.s.Audit() }

// TrackChanges makes the state remember which jobs change, until ChangedJobs asks.
func (m *Machine) TrackChanges() { m.s.TrackChanges() }

// ChangedJobs returns the jobs that were stored or dropped since it was last called, see
// [state.State.ChangedJobs].
func (m *Machine) ChangedJobs() ([]model.JobID, bool) { return m.s.ChangedJobs() }

// SubmittedWithKey returns the ids of the jobs that an idempotency key stands for, see
// [state.State.SubmittedWithKey].
func (m *Machine) SubmittedWithKey(uid uint32, key, digest string) ([]model.JobID, error) {
	return m.s.SubmittedWithKey(uid, key, digest)
}

// Apply carries out one entry of the log. Its result is that of the command; its error is a
// refusal, which is as much a part of the replicated history as a success. Only an
// *UnknownKindError means that this replica must stop.
func (m *Machine) Apply(index uint64, e Entry) (any, error) {
	if err := checkKind(e.Command); err != nil {
		return nil, err
	}
	if err := m.s.Begin(index, e.Stamp); err != nil {
		return nil, err
	}
	result, err := m.carryOut(e.Command)
	m.jobs.Settle()
	m.s.End()
	return result, err
}

// carryOut applies a command. Commands that change jobs are refused until the cluster's generation
// holds. Another controller may have begun one too, and changes acknowledged here would be lost.
func (m *Machine) carryOut(c Command) (any, error) {
	if m.v.Recovery().Holds() {
		switch c.(type) {
		case SubmitJobs, ControlJobs, UpdateJobs, CommitPlan, ConfirmDead:
			return nil, generation.ErrUnsettled
		}
	}
	return c.apply(m)
}
