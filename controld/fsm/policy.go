package fsm

import (
	"slices"
	"strings"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// policyRestarts is how often a log policy restarts a job that has no restart block of its own.
const policyRestarts = 3

// recordFinding takes in what a log policy has found, once for each attempt.
func (s *State) recordFinding(node string, r *model.WorkerReport) {
	a, err := s.attempt(r.Job, r.Attempt)
	if err != nil || r.Worker < 0 || r.Worker >= len(a.Workers) || a.Workers[r.Worker].Node != node || len(a.Findings) >= model.MaxFindings {
		return
	}
	policy := policyNamed(s.v.Job(r.Job).Spec, r.Policy)
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

// policyNamed returns the log policy of a job that has a name, nil if there is none.
func policyNamed(spec *jobspec.Job, name string) *jobspec.LogPolicy {
	for i := range spec.LogPolicies {
		if spec.LogPolicies[i].Name == name {
			return &spec.LogPolicies[i]
		}
	}
	return nil
}

// decidedByPolicy returns what a log policy has decided about an attempt, and in what words. The action is "" if no
// policy has, or if something stronger came after it.
func decidedByPolicy(j *model.Job, a *model.Attempt) (action, text string) {
	for i := range a.Findings {
		f := &a.Findings[i]
		p := policyNamed(j.Spec, f.Policy)
		if f.Acts && p != nil && a.Stop != nil && a.Stop.Cause == model.PolicyCause(p.Action) {
			return p.Action, f.Text()
		}
	}
	return "", ""
}

// applyPolicy makes the outcome of an attempt what a log policy has decided, and reports whether one has.
func (o *outcome) applyPolicy(j *model.Job, a *model.Attempt) bool {
	action, text := decidedByPolicy(j, a)
	switch action {
	case model.PolicyExclude:
		if model.Succeeded(j, a) { // it was done before it was stopped, or is content with what it has
			*o = outcome{cause: model.CauseCompleted}
			return true
		}
		o.cause, o.checkpoint, o.message = model.CauseRequeue, true, text // counted as a requeue at the job's own request
	case model.PolicyFail, model.PolicyRestart:
		o.cause, o.message = model.CauseFailed, text
		if o.code == 0 && o.signal == 0 {
			o.code = 1
		}
	}
	o.policy = action
	return action != ""
}

// restartOf is the restart block that a failure is held to: none after a log policy's word that it is final, and one in any case after its
// word that the job is to begin again, whatever its exit code.
func restartOf(j *model.Job, o outcome) *jobspec.Restart {
	r := j.Restart()
	switch o.policy {
	case model.PolicyFail:
		return nil
	case model.PolicyRestart:
		d := jobspec.Restart{Attempts: policyRestarts}
		if r != nil {
			d = *r
		}
		d.RetryOnExit, d.NoRetryOnExit = nil, nil
		return &d
	}
	return r
}
