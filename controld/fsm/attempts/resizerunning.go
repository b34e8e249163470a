package attempts

import (
	"github.com/rota-hpc/rota/controld/fsm/jobs"
	"github.com/rota-hpc/rota/controld/fsm/lifecycle"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
)

// resizeRunning resizes an attempt while it runs: see [model.Resizing].
func (m *Manager) resizeRunning(j *model.Job, r *model.Resize, cause model.Cause, beneficiary model.JobID) error {
	if err := r.CheckSignal(j, j.Live()); err != nil {
		return err
	}
	if len(r.Join) > 0 {
		return m.addWorkers(j, r)
	}
	next, a := jobs.CopyToChange(j)
	signal, grace := lifecycle.StopSignalAndGrace(j.Spec, j.GroupSpec(), cause)
	a.Shrink = &model.Stop{Cause: cause, At: m.view.At(), KillAt: m.view.At().After(grace), Signal: signal,
		For: beneficiary}
	m.nameFor(a.Shrink)
	for _, i := range r.Leave {
		a.Workers[i].Leaving = true
	}
	m.state.TouchNodesOf(a)
	m.jobs.Put(next)
	m.emitResize(model.EventResizing, next, a.Shrink)
	return nil
}

// addWorkers has workers join an attempt that runs.
func (m *Manager) addWorkers(j *model.Job, r *model.Resize) error {
	a := j.Live()
	places := r.Places(j, a)
	resized := j.Resized(len(places))
	at, err := m.locate(resized, places)
	if err != nil {
		return err
	}
	if err := m.state.Join(j, a, r, at); err != nil {
		return err
	}
	next, a := jobs.CopyToChange(j)
	m.settle(next, a)
	first := len(a.Workers)
	for k, p := range r.Join {
		a.Workers = append(a.Workers, model.Worker{Index: first + k, Place: p, State: model.WorkerAssigned,
			Joined: a.Resizing.N})
	}
	*next = *next.Resized(len(a.Workers))
	m.state.TouchNodesOf(a)
	m.jobs.Put(next)
	m.emitResize(model.EventResizing, next, &model.Stop{Cause: model.CauseGrow})
	return nil
}

// settle charges what the workers of an attempt have held until now, as another number of them goes
// on. How fast the attempt was with the old number says nothing more.
func (m *Manager) settle(j *model.Job, a *model.Attempt) {
	next := model.Resizing{N: 1, At: m.view.At()}
	if was := a.Resizing; was != nil {
		next.N, next.Before = was.N+1, was.Before
	}
	for i := range a.Workers {
		w := &a.Workers[i]
		until := w.Ended
		if !w.State.Final() {
			m.chargeUsage(j, a, i)
			until = next.At
		}
		held, charged := int64(until-a.ChargedFrom()), j.RequestOf(i).Active
		part := model.Ledger{GPUMS: model.GPUTime(held, charged.GPUs), CoreMS: held * charged.Cores}
		next.Before.GPUMS += part.GPUMS
		next.Before.CoreMS += part.CoreMS
		if !w.State.Final() { // else it was charged when it ended
			j.Ledger.GPUMS += part.GPUMS
			j.Ledger.CoreMS += part.CoreMS
		}
	}
	a.Resizing, a.Rate, a.Rated = &next, 0, 0
}

// settleShrink goes on with the workers that stay once the others have left.
func (m *Manager) settleShrink(j *model.Job, a *model.Attempt) {
	if a.Shrink == nil {
		return
	}
	stay := a.Staying()
	for i := range a.Workers[stay:] {
		if !a.Workers[stay+i].State.Final() {
			return
		}
	}
	why := a.Shrink
	m.settle(j, a)
	a.Workers, a.Shrink = a.Workers[:stay:stay], nil
	*j = *j.Resized(stay)
	j.Counters.Resizes++
	m.state.Learn().Release()
	m.state.TouchNodesOf(a)
	m.emitResize(model.EventResized, j, why)
}

// settleGrowth says that all workers run that have joined.
func (m *Manager) settleGrowth(j *model.Job, a *model.Attempt, was *model.Worker) {
	if was.IsJoining() && !a.Joining() && a.Stop == nil && !a.AnyFinal() {
		j.Counters.Resizes++
		m.emitResize(model.EventResized, j, &model.Stop{Cause: model.CauseGrow})
	}
}

// emitResize says what became of a resize of an attempt that runs, and for whose job it was made.
func (m *Manager) emitResize(t model.EventType, j *model.Job, why *model.Stop) {
	e := state.JobEvent(t, j, why.Cause)
	if e.For = why.For; why.ForUser != "" {
		e.Leave = &model.Leave{User: why.ForUser, Account: why.ForAccount}
	}
	m.state.Emit(e)
}
