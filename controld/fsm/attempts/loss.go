package attempts

import (
	"github.com/rota-hpc/rota/controld/fsm/jobs"
	"github.com/rota-hpc/rota/jobspec/lossy"
)

// lossNews is how much output of a worker could not be written by now. The largest number counts:
// reports may come twice.
type lossNews lossy.Loss

func (n lossNews) note(m *Manager, from sender) {
	a, w := m.reported(from)
	if a == nil || w.OutputLost != nil && w.OutputLost.Bytes >= n.Bytes {
		return
	}
	next, a := jobs.CopyToChange(m.view.Job(from.job))
	lost := lossy.Loss(n)
	a.Workers[from.worker].OutputLost = &lost
	m.jobs.Put(next)
}
