package fsm

import (
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/jobs"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/generation"
	"github.com/rota-hpc/rota/controld/model/ranges"
)

// KindAcceptGeneration is the kind of [AcceptGeneration].
var KindAcceptGeneration = newKind("accept-generation/1")

// AcceptGeneration says that a node follows the present generation, and what it knows of attempts
// that the state does not know.
type AcceptGeneration struct {
	Node       string                  `json:"node"`          // the node that follows
	BootID     string                  `json:"boot_id"`       // its boot; a report of another boot is refused
	Generation generation.Generation   `json:"generation"`    // the generation that the node follows now
	LastJob    model.JobID             `json:"last_job"`      // the highest id that the node knows of
	Ran        []generation.RanAttempt `json:"ran,omitempty"` // all attempts that the node knows of
	// Missing are workers that have begun in the state, and of which the node has no container and no
	// result.
	Missing []MissingWorker `json:"missing,omitempty"`
	Unknown int             `json:"unknown,omitempty"` // jobs that the node knows and the state does not
}

// MissingWorker is a worker of a live attempt.
type MissingWorker struct {
	Job     model.JobID `json:"job"`
	Attempt int         `json:"attempt"`
	Worker  int         `json:"worker"`
}

// Kind implements Command.
func (AcceptGeneration) Kind() Kind { return KindAcceptGeneration }

// apply notes that the node follows. Attempts that it reports are never given again. A job that ran
// after the state was saved does not start until an admin releases it: it may be done.
func (c AcceptGeneration) apply(m *Machine) (any, error) {
	old := m.v.Recovery()
	n, _ := m.v.Node(c.Node)
	switch {
	case old.Generation.Number == 0 || c.Generation != old.Generation:
		return nil, fmt.Errorf("node %s follows generation %s, and this cluster has %s: %w", c.Node, c.Generation,
			old.Generation, generation.ErrGeneration)
	case n == nil:
		return nil, fmt.Errorf("node %s: %w", c.Node, model.ErrNoNode)
	case n.BootID != c.BootID:
		return nil, fmt.Errorf("node %s: %w", c.Node, model.ErrOtherBoot)
	}
	m.s.SkipIDs(c.LastJob)
	next := *old
	next.Accepted = slices.Clone(old.Accepted)
	if i, ok := slices.BinarySearch(next.Accepted, c.Node); !ok {
		next.Accepted = slices.Insert(next.Accepted, i, c.Node)
		next.Unknown += c.Unknown
	}
	r := &next
	for _, a := range c.Ran {
		a.Node = c.Node
		r = r.WithRan(a)
	}
	m.s.SetRecovery(r)
	for _, a := range c.Ran {
		m.holdUnaccounted(a.Job)
	}
	for _, w := range c.Missing {
		if a, err := m.attempts.Attempt(w.Job, w.Attempt); err == nil && w.Worker >= 0 && w.Worker < len(a.Workers) &&
			a.Workers[w.Worker].Node == c.Node {
			m.s.SetRecovery(m.v.Recovery().WithRan(generation.RanAttempt{Job: w.Job, Attempt: w.Attempt, Node: c.Node}))
			m.attempts.Lose(m.v.Job(w.Job), func(x *model.Worker) bool { return x.Index == w.Worker },
				"the node has neither its container nor its result: it ended after the controllers' state was saved")
		}
	}
	if r := m.v.Recovery(); r.Settled == 0 {
		m.settleGeneration(r)
	}
	_, at := m.v.Node(c.Node)
	m.s.NoteWitnesses(at, m.v.Chosen().Last) // it has dropped those of the generation before
	m.s.TouchNode(at)
	return nil, nil
}

// settleGeneration lets jobs start once a majority of the nodes follows. Another node may run jobs
// that the state does not know to run: until its leases have ended, jobs from before wait.
func (m *Machine) settleGeneration(r *generation.Recovery) {
	nodes, follow := m.v.Nodes(), 0
	for _, n := range nodes {
		if r.Accepts(n.Name) {
			follow++
		}
	}
	if follow < generation.Majority(len(nodes)) {
		return
	}
	next := *r
	next.Settled, next.OldJobsAt = m.v.At(), m.v.At()
	if follow < len(nodes) {
		next.OldJobsAt += model.Instant(m.v.Config().LeaseMS + m.v.Config().MarginMS)
	}
	m.s.SetRecovery(&next)
	m.s.Emit(model.Event{Type: model.EventGeneration, Text: fmt.Sprintf("%s holds: %d of %d nodes follow it",
		r.Generation, follow, len(nodes))})
	if follow == len(nodes) {
		return
	}
	var waiting []model.JobID
	for j := range m.v.Jobs() {
		if j.StillToStart() { // all are from before: none was submitted since
			waiting = append(waiting, j.ID)
		}
	}
	for _, id := range waiting {
		j := *m.v.Job(id)
		j.Eligible = max(j.Eligible, next.OldJobsAt)
		switch {
		case j.Reason.Code == model.ReasonBackoff:
			j.Reason.Until = j.Eligible
		case j.Hold == model.NotHeld && j.Reason.Code == model.ReasonNone:
			j.Reason = model.Reason{Code: model.ReasonBackoff, Until: j.Eligible,
				Text: "nodes that have not reported since the cluster was recovered or restored may still run it"}
		}
		m.jobs.Put(&j)
	}
}

// holdUnaccounted holds a waiting job if a node knows a later attempt than the state. That attempt
// may have done the job's work after the state was saved. While that attempt may still run, it
// cannot be released into a second one.
func (m *Machine) holdUnaccounted(id model.JobID) {
	ends := m.v.At() + model.Instant(m.v.Config().LeaseMS+m.v.Config().MarginMS)
	j := m.v.Job(id)
	if j == nil {
		parent, n := m.v.ParentOf(id)
		if parent == nil || !parent.Children.Waiting.Has(n) {
			return
		}
		next, f := jobs.CopyParent(parent)
		task := ranges.Span(n, n)
		f.HeldAdmin, f.HeldUser = f.HeldAdmin.With(task), f.HeldUser.Without(task)
		next.Eligible = max(next.Eligible, ends)
		if len(next.Ready()) == 0 {
			m.s.Unreserve(next.ID)
		}
		m.jobs.Put(next)
		m.s.EmitJob(model.EventHeld, next, "")
		return
	}
	if j.State != model.Pending || j.Children != nil || m.v.Recovery().RanOf(id).Attempt <= j.Attempt {
		return
	}
	next := *j
	next.Eligible = max(next.Eligible, ends)
	m.jobs.HoldForAdmin(&next)
	m.s.Unreserve(id)
	m.jobs.Put(&next)
	m.s.EmitJob(model.EventHeld, &next, "")
}
