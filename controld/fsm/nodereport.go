package fsm

import (
	"errors"
	"fmt"

	"github.com/rota-hpc/rota/controld/model"
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
		m.attempts.ReportStep(c.Node, &c.Steps[i])
	}
	for i := range c.Workers {
		r, err := credible(&c.Workers[i])
		if err != nil {
			refused = append(refused, fmt.Errorf("job %d worker %d, %w", r.Job, r.Worker, err))
		}
		if model.Rank(r.State) >= 0 {
			m.attempts.Report(c.Node, r)
		}
	}
	return refused, nil
}

// credible returns a row without what cannot be true of it, and what that is. Nothing can be taken
// from a row whose state is unknown.
func credible(r *model.WorkerReport) (*model.WorkerReport, error) {
	if model.Rank(r.State) < 0 {
		return r, fmt.Errorf("state %q: %w", r.State, model.ErrBadReport)
	}
	measurable, known := measurable(r), r.Class == "" || r.Class.Known()
	if measurable && known {
		return r, nil
	}
	var err error
	rest := *r
	if !measurable {
		err = fmt.Errorf("rates and usage are ignored: %w", model.ErrBadReport)
		rest.Rate, rest.TookMS, rest.Packed, rest.Profile, rest.Usage = 0, 0, nil, nil, model.Usage{}
		rest.OutputLost = nil
	}
	if !known {
		err = errors.Join(err, fmt.Errorf("class %q is ignored: %w", r.Class, model.ErrBadClass))
		rest.Class = ""
	}
	return &rest, err
}

// measurable reports whether what a node says of a worker's rates and usage can be so.
func measurable(r *model.WorkerReport) bool {
	rate := func(n int64) bool { return n >= 0 && n <= model.MaxRate }
	p := r.Profile
	return rate(r.Rate) && r.TookMS >= 0 && (r.Packed == nil || rate(r.Packed.Rate)) &&
		(p == nil || p.Utilisation >= 0 && p.Utilisation <= 1000 && p.Memory >= 0 && rate(p.Rate)) &&
		(r.OutputLost == nil || r.OutputLost.Possible()) && r.Usage.Possible()
}
