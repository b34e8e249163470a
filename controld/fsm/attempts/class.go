package attempts

import (
	"cmp"
	"fmt"

	"github.com/rota-hpc/rota/controld/fsm/jobs"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec/convergence"
)

// classNews is the progress class of an attempt when it has changed. That of worker 0 counts. An
// attempt that is being stopped keeps its class.
type classNews convergence.Class

func (n classNews) note(m *Manager, from sender) {
	a, w := m.reported(from)
	class := convergence.Class(n)
	if a == nil || class == a.Class || from.worker != 0 || w.State != model.WorkerRunning ||
		a.Stop != nil {
		return
	}
	next, a := jobs.CopyToChange(m.view.Job(from.job))
	before := cmp.Or(a.Class, "unknown")
	a.Class, a.ClassSince = class, a.Clock(m.view.At())
	m.jobs.Put(next)
	e := state.JobEvent(model.EventClass, next, "")
	e.Text = fmt.Sprintf("%s, %s before", class, before)
	m.state.Emit(e)
}
