package fsm

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// KindNodeReport is the kind of [NodeReport].
var KindNodeReport = newKind("node-report/1")

// NodeReport says what became of workers on one node. Reports about an old attempt, and repeated
// reports, change nothing.
type NodeReport struct {
	Node    string               `json:"node"`            // the node that reports
	BootID  string               `json:"boot_id"`         // its boot; a report of another boot is refused
	Workers []model.WorkerReport `json:"workers"`         // news of the workers on the node
	Steps   []model.StepReport   `json:"steps,omitempty"` // that have ended
}

// Kind implements Command.
func (NodeReport) Kind() Kind { return KindNodeReport }

// RefusedRows is the result of a [NodeReport]: what is wrong with each row that was not taken as it
// was, nil if all were. Each wraps model.ErrBadReport or model.ErrBadClass.
type RefusedRows []error

// apply notes what became of workers. News of an old attempt, of another node's worker, or known
// already changes nothing. An impossible row is left out, or taken without its impossible figures.
// So the node's other rows, and the ends of workers, are not lost with it.
func (c NodeReport) apply(m *Machine) (any, error) {
	n, _ := m.v.Node(c.Node)
	switch {
	case n == nil:
		return nil, fmt.Errorf("node %s: %w", c.Node, model.ErrNoNode)
	case n.BootID != c.BootID:
		return nil, fmt.Errorf("node %s: %w", c.Node, model.ErrOtherBoot)
	}
	var refused RefusedRows
	for i := range c.Steps { // before the end of the worker that had them
		if s := &c.Steps[i]; !s.Possible() {
			refused = append(refused, fmt.Errorf("job %d step %d: %w", s.Job, s.ID, model.ErrBadReport))
			continue
		}
		m.stepReport(c.Node, &c.Steps[i])
	}
	for i := range c.Workers {
		r, err := credible(c.Workers[i])
		if err != nil {
			refused = append(refused, fmt.Errorf("job %d worker %d, %w", r.Job, r.Worker, err))
		}
		if model.Rank(r.State) >= 0 {
			m.reportRow(c.Node, &r)
		}
	}
	return refused, nil
}

// reportRow notes one row of a report.
func (m *Machine) reportRow(node string, r *model.WorkerReport) {
	if r.Policy != "" {
		m.recordFinding(node, r)
		return
	}
	m.rated(node, r)
	m.switched(node, r)
	m.packed(node, r)
	m.workerReport(node, r)
	m.classified(node, r)
}

// credible returns a row without what cannot be true of it, and what that is. Nothing can be taken
// from a row whose state is unknown.
func credible(r model.WorkerReport) (model.WorkerReport, error) {
	if model.Rank(r.State) < 0 {
		return r, fmt.Errorf("state %q: %w", r.State, model.ErrBadReport)
	}
	var err error
	if !measurable(&r) {
		err = fmt.Errorf("rates and usage, which are left out: %w", model.ErrBadReport)
		r.Rate, r.TookMS, r.Packed, r.Profile, r.Usage = 0, 0, nil, nil, model.Usage{}
	}
	if r.Class != "" && !r.Class.Known() {
		err = errors.Join(err, fmt.Errorf("class %q, which is left out: %w", r.Class, model.ErrBadClass))
		r.Class = ""
	}
	return r, err
}

// stepReport notes a step that has ended. The node of the first worker says so.
func (m *Machine) stepReport(node string, r *model.StepReport) {
	a, err := m.attempt(r.Job, r.Attempt)
	if err != nil || a.Workers[0].Node != node {
		return
	}
	next, a := copyToChange(m.v.Job(r.Job))
	if next.AddStep(a, r.Step) {
		m.put(next)
	}
}

// measurable reports whether what a node says of a worker's rates and usage can be so.
func measurable(r *model.WorkerReport) bool {
	rate := func(n int64) bool { return n >= 0 && n <= model.MaxRate }
	p := r.Profile
	return rate(r.Rate) && r.TookMS >= 0 && (r.Packed == nil || rate(r.Packed.Rate)) &&
		(p == nil || p.Utilisation >= 0 && p.Utilisation <= 1000 && p.Memory >= 0 && rate(p.Rate)) &&
		r.Usage.Possible()
}

// reported returns the live attempt and the worker of a node's report. It returns nil if the report
// is about another node's worker or an old attempt.
func (m *Machine) reported(node string, r *model.WorkerReport) (*model.Attempt, *model.Worker) {
	a, err := m.attempt(r.Job, r.Attempt)
	if err != nil || r.Worker < 0 || r.Worker >= len(a.Workers) || a.Workers[r.Worker].Node != node ||
		a.Workers[r.Worker].Joined != r.Joined {
		return nil, nil
	}
	return a, &a.Workers[r.Worker]
}

// portTaken notes that something else listens at a port that a worker was given, so that the next
// attempt there gets another one.
func (m *Machine) portTaken(a *model.Attempt, r *model.WorkerReport) bool {
	if r.State != model.WorkerFailed || r.Began || !slices.Contains(a.Ports(r.Worker), r.PortTaken) {
		return false
	}
	old, i := m.v.Node(a.Workers[r.Worker].Node)
	n := *old
	n.PortsTaken = old.WithPortTaken(r.PortTaken)
	m.s.ReplaceNode(i, &n)
	return true
}

// classified notes the progress class of an attempt when it has changed. That of worker 0 counts.
// One that is being stopped keeps its class.
func (m *Machine) classified(node string, r *model.WorkerReport) {
	a, w := m.reported(node, r)
	if a == nil || r.Class == "" || r.Class == a.Class || r.Worker != 0 || w.State != model.WorkerRunning ||
		a.Stop != nil {
		return
	}
	next, a := copyToChange(m.v.Job(r.Job))
	from := cmp.Or(a.Class, "unknown")
	a.Class, a.ClassSince = r.Class, a.Clock(m.v.At())
	m.put(next)
	e := state.JobEvent(model.EventClass, next, "")
	e.Text = fmt.Sprintf("%s, %s before", r.Class, from)
	m.s.Emit(e)
}

func (m *Machine) workerReport(node string, r *model.WorkerReport) {
	a, w := m.reported(node, r)
	if a == nil || model.Rank(r.State) <= model.Rank(w.State) {
		return
	}
	before := *w
	next, a := copyToChange(m.v.Job(r.Job))
	w = &a.Workers[r.Worker]
	w.State = r.State
	if r.State == model.WorkerRunning || r.State == model.WorkerExited && !r.Unbegun || r.Began {
		w.Started = cmp.Or(w.Started, m.v.At())
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
