package fsm

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
)

// MoveJob has a job with a fixed number of workers go on with some or all of them at other places,
// for its own sake. It is stopped once, with its own grace. When its last worker has exited, the
// same entry of the log begins the next attempt. Until then the room at both ends is taken. No
// retries are used up, and policies are not asked again.
type MoveJob struct {
	Job     model.JobID `json:"job"`
	Attempt int         `json:"attempt"`
	// workers that move, by number in the attempt, ascending, and their new places, free now,
	// without ports. The next attempt numbers the workers that stay first
	Leave []int         `json:"leave"`
	Join  []model.Place `json:"join"`
	// what its rate is expected to be, in thousandths of what it is, as others like it were measured;
	// 0: it moves for another reason
	Expected int64 `json:"expected,omitempty"`
}

// String implements Action.
func (c *MoveJob) String() string {
	return fmt.Sprintf("move %d workers of job %d", len(c.Leave), c.Job)
}

// PartOf implements Action.
func (*MoveJob) PartOf() steering.Switch { return steering.Migration }

func (*MoveJob) ends() bool                     { return false }
func (c *MoveJob) names() (string, model.JobID) { return "move", c.Job }
func (c *MoveJob) store(to *storedAction)       { to.Move = c }

// act asks all workers of a job to stop, and takes the room to which some of them go.
func (c *MoveJob) act(m *Machine) error {
	a, err := m.attempt(c.Job, c.Attempt)
	if err != nil {
		return err
	}
	j := m.v.Job(c.Job)
	r := &model.Resize{Leave: c.Leave, Join: c.Join, Expected: c.Expected}
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
	m.s.Learn().Move()
	m.emitTrial(model.EventTried, next, trialOf(next, next.Live()))
	return nil
}

// recordMove notes that a job moves for its own sake to where it will find room.
func (m *Machine) recordMove(j *model.Job, a *model.Attempt) {
	trial := model.Trial{What: model.TrialMigrate, At: m.v.At()}
	a.Remember(trial)
	m.s.Learn().Move()
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
func (m *Machine) emitTrial(t model.EventType, j *model.Job, trial *model.Trial) {
	cause := model.CauseMigrate
	if trial.What == model.TrialPack {
		cause = model.CausePack
	}
	e := state.JobEvent(t, j, cause)
	e.For, e.Trial = trial.With, trial
	m.s.Emit(e)
}

// measureMove notes what a move has brought, once the rate after it is known, if that before it is.
func (m *Machine) measureMove(j *model.Job, a *model.Attempt) {
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
