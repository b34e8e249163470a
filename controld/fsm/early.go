package fsm

import "github.com/rota-hpc/rota/controld/model"

// EarlySignal tells an attempt that its time limit comes, as its job's checkpoint block asks for. Its
// nodes write the notice and send the signal of its preemption. It is not being stopped by that.
type EarlySignal struct {
	Job     model.JobID `json:"job"`
	Attempt int         `json:"attempt"`
}

// planEarly notes that an attempt has been told. It is refused before that is due, and a second time:
// so the signal comes once, whichever leader has decided it.
func (m *Machine) planEarly(c *EarlySignal) error {
	a, err := m.attempt(c.Job, c.Attempt)
	if err != nil {
		return err
	}
	j := m.v.Job(c.Job)
	if due := j.EarlyAt(a); due == 0 || m.v.At() < due {
		return model.ErrWrongState
	}
	next, a := copyToChange(j)
	a.Early = m.v.At()
	m.s.TouchNodesOf(a)
	m.put(next)
	m.s.EmitJob(model.EventEarly, next, model.CauseTimeout)
	return nil
}
