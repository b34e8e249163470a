package present

import (
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
)

// Redact removes everything that only a job's owner and its operators may see. That is its
// specification, comment, paths, parameters, metrics with their consequences, output lines, and
// messages, which may quote its command. why is the job's reason.
func Redact(j *api.Job, why model.Reason) {
	j.Workdir, j.Comment, j.Metrics, j.ProgressClass, j.Array.Params, j.Spec = "", "", nil, "", nil, nil
	j.ProgressProblem = ""
	j.Reason = PublicReason(nil, why)
	for i := range j.Attempts {
		j.Attempts[i].Findings, j.Attempts[i].Killed = nil, ""
		for k := range j.Attempts[i].Steps {
			j.Attempts[i].Steps[k].Name, j.Attempts[i].Steps[k].Why = "", ""
		}
	}
}

// PublicReason is a reason without the message from outside. v is nil for a job of the history.
func PublicReason(v *state.View, why model.Reason) api.Reason {
	why.Text = ""
	return Reason(v, why)
}
