package attempts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/controld/fsm/jobs"
	"github.com/rota-hpc/rota/controld/fsm/lifecycle"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
)

// suspends reports whether an attempt may be suspended for a cause.
func suspends(c model.Cause) bool {
	return c == model.CauseSlice || c == model.CausePack || c.Preempts()
}

// Suspend tells all workers of an attempt to pause.
func (m *Manager) Suspend(job model.JobID, n int, cause model.Cause, beneficiary model.JobID) error {
	a, err := m.Attempt(job, n)
	if err != nil {
		return err
	}
	j := m.view.Job(job)
	switch {
	case !suspends(cause):
		return fmt.Errorf("%q: %w", cause, model.ErrBadCause)
	case !m.view.CanSuspend(j):
		return model.ErrCannotSuspend
	case a.Stop != nil:
		return model.ErrStopping
	case a.Switch != nil && (a.Switch.Number%2 == 1 || !a.Switched()):
		return model.ErrSwitching
	case j.State != model.Running || a.AnyFinal():
		return model.ErrWrongState
	case beneficiary != 0 && !m.WantsRoom(beneficiary) && !m.wantsTurn(beneficiary):
		return fmt.Errorf("for job %d: %w", beneficiary, model.ErrNotWanted)
	}
	next, a := jobs.CopyToChange(j)
	turn := a.Turn(m.view.At())
	if least, any := m.leastTurn(next, a); any && cause == model.CauseSlice {
		turn = min(turn, least+a.ShareOf(model.TurnMS)) // what it had before the others came does not count
	}
	m.command(a, model.Switching{Cause: cause, For: beneficiary})
	a.Switch.Turn = turn
	m.state.TouchNodesOf(a)
	m.jobs.Put(next)
	m.emitSwitch(model.EventSuspending, next, a)
	return nil
}

// wantsTurn reports whether a job is suspended and waits for its turn.
func (m *Manager) wantsTurn(id model.JobID) bool {
	j := m.view.Job(id)
	return j != nil && j.State == model.Suspended
}

// command begins a switch of an attempt.
func (m *Manager) command(a *model.Attempt, next model.Switching) {
	next.Number, next.At = 1, m.view.At()
	if old := a.Switch; old != nil {
		next.Number, next.Charged, next.Total, next.Turn = old.Number+1, old.Charged, old.Total, old.Turn
		next.Weight = old.Weight
	}
	a.Switch = &next
}

// Resume takes the room of a suspended attempt and tells its workers to go on.
func (m *Manager) Resume(job model.JobID, n int, gpus [][]int, weight int) error {
	a, err := m.Attempt(job, n)
	if err != nil {
		return err
	}
	j := m.view.Job(job)
	switch {
	case a.Stop != nil:
		return model.ErrStopping
	case a.Suspending() && m.view.At()-a.Switch.At >= model.PauseLimit:
		m.withdraw(j, "")
		return nil
	case !a.Suspended():
		return model.ErrNotSuspended
	case len(gpus) != len(a.Workers):
		return fmt.Errorf("GPUs of %d workers for %d: %w", len(gpus), len(a.Workers), model.ErrWrongPlaces)
	}
	for i := range a.Workers {
		w := &a.Workers[i]
		if !w.State.Final() && (len(gpus[i]) != model.Devices(j, i) || !m.mayUse(w, gpus[i])) {
			return fmt.Errorf("worker %d: %w", i, model.ErrWrongPlaces)
		}
	}
	if err := m.state.Resume(j, a, gpus); err != nil {
		return err
	}
	next, a := jobs.CopyToChange(j)
	m.wake(next, a, gpus)
	a.Switch.Weight = weight
	m.state.TouchNodesOf(a)
	m.jobs.Put(next)
	m.emitSwitch(model.EventResuming, next, a)
	return nil
}

// mayUse reports whether a suspended worker can go on with some GPUs of its node.
func (m *Manager) mayUse(w *model.Worker, gpus []int) bool {
	n, _ := m.view.Node(w.Node)
	return n == nil || !n.PinsGPUs || slices.Equal(w.Had, gpus)
}

// withdraw tells the workers of an attempt that cannot pause, or did not in time, to go on. The
// attempt keeps its room and is not told to pause again.
func (m *Manager) withdraw(j *model.Job, why string) {
	next, a := jobs.CopyToChange(j)
	m.command(a, model.Switching{Cause: a.Switch.Cause, For: a.Switch.For, Late: true})
	m.state.TouchNodesOf(a)
	m.jobs.Put(next)
	e := state.JobEvent(model.EventResuming, next, a.Switch.Cause)
	e.For, e.Text = a.Switch.For, why
	m.state.Emit(e)
}

// wake moves the clock of an attempt whose room has been taken by as long as it was suspended.
func (m *Manager) wake(j *model.Job, a *model.Attempt, gpus [][]int) {
	was := a.Switch
	for i := range a.Workers {
		if w := &a.Workers[i]; !w.State.Final() {
			m.countSuspended(j, a, w)
			m.chargeUsage(j, a, i)
			w.GPUs, w.Had = gpus[i], nil
		}
	}
	gone := m.view.At() - was.Since
	m.command(a, model.Switching{Cause: was.Cause, For: was.For})
	a.Switch.Charged, a.Switch.Total = m.view.At(), was.Total+int64(gone)
	a.ShiftClock(gone)
	j.State = model.Running
}

// countSuspended adds to the ledger for how long a worker has been suspended this time.
func (m *Manager) countSuspended(j *model.Job, a *model.Attempt, w *model.Worker) {
	of := j.RequestOf(w.Index)
	before := model.GPUTime(w.SuspendedMS, of.Active.GPUs)
	w.SuspendedMS += int64(m.view.At() - a.Switch.Since)
	j.Ledger.SuspendedMS += model.GPUTime(w.SuspendedMS, of.Active.GPUs) - before
}

// chargeUsage charges what a worker has held since that was done last.
func (m *Manager) chargeUsage(j *model.Job, a *model.Attempt, worker int) {
	held := j.Charged(a, worker)
	if a.Suspended() {
		held = model.Vector{Memory: held.Memory}
	}
	m.state.Charge(j.Association(), held, a.HeldSince())
}

// settleSwitch frees the room of an attempt all of whose workers have paused.
func (m *Manager) settleSwitch(j *model.Job, a *model.Attempt) {
	s := a.Switch
	if !a.Suspending() || !a.Switched() {
		return
	}
	for i := range a.Workers {
		if !a.Workers[i].State.Final() {
			m.chargeUsage(j, a, i)
		}
	}
	next := *s
	next.Since, next.Charged = m.view.At(), m.view.At()
	a.Switch = &next
	gpus := a.Workers[0].GPUs
	m.state.Suspend(j, a)
	m.leaveGPU(j, a, &a.Workers[0], gpus)
	if s.Cause == model.CausePack {
		a.LeaveSet()
	}
	j.State = model.Suspended
	j.Counters.Suspensions++
	m.state.Learn().Release()
	if s.Cause.Preempts() {
		lifecycle.CountDisplacement(&j.Counters, s.Cause)
		m.recordDisplacement(j)
	}
	m.emitSwitch(model.EventSuspended, j, a)
}

// emitSwitch says what became of a switch, and for which job it was made.
func (m *Manager) emitSwitch(t model.EventType, j *model.Job, a *model.Attempt) {
	e := state.JobEvent(t, j, a.Switch.Cause)
	e.For = a.Switch.For
	if s := a.Switch; s.TookMS > 0 {
		e.Text = strings.TrimPrefix(fmt.Sprintf("%s, %d ms", s.Means, s.TookMS), ", ")
	}
	m.state.Emit(e)
}

// enterTurns has an attempt that begins on a node come in where the one stands there that has had
// the least service in turns.
func (m *Manager) enterTurns(j *model.Job, a *model.Attempt) {
	if !j.CanSuspend() {
		return
	}
	if least, any := m.leastTurn(j, a); any && least > 0 {
		a.Switch = &model.Switching{Turn: least}
	}
}

// leastTurn returns the least service that another attempt has had in turns on the first node of an
// attempt, false if there is no other.
func (m *Manager) leastTurn(j *model.Job, a *model.Attempt) (least int64, any bool) {
	_, node := m.view.Node(a.Workers[0].Node)
	for _, id := range m.view.JobsOnNode(nil, node) {
		o := m.view.Job(id)
		if id == j.ID || !o.CanSuspend() || o.Live() == nil {
			continue
		}
		if turn := o.Live().Turn(m.view.At()); !any || turn < least {
			least, any = turn, true
		}
	}
	return least, any
}

// switchNews says that a worker has carried out the last switch, or why it has not.
type switchNews struct {
	Number   int    // of the switch, see [model.Switching]
	Means    string // that paused the worker
	TookMS   int64  // how long that took
	Unpaused string // why it goes on although it was to pause; "": it has done as ordered
}

func (n *switchNews) note(m *Manager, from sender) {
	a, w := m.reported(from)
	if a == nil || a.Switch == nil || n.Number != a.Switch.Number || w.Switch == n.Number || w.State.Final() {
		return
	}
	if n.Unpaused != "" {
		if a.Suspending() && a.Stop == nil {
			m.withdraw(m.view.Job(from.job), bounded(n.Unpaused))
		}
		return
	}
	next, a := jobs.CopyToChange(m.view.Job(from.job))
	a.Workers[from.worker].Switch = n.Number
	cost := *a.Switch
	cost.Means, cost.TookMS = cmp.Or(bounded(n.Means), cost.Means), max(cost.TookMS, n.TookMS)
	a.Switch = &cost
	m.advance(next, a)
	if n.Number%2 == 0 && a.Switched() && a.Stop == nil {
		m.emitSwitch(model.EventContinued, next, a)
	}
}
