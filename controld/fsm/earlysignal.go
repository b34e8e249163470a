package fsm

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/fsm/jobs"
	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
)

// EarlySignal tells an attempt that its time limit comes, as its job's checkpoint block asks for. Its
// nodes write the notice and send the signal of its preemption. It is not being stopped by that.
type EarlySignal struct {
	Job     model.JobID `json:"job"`
	Attempt int         `json:"attempt"`
}

// String implements Action.
func (c *EarlySignal) String() string {
	return fmt.Sprintf("tell attempt %d of job %d that its time limit comes", c.Attempt, c.Job)
}

// PartOf implements Action.
func (*EarlySignal) PartOf() steering.Switch { return "" }

func (*EarlySignal) ends() bool                     { return true }
func (c *EarlySignal) names() (string, model.JobID) { return "tell of its time limit", c.Job }
func (c *EarlySignal) store(to *storedAction)       { to.Early = c }

// act notes that an attempt has been told. It is refused before that is due, and a second time:
// so the signal comes once, whichever leader has decided it.
func (c *EarlySignal) act(m *Machine) error {
	a, err := m.attempts.Attempt(c.Job, c.Attempt)
	if err != nil {
		return err
	}
	j := m.v.Job(c.Job)
	if due := j.EarlyAt(a); due == 0 || m.v.At() < due {
		return model.ErrWrongState
	}
	next, a := jobs.CopyToChange(j)
	a.Early = m.v.At()
	m.s.TouchNodesOf(a)
	m.jobs.Put(next)
	m.s.EmitJob(model.EventEarly, next, model.CauseTimeout)
	return nil
}
