package fsm

import (
	"slices"
	"strings"

	"github.com/rota-hpc/rota/controld/fsm/lifecycle"
	"github.com/rota-hpc/rota/controld/model"
)

// recordFinding takes in what a log policy has found, once for each attempt.
func (s *State) recordFinding(node string, r *model.WorkerReport) {
	a, err := s.attempt(r.Job, r.Attempt)
	if err != nil || r.Worker < 0 || r.Worker >= len(a.Workers) || a.Workers[r.Worker].Node != node || len(a.Findings) >= model.MaxFindings {
		return
	}
	policy := lifecycle.PolicyNamed(s.v.Job(r.Job).Spec, r.Policy)
	if policy == nil || slices.ContainsFunc(a.Findings, func(f model.Finding) bool { return f.Policy == r.Policy }) {
		return
	}
	next, a := copyToChange(s.v.Job(r.Job))
	line := strings.ToValidUTF8(r.Message[:min(len(r.Message), model.MaxFindingText)], "") // half a character would be another one in a state that was restored
	f := model.Finding{Policy: r.Policy, Worker: r.Worker, Line: line, At: s.now()}
	f.Acts = a.Stop == nil && model.PolicyCause(policy.Action) != ""
	a.Findings = append(slices.Clip(a.Findings), f)
	s.emit(model.Event{Type: model.EventPolicy, Job: next.ID, Attempt: a.N, Node: node})
	if policy.Action == model.PolicyExclude {
		s.avoid(next, []string{node})
	}
	if f.Acts {
		s.stop(next, a, model.Stop{Cause: model.PolicyCause(policy.Action), Reason: f.Text()})
	}
	s.put(next)
}
