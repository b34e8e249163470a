package fsm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/controld/fsm/lifecycle"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
)

// SuspendJob has all workers of an attempt pause where they are. When the last of them has
// acknowledged it, their cores and GPUs come free and their memory stays: see [model.Switching].
type SuspendJob struct {
	Job     model.JobID `json:"job"`
	Attempt int         `json:"attempt"`
	Cause   model.Cause `json:"cause"`
	// the waiting job, or the suspended one, that gets the room; 0: none. When it does not want it any
	// more the suspension is refused
	For model.JobID `json:"for,omitempty"`
}

// suspends reports whether an attempt may be suspended for a cause.
func suspends(c model.Cause) bool {
	return c == model.CauseSlice || c == model.CausePack || c.Preempts()
}

// String implements Action.
func (c *SuspendJob) String() string {
	s := fmt.Sprintf("suspend attempt %d of job %d because of %s", c.Attempt, c.Job, c.Cause)
	if c.For != 0 {
		s += fmt.Sprintf(", for job %d", c.For)
	}
	return s
}

// PartOf implements Action.
func (c *SuspendJob) PartOf() steering.Switch { return partOfCause[c.Cause] }

func (c *SuspendJob) ends() bool                   { return c.Cause == model.CausePack }
func (c *SuspendJob) names() (string, model.JobID) { return "suspend", c.Job }
func (c *SuspendJob) store(to *storedAction)       { to.Suspend = c }

// act tells all workers of an attempt to pause.
func (c *SuspendJob) act(m *Machine) error {
	a, err := m.attempt(c.Job, c.Attempt)
	if err != nil {
		return err
	}
	j := m.v.Job(c.Job)
	switch {
	case !suspends(c.Cause):
		return fmt.Errorf("%q: %w", c.Cause, model.ErrBadCause)
	case !m.v.CanSuspend(j):
		return model.ErrCannotSuspend
	case a.Stop != nil:
		return model.ErrStopping
	case a.Switch != nil && (a.Switch.Number%2 == 1 || !a.Switched()):
		return model.ErrSwitching
	case j.State != model.Running || a.AnyFinal():
		return model.ErrWrongState
	case c.For != 0 && !m.wantsRoom(c.For) && !m.wantsTurn(c.For):
		return fmt.Errorf("for job %d: %w", c.For, model.ErrNotWanted)
	}
	next, a := copyToChange(j)
	turn := a.Turn(m.v.At())
	if least, any := m.leastTurn(next, a); any && c.Cause == model.CauseSlice {
		turn = min(turn, least+a.ShareOf(model.TurnMS)) // what it had before the others came does not count
	}
	m.command(a, model.Switching{Cause: c.Cause, For: c.For})
	a.Switch.Turn = turn
	m.s.TouchNodesOf(a)
	m.put(next)
	m.emitSwitch(model.EventSuspending, next, a)
	return nil
}

// wantsTurn reports whether a job is suspended and waits for its turn.
func (m *Machine) wantsTurn(id model.JobID) bool {
	j := m.v.Job(id)
	return j != nil && j.State == model.Suspended
}

// command begins a switch of an attempt.
func (m *Machine) command(a *model.Attempt, next model.Switching) {
	next.Number, next.At = 1, m.v.At()
	if old := a.Switch; old != nil {
		next.Number, next.Charged, next.Total, next.Turn = old.Number+1, old.Charged, old.Total, old.Turn
		next.Weight = old.Weight
	}
	a.Switch = &next
}

// mayUse reports whether a suspended worker can go on with some GPUs of its node.
func (m *Machine) mayUse(w *model.Worker, gpus []int) bool {
	n, _ := m.v.Node(w.Node)
	return n == nil || !n.PinsGPUs || slices.Equal(w.Had, gpus)
}

// withdraw tells the workers of an attempt that cannot pause, or did not in time, to go on. The
// attempt keeps its room and is not told to pause again.
func (m *Machine) withdraw(j *model.Job, why string) {
	next, a := copyToChange(j)
	m.command(a, model.Switching{Cause: a.Switch.Cause, For: a.Switch.For, Late: true})
	m.s.TouchNodesOf(a)
	m.put(next)
	e := state.JobEvent(model.EventResuming, next, a.Switch.Cause)
	e.For, e.Text = a.Switch.For, why
	m.s.Emit(e)
}

// wake moves the clock of an attempt whose room has been taken by as long as it was suspended.
func (m *Machine) wake(j *model.Job, a *model.Attempt, gpus [][]int) {
	was := a.Switch
	for i := range a.Workers {
		if w := &a.Workers[i]; !w.State.Final() {
			m.countSuspended(j, a, w)
			m.chargeUsage(j, a, i)
			w.GPUs, w.Had = gpus[i], nil
		}
	}
	gone := m.v.At() - was.Since
	m.command(a, model.Switching{Cause: was.Cause, For: was.For})
	a.Switch.Charged, a.Switch.Total = m.v.At(), was.Total+int64(gone)
	a.ShiftClock(gone)
	j.State = model.Running
}

// countSuspended adds to the ledger for how long a worker has been suspended this time.
func (m *Machine) countSuspended(j *model.Job, a *model.Attempt, w *model.Worker) {
	of := j.RequestOf(w.Index)
	before := model.GPUTime(w.SuspendedMS, of.Active.GPUs)
	w.SuspendedMS += int64(m.v.At() - a.Switch.Since)
	j.Ledger.SuspendedMS += model.GPUTime(w.SuspendedMS, of.Active.GPUs) - before
}

// chargeUsage charges what a worker has held since that was done last.
func (m *Machine) chargeUsage(j *model.Job, a *model.Attempt, worker int) {
	held := j.Charged(a, worker)
	if a.Suspended() {
		held = model.Vector{Memory: held.Memory}
	}
	m.s.Charge(j.Association(), held, a.HeldSince())
}

// switched notes that a worker has carried out the last switch.
func (m *Machine) switched(node string, r *model.WorkerReport) {
	a, w := m.reported(node, r)
	if a == nil || a.Switch == nil || r.Switch != a.Switch.Number || w.Switch == r.Switch || w.State.Final() {
		return
	}
	if r.Unpaused != "" {
		if a.Suspending() && a.Stop == nil {
			m.withdraw(m.v.Job(r.Job), bounded(r.Unpaused))
		}
		return
	}
	next, a := copyToChange(m.v.Job(r.Job))
	a.Workers[r.Worker].Switch = r.Switch
	cost := *a.Switch
	cost.Means, cost.TookMS = cmp.Or(bounded(r.Means), cost.Means), max(cost.TookMS, r.TookMS)
	a.Switch = &cost
	m.advance(next, a)
	if r.Switch%2 == 0 && a.Switched() && a.Stop == nil {
		m.emitSwitch(model.EventContinued, next, a)
	}
}

// settleSwitch frees the room of an attempt all of whose workers have paused.
func (m *Machine) settleSwitch(j *model.Job, a *model.Attempt) {
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
	next.Since, next.Charged = m.v.At(), m.v.At()
	a.Switch = &next
	gpus := a.Workers[0].GPUs
	m.s.Suspend(j, a)
	m.leaveGPU(j, a, &a.Workers[0], gpus)
	if s.Cause == model.CausePack {
		a.LeaveSet()
	}
	j.State = model.Suspended
	j.Counters.Suspensions++
	m.s.Learn().Release()
	if s.Cause.Preempts() {
		lifecycle.CountDisplacement(&j.Counters, s.Cause)
		m.recordDisplacement(j)
	}
	m.emitSwitch(model.EventSuspended, j, a)
}

// emitSwitch says what became of a switch, and for which job it was made.
func (m *Machine) emitSwitch(t model.EventType, j *model.Job, a *model.Attempt) {
	e := state.JobEvent(t, j, a.Switch.Cause)
	e.For = a.Switch.For
	if s := a.Switch; s.TookMS > 0 {
		e.Text = strings.TrimPrefix(fmt.Sprintf("%s, %d ms", s.Means, s.TookMS), ", ")
	}
	m.s.Emit(e)
}

// enterTurns has an attempt that begins on a node come in where the one stands there that has had
// the least service in turns.
func (m *Machine) enterTurns(j *model.Job, a *model.Attempt) {
	if !j.CanSuspend() {
		return
	}
	if least, any := m.leastTurn(j, a); any && least > 0 {
		a.Switch = &model.Switching{Turn: least}
	}
}

// leastTurn returns the least service that another attempt has had in turns on the first node of an
// attempt, false if there is no other.
func (m *Machine) leastTurn(j *model.Job, a *model.Attempt) (least int64, any bool) {
	_, node := m.v.Node(a.Workers[0].Node)
	for _, id := range m.v.JobsOnNode(nil, node) {
		o := m.v.Job(id)
		if id == j.ID || !o.CanSuspend() || o.Live() == nil {
			continue
		}
		if turn := o.Live().Turn(m.v.At()); !any || turn < least {
			least, any = turn, true
		}
	}
	return least, any
}
