package cluster

import (
	"slices"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
)

// What log policies do.
const (
	policyExclude = "exclude_node" // stop, and start again on other nodes
	policyFail    = "fail"         // stop, and do not try again
	policyRestart = "restart"      // stop, as after a failure of the job's own, and try again
)

// Bounds of what is kept of findings.
const (
	maxFindings    = 64  // of one attempt
	maxFindingText = 512 // bytes of the line
)

// policyRestarts is how often a log policy restarts a job that has no restart block of its own.
const policyRestarts = 3

// Finding is what a log policy found in the output of a worker: the first time in an attempt.
type Finding struct {
	Policy string `json:"policy"`
	Worker int    `json:"worker"`
	Line   string `json:"line"`
	At     Stamp  `json:"at"`
	Acts   bool   `json:"acts,omitempty"` // it decided what becomes of the attempt
}

// recordFinding takes in what a log policy has found, once for each attempt.
func (s *State) recordFinding(node string, r *WorkerReport) {
	a, err := s.attempt(r.Job, r.Attempt)
	if err != nil || r.Worker < 0 || r.Worker >= len(a.Workers) || a.Workers[r.Worker].Node != node || len(a.Findings) >= maxFindings {
		return
	}
	policy := policyNamed(s.v.Job(r.Job).Spec, r.Policy)
	if policy == nil || slices.ContainsFunc(a.Findings, func(f Finding) bool { return f.Policy == r.Policy }) {
		return
	}
	next, a := copyToChange(s.v.Job(r.Job))
	line := strings.ToValidUTF8(r.Message[:min(len(r.Message), maxFindingText)], "") // half a character would be another one in a state that was restored
	f := Finding{Policy: r.Policy, Worker: r.Worker, Line: line, At: s.now()}
	f.Acts = a.Stop == nil && policyCause(policy.Action) != ""
	a.Findings = append(slices.Clip(a.Findings), f)
	s.emit(Event{Type: EventPolicy, Job: next.ID, Attempt: a.N, Node: node})
	if policy.Action == policyExclude {
		s.avoid(next, []string{node})
	}
	if f.Acts {
		s.stop(next, a, Stop{Cause: policyCause(policy.Action), Reason: f.text()})
	}
	s.put(next)
}

func (f *Finding) text() string { return "log_policy " + f.Policy + ": " + f.Line }

func policyNamed(spec *jobspec.Job, name string) *jobspec.LogPolicy {
	for i := range spec.LogPolicies {
		if spec.LogPolicies[i].Name == name {
			return &spec.LogPolicies[i]
		}
	}
	return nil
}

// policyCause is why an attempt is stopped by an action, "" if it is not.
func policyCause(action string) Cause {
	switch action {
	case policyExclude:
		return CauseRequeue
	case policyFail, policyRestart:
		return CauseFailed
	}
	return ""
}

// decidedByPolicy returns what a log policy has decided about an attempt, and in what words; "" if none has, or something stronger came after it.
func decidedByPolicy(j *Job, a *Attempt) (action, text string) {
	for i := range a.Findings {
		f := &a.Findings[i]
		p := policyNamed(j.Spec, f.Policy)
		if f.Acts && p != nil && a.Stop != nil && a.Stop.Cause == policyCause(p.Action) {
			return p.Action, f.text()
		}
	}
	return "", ""
}

// applyPolicy makes the outcome of an attempt what a log policy has decided, and reports whether one has.
func (o *outcome) applyPolicy(j *Job, a *Attempt) bool {
	action, text := decidedByPolicy(j, a)
	switch action {
	case policyExclude:
		if succeeded(j, a) { // it was done before it was stopped, or is content with what it has
			*o = outcome{cause: CauseCompleted}
			return true
		}
		o.cause, o.checkpoint, o.message = CauseRequeue, true, text // counted as a requeue that nobody has asked for
	case policyFail, policyRestart:
		o.cause, o.message = CauseFailed, text
		if o.code == 0 && o.signal == 0 {
			o.code = 1
		}
	}
	o.policy = action
	return action != ""
}

// restartOf is the restart block that a failure is held to: none after a log policy's word that it is final, and one in any case after its
// word that the job is to begin again, whatever its exit code.
func restartOf(j *Job, o outcome) *jobspec.Restart {
	r := j.restart()
	switch o.policy {
	case policyFail:
		return nil
	case policyRestart:
		d := jobspec.Restart{Attempts: policyRestarts}
		if r != nil {
			d = *r
		}
		d.RetryOnExit, d.NoRetryOnExit = nil, nil
		return &d
	}
	return r
}
