package model

import (
	"encoding/json"

	"github.com/rota-hpc/rota/jobspec"
)

// MeasureSpec returns how many bytes a job's specification counts for beside its scripts: its environments and
// the JSON of the rest. Scripts count once for each user, see [Texts]. A new name changes nothing.
func MeasureSpec(spec *jobspec.Job) int32 {
	rest := *spec
	var env []byte
	if HasTexts(rest.Groups) {
		rest.Groups = make([]jobspec.Group, len(spec.Groups))
		for i := range spec.Groups {
			rest.Groups[i] = spec.Groups[i]
			tasks := append([]jobspec.Task(nil), spec.Groups[i].Tasks...)
			for n := range tasks {
				env = PackMap(env, tasks[n].Env)
				tasks[n].Script, tasks[n].Env = "", nil
			}
			rest.Groups[i].Tasks = tasks
		}
	}
	env = PackMap(env, rest.ExportEnv)
	rest.ExportEnv = nil
	text, err := json.Marshal(&rest)
	if err != nil {
		return int32(len(env)) // the log has it as JSON, so that this does not happen
	}
	return int32(len(text) - len(spec.Name) + len(env))
}

// Bytes returns how many bytes of specification a job counts for beside its scripts, with a comment that was
// changed. A child has the specification of its parent job.
func (j *Job) Bytes() int64 {
	n := int64(j.SpecBytes)
	if j.Comment != nil {
		n += int64(len(*j.Comment))
	}
	return n
}
