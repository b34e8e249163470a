package attempts

import (
	"github.com/rota-hpc/rota/controld/fsm/jobs"
)

// rateNews is how fast an attempt makes progress, in steps in 1,000 s. The first report counts.
type rateNews int64

func (n rateNews) note(m *Manager, from sender) {
	if a, _ := m.reported(from); a == nil || a.Rate != 0 {
		return
	}
	next, a := jobs.CopyToChange(m.view.Job(from.job))
	a.Rate, a.Rated = int64(n), m.view.At()
	m.measureMove(next, a)
	m.jobs.Put(next)
	m.state.Learn().StepRate(next, a)
}
