package fsm

import (
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/lifecycle"
	"github.com/rota-hpc/rota/controld/model"
)

// simple is a job of one worker in its first attempt, as most are, in one piece of memory instead
// of three.
type simple struct {
	job      model.Job
	attempts [1]model.Attempt
	workers  [1]model.Worker
}

// copyToChange copies a job and its live attempt to be changed and put back.
func copyToChange(j *model.Job) (*model.Job, *model.Attempt) {
	if len(j.Attempts) == 1 && len(j.Attempts[0].Workers) == 1 {
		d := &simple{*j, [1]model.Attempt{j.Attempts[0]}, [1]model.Worker{j.Attempts[0].Workers[0]}}
		d.job.Attempts, d.attempts[0].Workers = d.attempts[:], d.workers[:]
		return &d.job, &d.attempts[0]
	}
	next := *j
	next.Attempts = slices.Clone(j.Attempts)
	a := &next.Attempts[len(next.Attempts)-1]
	a.Workers = slices.Clone(a.Workers)
	return &next, a
}

// copyWithAttempt copies a job to be changed and stored, with one more attempt of so many workers.
func copyWithAttempt(j *model.Job, workers int) (*model.Job, *model.Attempt) {
	if len(j.Attempts) == 0 && workers == 1 {
		d := &simple{job: *j}
		d.job.Attempts, d.attempts[0].Workers = d.attempts[:], d.workers[:]
		return &d.job, &d.attempts[0]
	}
	next := *j
	kept := j.Attempts[max(0, len(j.Attempts)+1-model.MaxAttemptsKept):]
	next.Attempts = append(slices.Clip(slices.Clone(kept)), model.Attempt{Workers: make([]model.Worker, workers)})
	return &next, &next.Attempts[len(kept)]
}

// attempt returns a job's live attempt if it has that number.
func (m *Machine) attempt(id model.JobID, n int) (*model.Attempt, error) {
	j := m.v.Job(id)
	if j == nil {
		return nil, model.ErrNoJob
	}
	a := j.Live()
	if a == nil || a.N != n {
		return nil, fmt.Errorf("attempt %d: %w", n, model.ErrOldAttempt)
	}
	return a, nil
}

// lose ends, without word from them, the workers for which gone says so.
func (m *Machine) lose(j *model.Job, gone func(*model.Worker) bool, why string) {
	next, a := copyToChange(j)
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
		m.stop(next, a, model.Stop{Cause: model.CauseNodeLost})
	}
	m.advance(next, a)
}

// vacate charges for a worker that has just become final, and gives back its room unless that is
// kept for the next attempt.
func (m *Machine) vacate(j *model.Job, a *model.Attempt, w *model.Worker) {
	if w.Ended = m.v.At(); a.Stop == nil { // else it does not go on, and its clock with it
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
		_, i := m.v.Node(w.Node)
		m.s.TouchNode(i)
		return
	}
	gpus := w.GPUs
	m.s.Vacate(j, w.Index, j.Holds(a, w.Index), &w.Place, false)
	m.leaveGPU(j, a, w, gpus)
}

// advance draws the conclusions from what the workers of an attempt have come to, and stores the
// job.
func (m *Machine) advance(j *model.Job, a *model.Attempt) {
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
	case a.Stop == nil && model.Succeeded(j, a):
		m.stop(j, a, model.Stop{Cause: model.CauseCompleted})
	case lifecycle.StopsRest(a, trouble):
		m.stop(j, a, model.Stop{Cause: trouble})
	}
	if a.Stop == nil {
		m.proceed(j, a, least)
		m.settleShrink(j, a)
		m.settleSwitch(j, a)
	}
	m.put(j)
}

// proceed lets commands start once every container exists, and notes when every command runs.
func (m *Machine) proceed(j *model.Job, a *model.Attempt, least int) {
	if least >= 1 && !a.Released {
		a.Released = true
		m.s.TouchNodesOf(a)
		m.s.EmitJob(model.EventCreated, j, "")
	}
	if least >= 2 && a.Started.At == 0 {
		a.Started, j.State = m.s.Now(), model.Running
		if j.Started.At == 0 {
			j.Started = m.s.Now()
		}
		if j.Parent != 0 {
			m.childChangesOf(j.Parent).ran = true
		}
		m.s.EmitJob(model.EventStarted, j, "")
	}
}
