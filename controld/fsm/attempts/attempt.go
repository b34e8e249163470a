package attempts

import (
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/jobs"
	"github.com/rota-hpc/rota/controld/fsm/lifecycle"
	"github.com/rota-hpc/rota/controld/model"
)

// Attempt returns a job's live attempt if it has that number.
func (m *Manager) Attempt(id model.JobID, n int) (*model.Attempt, error) {
	j := m.view.Job(id)
	if j == nil {
		return nil, model.ErrNoJob
	}
	a := j.Live()
	if a == nil || a.N != n {
		return nil, fmt.Errorf("attempt %d: %w", n, model.ErrOldAttempt)
	}
	return a, nil
}

// Lose ends, without word from them, the workers for which gone says so.
func (m *Manager) Lose(j *model.Job, gone func(*model.Worker) bool, why string) {
	next, a := jobs.CopyToChange(j)
	stops := a.Stop != nil
	for i := range a.Workers {
		w := &a.Workers[i]
		if !w.State.Final() && gone(w) {
			w.State, w.Message = model.WorkerFailed, why
			m.vacate(next, a, w)
			stops = stops || !w.Leaving // else it is done without: the others go on
		}
	}
	// The stop is noted also when no worker is left to be stopped: it says how the attempt ended.
	if stops && lifecycle.Outranks(model.CauseNodeLost, a.Stop) {
		m.Stop(next, a, model.Stop{Cause: model.CauseNodeLost})
	}
	m.advance(next, a)
}

// vacate charges for a worker that has just become final, and gives back its room unless that is
// kept for the next attempt.
func (m *Manager) vacate(j *model.Job, a *model.Attempt, w *model.Worker) {
	if w.Ended = m.view.At(); a.Stop == nil { // else it does not go on, and its clock with it
		w.Ended = a.Clock(w.Ended)
	}
	held, charged := int64(a.HeldUntil(w.Ended)-a.ChargedFrom()), j.Charged(a, w.Index)
	if a.Packing != nil {
		charged.GPUs = j.RequestOf(w.Index).Active.GPUs // its GPU, but for what others had of it
	}
	j.Ledger.GPUMS += model.GPUTime(held, charged.GPUs) - a.Spared(a.HeldUntil(w.Ended))/1000
	j.Ledger.CoreMS += held * charged.Cores
	if a.Suspended() {
		m.countSuspended(j, a, w)
	}
	m.chargeUsage(j, a, w.Index)
	if a.Keeps(w.Index) {
		_, i := m.view.Node(w.Node)
		m.state.TouchNode(i)
		return
	}
	gpus := w.GPUs
	m.state.Vacate(j, w.Index, j.Holds(a, w.Index), &w.Place, false)
	m.leaveGPU(j, a, w, gpus)
}

// advance draws the conclusions from what the workers of an attempt have come to, and stores the
// job.
func (m *Manager) advance(j *model.Job, a *model.Attempt) {
	least, trouble := 3, model.Cause("")
	for i := range a.Workers {
		w := &a.Workers[i]
		least = min(least, model.Rank(w.State))
		if w.State.Final() && !w.Succeeded() && !w.Leaving && !lifecycle.IgnoresFailure(j, a, i) {
			trouble = lifecycle.StrongerCause(trouble, w.Trouble())
		}
	}
	if least == 3 {
		m.endAttempt(j, a)
		return
	}
	switch {
	case a.Stop == nil && lifecycle.Succeeded(j, a):
		m.Stop(j, a, model.Stop{Cause: model.CauseCompleted})
	case lifecycle.StopsRest(a, trouble):
		m.Stop(j, a, model.Stop{Cause: trouble})
	}
	if a.Stop == nil {
		m.proceed(j, a, least)
		m.settleShrink(j, a)
		m.settleSwitch(j, a)
	}
	m.jobs.Put(j)
}

// proceed lets commands start once every container exists, and notes when every command runs.
func (m *Manager) proceed(j *model.Job, a *model.Attempt, least int) {
	if least >= 1 && !a.Released {
		a.Released = true
		m.state.TouchNodesOf(a)
		m.state.EmitJob(model.EventCreated, j, "")
	}
	if least >= 2 && a.Started.At == 0 {
		a.Started, j.State = m.state.Now(), model.Running
		if j.Started.At == 0 {
			j.Started = m.state.Now()
		}
		if j.Parent != 0 {
			m.jobs.TaskRan(j.Parent)
		}
		m.state.EmitJob(model.EventStarted, j, "")
	}
}

// LoseWorkers ends, as lost, every worker on a node.
func (m *Manager) LoseWorkers(i int, why string) {
	name := m.view.Nodes()[i].Name
	for _, w := range m.view.HeldOn(i) {
		there := func(x *model.Worker) bool { return x.Node == name }
		switch j := m.view.Job(w.Job); {
		case j.Live() == nil:
		case slices.ContainsFunc(j.Live().Workers, func(x model.Worker) bool { return !x.State.Final() && there(&x) }):
			m.Lose(j, there, why)
		default:
			m.cancelResizeOnNode(j)
		}
	}
}
