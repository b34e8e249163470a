package present

import (
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// Redact takes away what only a job's owner and its operators see: paths, parameters, metrics,
// lines of output, and messages, which may quote its command. why is the job's reason.
func Redact(j *api.Job, why model.Reason) {
	j.Workdir, j.Metrics, j.Array.Params, j.Spec = "", nil, nil, nil
	j.Reason = PublicReason(why)
	for i := range j.Attempts {
		j.Attempts[i].Findings = nil
	}
}

// PublicReason is a reason without the message from outside.
func PublicReason(why model.Reason) api.Reason {
	why.Text = ""
	return Reason(why)
}

// PublicSpec is what all users see of a job's specification: what it is called, how it is queued
// and what it asks for. Whatever else a specification has, or will have, is left out.
func PublicSpec(spec *jobspec.Job) *jobspec.Job {
	out := &jobspec.Job{Name: spec.Name, Class: spec.Class, Queue: spec.Queue, Account: spec.Account,
		Priority: spec.Priority, TimeLimit: spec.TimeLimit, Begin: spec.Begin, Deadline: spec.Deadline,
		GangScope: spec.GangScope, Groups: make([]jobspec.Group, len(spec.Groups))}
	for i := range spec.Groups {
		g := &spec.Groups[i]
		out.Groups[i] = jobspec.Group{Name: g.Name, Count: g.Count, Gang: g.Gang, MaxWorkersPerNode: g.MaxWorkersPerNode,
			TimeLimit: g.TimeLimit, Exclusive: g.Exclusive, Elastic: g.Elastic, Tasks: make([]jobspec.Task, len(g.Tasks))}
		for k := range g.Tasks {
			out.Groups[i].Tasks[k] = jobspec.Task{Name: g.Tasks[k].Name, Resources: g.Tasks[k].Resources}
		}
	}
	return out
}
