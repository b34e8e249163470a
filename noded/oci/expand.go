package oci

import (
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/template"
)

// Expanded returns the input with the references in its worker's tasks replaced by their values,
// such as ${array.index} by the index of the array task. Tasks that are no templates, and the job
// of in, are not changed.
func (in Input) Expanded() (Input, error) {
	g, err := in.findGroup()
	if err != nil {
		return in, err
	}
	tasks := slices.Clone(g.Tasks)
	changed := false
	for i := range tasks {
		if !tasks[i].Template {
			continue
		}
		changed = true
		f := expander{value: in.referenceValue}
		f.expandTask(&tasks[i])
		if f.err != nil {
			return in, fmt.Errorf("task %s: %w", tasks[i].Name, f.err)
		}
	}
	if !changed {
		return in, nil
	}
	spec := *in.Alloc.Spec
	spec.Groups = slices.Clone(spec.Groups)
	spec.Groups[in.Alloc.Group].Tasks = tasks
	in.Alloc.Spec = &spec
	return in, nil
}

// referenceValue returns the value of a reference in this worker.
func (in Input) referenceValue(name string) (string, bool) {
	switch name {
	case "job.id":
		return itoa(int(in.Alloc.Job)), true
	case "job.attempt":
		return itoa(in.Alloc.Attempt), true
	case "worker.index":
		return itoa(in.Alloc.GroupWorker), true
	case "worker.count":
		return itoa(len(in.Alloc.Nodes)), true
	case "node.name":
		return in.Node.Name, true
	case "array.index":
		if task := in.arrayTask(); task != nil {
			return itoa(*task.Index), true
		}
		return "", false
	}
	const prefix = "array."
	task := in.arrayTask()
	if task == nil || len(name) <= len(prefix) {
		return "", false
	}
	value, ok := task.Params[name[len(prefix):]]
	return value, ok
}

// expander replaces references in the texts of a task until one has no value.
type expander struct {
	value func(string) (string, bool)
	err   error
}

func (f *expander) expandTexts(texts ...*string) {
	for _, t := range texts {
		if f.err != nil {
			return
		}
		var filled string
		if filled, f.err = template.Expand(*t, f.value); f.err == nil {
			*t = filled
		}
	}
}

// expandTask expands a copy of a task: what it shares with the original is copied first.
func (f *expander) expandTask(t *jobspec.Task) {
	t.Template = false
	f.expandTexts(&t.Image, &t.Script, &t.User)
	t.Command = f.expandList(t.Command)
	env := make(map[string]string, len(t.Env))
	for k, v := range t.Env {
		f.expandTexts(&v)
		env[k] = v
	}
	t.Env = env
	t.Mounts = slices.Clone(t.Mounts)
	for i := range t.Mounts {
		f.expandTexts(&t.Mounts[i].Source, &t.Mounts[i].Target)
	}
	t.Secrets = slices.Clone(t.Secrets)
	for i := range t.Secrets {
		f.expandTexts(&t.Secrets[i].Source, &t.Secrets[i].File)
	}
	if t.Log != nil {
		l := *t.Log
		f.expandTexts(&l.Stdout, &l.Stderr)
		t.Log = &l
	}
	if t.Progress != nil {
		p := *t.Progress
		f.expandTexts(&p.File, &p.Pattern)
		t.Progress = &p
	}
}

func (f *expander) expandList(texts []string) []string {
	out := slices.Clone(texts)
	for i := range out {
		f.expandTexts(&out[i])
	}
	return out
}
