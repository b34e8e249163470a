package fsm

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/fsm/jobs"
	"github.com/rota-hpc/rota/controld/fsm/lifecycle"
	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
)

// StopJob asks a live attempt to stop for a cause; the grace follows from the cause and the job
// (contracts: one table).
type StopJob struct {
	Job     model.JobID `json:"job"`
	Attempt int         `json:"attempt"`
	Cause   model.Cause `json:"cause"`

	// For is the waiting job that gets the room; 0: none. When it does not wait any more the stop is
	// refused.
	For model.JobID `json:"for,omitempty"`

	// Inexact says that it is not proven that no other job could have left at less cost. It changes
	// nothing.
	Inexact bool `json:"inexact,omitempty"`
}

// String implements Action.
func (c *StopJob) String() string {
	s := fmt.Sprintf("stop attempt %d of job %d because of %s", c.Attempt, c.Job, c.Cause)
	if c.For != 0 {
		s += fmt.Sprintf(", for job %d", c.For)
	}
	return s
}

// PartOf implements Action.
func (c *StopJob) PartOf() steering.Switch { return partOfCause[c.Cause] }

func (c *StopJob) ends() bool                   { return c.PartOf() == "" }
func (c *StopJob) names() (string, model.JobID) { return "stop", c.Job }
func (c *StopJob) store(to *storedAction)       { to.Stop = c }

// partOfCause are the parts of scheduling that stop jobs. Time limits, drains and the like are
// none.
var partOfCause = map[model.Cause]steering.Switch{
	model.CauseTE: steering.Preemption, model.CauseReclaim: steering.Preemption, model.CauseOrder: steering.Preemption,
	model.CauseShrink: steering.Preemption, model.CauseGrow: steering.Growth, model.CauseMigrate: steering.Migration,
	model.CauseSlice: steering.Slicing,
}

// act asks a live attempt to stop. Grace does not count against the time limit, so a timeout
// never replaces another stop.
func (c *StopJob) act(m *Machine) error {
	a, err := m.attempts.Attempt(c.Job, c.Attempt)
	switch {
	case err != nil:
		return err
	case !plannable(c.Cause):
		return fmt.Errorf("%q: %w", c.Cause, model.ErrBadCause)
	case a.Stop != nil && (c.Cause == model.CauseTimeout || !lifecycle.Outranks(c.Cause, a.Stop)):
		return model.ErrStopping
	case c.For != 0 && !m.attempts.WantsRoom(c.For):
		return fmt.Errorf("for job %d: %w", c.For, model.ErrNotWanted)
	}
	next, a := jobs.CopyToChange(m.v.Job(c.Job))
	m.attempts.Stop(next, a, model.Stop{Cause: c.Cause, For: c.For})
	if c.Cause == model.CauseMigrate && c.For == 0 {
		m.attempts.RecordMove(next, a)
	}
	m.jobs.Put(next)
	return nil
}

// plannable reports whether a plan may stop an attempt for a cause; the others follow from what
// nodes and users say.
func plannable(c model.Cause) bool {
	switch c {
	case model.CauseTimeout, model.CauseTE, model.CauseReclaim, model.CauseOrder, model.CauseShrink, model.CauseGrow,
		model.CauseDrain, model.CauseMigrate:
		return true
	}
	return false
}
