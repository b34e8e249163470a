package attempts

import (
	"slices"
	"strings"

	"github.com/rota-hpc/rota/controld/fsm/jobs"
	"github.com/rota-hpc/rota/controld/fsm/lifecycle"
	"github.com/rota-hpc/rota/controld/model"
)

// findingNews says that a log policy has found a line in the output. It counts once for each
// attempt.
type findingNews struct{ Policy, Line string }

func (n findingNews) note(m *Manager, from sender) {
	a, _ := m.reported(from)
	if a == nil || len(a.Findings) >= model.MaxFindings {
		return
	}
	policy := lifecycle.PolicyNamed(m.view.Job(from.job).Spec, n.Policy)
	if policy == nil || slices.ContainsFunc(a.Findings, func(f model.Finding) bool { return f.Policy == n.Policy }) {
		return
	}
	next, a := jobs.CopyToChange(m.view.Job(from.job))
	f := model.Finding{Policy: n.Policy, Worker: from.worker, Line: bounded(n.Line), At: m.state.Now()}
	f.Acts = a.Stop == nil && model.PolicyCause(policy.Action) != ""
	a.Findings = append(slices.Clip(a.Findings), f)
	m.state.Emit(model.Event{Type: model.EventPolicy, Job: next.ID, Attempt: a.N, Node: from.node})
	if policy.Action == model.PolicyExclude {
		m.avoid(next, []string{from.node})
	}
	if f.Acts {
		m.Stop(next, a, model.Stop{Cause: model.PolicyCause(policy.Action), Reason: f.Text()})
	}
	m.jobs.Put(next)
}

// bounded cuts a text of a node off. Half a character would be another one in a state that was
// restored.
func bounded(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), model.MaxFindingText)], "")
}
