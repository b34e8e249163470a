package attempts

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
)

// Move asks all workers of a job to stop, and takes the room to which some of them go.
func (m *Manager) Move(job model.JobID, n int, r *model.Resize) error {
	a, err := m.Attempt(job, n)
	if err != nil {
		return err
	}
	j := m.view.Job(job)
	switch err := r.CheckMove(j, a); {
	case err != nil:
		return err
	case a.Started.At == 0:
		return fmt.Errorf("its workers do not run yet: %w", model.ErrWrongState)
	}
	next, err := m.stopToRelaunch(j, a, r, model.Stop{Cause: model.CauseMigrate})
	if err != nil {
		return err
	}
	m.state.Learn().Move()
	m.emitTrial(model.EventTried, next, trialOf(next, next.Live()))
	return nil
}

// RecordMove notes that a job moves for its own sake to where it will find room.
func (m *Manager) RecordMove(j *model.Job, a *model.Attempt) {
	trial := model.Trial{What: model.TrialMigrate, At: m.view.At()}
	a.Remember(trial)
	m.state.Learn().Move()
	m.emitTrial(model.EventTried, j, &trial)
}

// trialOf returns what the next attempt tries that an attempt is being stopped for, nil if that is
// nothing.
func trialOf(j *model.Job, a *model.Attempt) *model.Trial {
	r := a.Resize()
	if _, elastic := j.Elastic(); elastic || r == nil || a.Stop.Cause != model.CauseMigrate {
		return nil
	}
	return &model.Trial{What: model.TrialMigrate, At: a.Stop.At, Expected: r.Expected}
}

// emitTrial says what was tried with a job, or what that has brought.
func (m *Manager) emitTrial(t model.EventType, j *model.Job, trial *model.Trial) {
	cause := model.CauseMigrate
	if trial.What == model.TrialPack {
		cause = model.CausePack
	}
	e := state.JobEvent(t, j, cause)
	e.For, e.Trial = trial.With, trial
	m.state.Emit(e)
}

// measureMove notes what a move has brought, once the rate after it is known, if that before it is.
func (m *Manager) measureMove(j *model.Job, a *model.Attempt) {
	if a.Stop != nil || len(a.Trials) == 0 || len(j.Attempts) < 2 {
		return
	}
	was, last := &j.Attempts[len(j.Attempts)-2], a.Trials[0]
	if last.What != model.TrialMigrate || was.Rate == 0 || len(was.Workers) != len(a.Workers) {
		return
	}
	last.Measured = model.MulDiv(a.Rate, 1000, was.Rate)
	last.Undone = last.Expected > 0 && last.Measured < model.LeastGain
	a.Trials = append([]model.Trial{last}, a.Trials[1:]...)
	m.emitTrial(model.EventMeasured, j, &last)
}
