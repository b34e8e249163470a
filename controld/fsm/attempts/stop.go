package attempts

import (
	"cmp"

	"github.com/rota-hpc/rota/controld/fsm/lifecycle"
	"github.com/rota-hpc/rota/controld/model"
)

// Stop asks an attempt to stop. A stop that replaces a weaker one keeps its clock: the kill never
// comes later than announced. That the job asked to be started again stays true, unless it is cancelled.
func (m *Manager) Stop(j *model.Job, a *model.Attempt, ask model.Stop) {
	as := ask.Cause
	if ask.Own { // it has saved before it asked, and waits to be stopped
		as = model.CauseCancelled
	}
	signal, grace := lifecycle.StopSignalAndGrace(j.Spec, j.GroupSpec(), as)
	ask.Signal = cmp.Or(ask.Signal, signal)
	ask.At, ask.KillAt = m.view.At(), m.view.At().After(grace)
	if a.Stop != nil {
		m.cancelResize(j, a, false)
		ask.At, ask.KillAt = a.Stop.At, min(a.Stop.KillAt, ask.KillAt)
		ask.Own = ask.Own || a.Stop.Own && ask.Cause != model.CauseCancelled
	}
	m.nameFor(&ask)
	a.Stop = &ask
	j.State = model.Completing
	m.state.TouchNodesOf(a)
	m.jobs.EmitFor(model.EventStopping, j, ask.Cause)
}

// nameFor notes with a stop whose job it is for.
func (m *Manager) nameFor(s *model.Stop) {
	if o := m.view.Job(s.For); o != nil {
		s.ForUser, s.ForAccount = o.Owner.User, o.Account
	}
}
