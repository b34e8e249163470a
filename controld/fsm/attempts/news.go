package attempts

import (
	"github.com/rota-hpc/rota/controld/fsm/jobs"
	"github.com/rota-hpc/rota/controld/model"
)

// news is a message about a worker. The node daemon sends these kinds:
//
//   - *stateNews (state.go): how far the worker has come, and its result
//   - findingNews (finding.go): a log policy has found a line in the output
//   - rateNews (rate.go): how fast the attempt makes progress
//   - *switchNews (suspend.go): the worker has paused or gone on as ordered, or says why not
//   - *profileNews (pack.go): how the job uses a GPU that it has for itself
//   - *packedNews (pack.go): its rate beside others on its GPU
//   - classNews (class.go): the progress class of the attempt
//   - lossNews (loss.go): how much output could not be written
//
// In a report all of them are rows of one form, [model.WorkerReport]. A row has the state of its
// worker and any other kinds.
type news interface {
	// note takes the message in. News that is known already, or that no longer matters, changes
	// nothing.
	note(m *Manager, from sender)
}

// newsOf appends the messages of a row in the order in which they are noted. A row with a finding
// has nothing else.
func newsOf(list []news, r *model.WorkerReport) []news {
	if r.Policy != "" {
		return append(list, findingNews{Policy: r.Policy, Line: r.Message})
	}
	if r.Rate > 0 {
		list = append(list, rateNews(r.Rate))
	}
	if r.Switch != 0 {
		list = append(list, &switchNews{Number: r.Switch, Means: r.Means, TookMS: r.TookMS, Unpaused: r.Unpaused})
	}
	if r.Packed != nil {
		list = append(list, (*packedNews)(r.Packed))
	}
	if r.Profile != nil {
		list = append(list, (*profileNews)(r.Profile))
	}
	if r.OutputLost != nil { // before the state, whose end may be that of the attempt
		list = append(list, lossNews(*r.OutputLost))
	}
	list = append(list, (*stateNews)(r))
	if r.Class != "" {
		list = append(list, classNews(r.Class))
	}
	return list
}

// sender is the worker that a row is about, and the node that reports it.
type sender struct {
	node            string
	job             model.JobID
	attempt, worker int
	joined          int // see [model.WorkerReport]
}

// Report notes one row of a node's report.
func (m *Manager) Report(node string, r *model.WorkerReport) {
	from := sender{node: node, job: r.Job, attempt: r.Attempt, worker: r.Worker, joined: r.Joined}
	var room [7]news // a row has no more
	for _, n := range newsOf(room[:0], r) {
		n.note(m, from)
	}
}

// reported returns the live attempt and the worker of a sender. It returns nil if news is about
// another node's worker or an old attempt.
func (m *Manager) reported(from sender) (*model.Attempt, *model.Worker) {
	a, err := m.Attempt(from.job, from.attempt)
	if err != nil || from.worker < 0 || from.worker >= len(a.Workers) || a.Workers[from.worker].Node != from.node ||
		a.Workers[from.worker].Joined != from.joined {
		return nil, nil
	}
	return a, &a.Workers[from.worker]
}

// ReportStep notes a step that has ended. The node of the first worker says so.
func (m *Manager) ReportStep(node string, r *model.StepReport) {
	a, err := m.Attempt(r.Job, r.Attempt)
	if err != nil || a.Workers[0].Node != node {
		return
	}
	next, a := jobs.CopyToChange(m.view.Job(r.Job))
	if next.AddStep(a, r.Step) {
		m.jobs.Put(next)
	}
}
