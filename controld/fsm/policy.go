package fsm

import (
	"slices"
	"strings"

	"github.com/rota-hpc/rota/controld/fsm/lifecycle"
	"github.com/rota-hpc/rota/controld/model"
)

// recordFinding takes in what a log policy has found, once for each attempt.
func (m *Machine) recordFinding(node string, r *model.WorkerReport) {
	a, _ := m.reported(node, r)
	if a == nil || len(a.Findings) >= model.MaxFindings {
		return
	}
	policy := lifecycle.PolicyNamed(m.v.Job(r.Job).Spec, r.Policy)
	if policy == nil || slices.ContainsFunc(a.Findings, func(f model.Finding) bool { return f.Policy == r.Policy }) {
		return
	}
	next, a := copyToChange(m.v.Job(r.Job))
	f := model.Finding{Policy: r.Policy, Worker: r.Worker, Line: bounded(r.Message), At: m.s.Now()}
	f.Acts = a.Stop == nil && model.PolicyCause(policy.Action) != ""
	a.Findings = append(slices.Clip(a.Findings), f)
	m.s.Emit(model.Event{Type: model.EventPolicy, Job: next.ID, Attempt: a.N, Node: node})
	if policy.Action == model.PolicyExclude {
		m.avoid(next, []string{node})
	}
	if f.Acts {
		m.stop(next, a, model.Stop{Cause: model.PolicyCause(policy.Action), Reason: f.Text()})
	}
	m.put(next)
}

// bounded cuts a text of a node off. Half a character would be another one in a state that was
// restored.
func bounded(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), model.MaxFindingText)], "")
}
