package attempts

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/jobs"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// stateNews is how far a worker has come, and of a worker that has ended its result.
type stateNews model.WorkerReport

func (r *stateNews) note(m *Manager, from sender) {
	a, w := m.reported(from)
	if a == nil || model.Rank(r.State) <= model.Rank(w.State) {
		return
	}
	before := *w
	next, a := jobs.CopyToChange(m.view.Job(r.Job))
	w = &a.Workers[r.Worker]
	w.State = r.State
	if r.State == model.WorkerRunning || r.State == model.WorkerExited && !r.Unbegun || r.Began {
		w.Started = cmp.Or(w.Started, m.view.At())
	}
	if r.State.Final() {
		w.ExitCode, w.Signal, w.OOM, w.Lease, w.Message = r.ExitCode, r.Signal, r.OOM, r.Lease, r.Message
		w.LaunchFinal, w.Why, w.Unbegun, w.Own = r.Final, r.Why, r.Unbegun, r.Own
		w.Finished, w.Total = r.Finished, r.Total
		if r.Unbegun && !r.Own && a.Stop != nil && !r.Lease { // it was ended as the stop says, and could not hear it
			w.ExitCode, w.Signal = 0, jobspec.SignalNumber(a.Stop.Signal)
		}
		if r.Usage != (model.Usage{}) {
			usage := r.Usage
			w.Usage = &usage
		}
		w.PortTaken = m.portTaken(a, r)
		m.vacate(next, a, w)
	}
	m.settleGrowth(next, a, &before)
	m.advance(next, a)
}

// portTaken notes that something else listens at a port that a worker was given, so that the next
// attempt there gets another one.
func (m *Manager) portTaken(a *model.Attempt, r *stateNews) bool {
	if r.State != model.WorkerFailed || r.Began || !slices.Contains(a.Ports(r.Worker), r.PortTaken) {
		return false
	}
	old, i := m.view.Node(a.Workers[r.Worker].Node)
	n := *old
	n.PortsTaken = old.WithPortTaken(r.PortTaken)
	m.state.ReplaceNode(i, &n)
	return true
}
