package fsm

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
)

// ResumeJob has all workers of a suspended attempt go on, each where it is, with GPUs of its node.
// Of an attempt that has not paused within [model.PauseLimit] it takes the suspension back.
type ResumeJob struct {
	Job     model.JobID `json:"job"`
	Attempt int         `json:"attempt"`
	GPUs    [][]int     `json:"gpus"` // of each worker, by number; of one that has ended none
	// of its share of the turns on its node, in hundredths; 0: 100
	Weight int `json:"weight,omitempty"`
}

// String implements Action.
func (c *ResumeJob) String() string {
	if len(c.GPUs) == 0 {
		return fmt.Sprintf("take back the suspension of attempt %d of job %d", c.Attempt, c.Job)
	}
	return fmt.Sprintf("resume attempt %d of job %d", c.Attempt, c.Job)
}

// PartOf implements Action.
func (*ResumeJob) PartOf() steering.Switch { return "" }

func (*ResumeJob) ends() bool                     { return true }
func (c *ResumeJob) names() (string, model.JobID) { return "resume", c.Job }
func (c *ResumeJob) store(to *storedAction)       { to.Resume = c }

// act takes the room of a suspended attempt and tells its workers to go on.
func (c *ResumeJob) act(m *Machine) error {
	a, err := m.attempt(c.Job, c.Attempt)
	if err != nil {
		return err
	}
	j := m.v.Job(c.Job)
	switch {
	case a.Stop != nil:
		return model.ErrStopping
	case a.Suspending() && m.v.At()-a.Switch.At >= model.PauseLimit:
		m.withdraw(j, "")
		return nil
	case !a.Suspended():
		return model.ErrNotSuspended
	case len(c.GPUs) != len(a.Workers):
		return fmt.Errorf("GPUs of %d workers for %d: %w", len(c.GPUs), len(a.Workers), model.ErrWrongPlaces)
	}
	for i := range a.Workers {
		w := &a.Workers[i]
		if !w.State.Final() && (len(c.GPUs[i]) != model.Devices(j, i) || !m.mayUse(w, c.GPUs[i])) {
			return fmt.Errorf("worker %d: %w", i, model.ErrWrongPlaces)
		}
	}
	if err := m.s.Resume(j, a, c.GPUs); err != nil {
		return err
	}
	next, a := copyToChange(j)
	m.wake(next, a, c.GPUs)
	a.Switch.Weight = c.Weight
	m.s.TouchNodesOf(a)
	m.put(next)
	m.emitSwitch(model.EventResuming, next, a)
	return nil
}
