package lifecycle

import (
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// PolicyNamed returns the log policy of a job that has a name, nil if there is none.
func PolicyNamed(spec *jobspec.Job, name string) *jobspec.LogPolicy {
	for i := range spec.LogPolicies {
		if spec.LogPolicies[i].Name == name {
			return &spec.LogPolicies[i]
		}
	}
	return nil
}

// decidedByPolicy returns what a log policy has decided about an attempt, and in what words. The
// action is "" if no policy has, or if something stronger came after it.
func decidedByPolicy(j *model.Job, a *model.Attempt) (action, text string) {
	for i := range a.Findings {
		f := &a.Findings[i]
		p := PolicyNamed(j.Spec, f.Policy)
		if f.Acts && p != nil && a.Stop != nil && a.Stop.Cause == model.PolicyCause(p.Action) {
			return p.Action, f.Text()
		}
	}
	return "", ""
}

// applyPolicy makes the outcome of an attempt what a log policy has decided, and reports whether
// one has.
func (o *Outcome) applyPolicy(j *model.Job, a *model.Attempt) bool {
	action, text := decidedByPolicy(j, a)
	switch action {
	case model.PolicyExclude:
		if SucceededUnasked(j, a) || Succeeded(j, a) && !j.Spec.SavesBeforeZero() { // it was done, or is content
			*o = Outcome{Cause: model.CauseCompleted}
			return true
		}
		o.Cause, o.Checkpoint, o.Message = model.CauseRequeue, true, text // counted as a requeue at the job's own request
	case model.PolicyFail, model.PolicyRestart:
		o.Cause, o.Message = model.CauseFailed, text
		if o.Code == 0 && o.Signal == 0 {
			o.Code = 1
		}
	}
	o.policy = action
	return action != ""
}
