package jobspec

import (
	"fmt"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/jobspec/template"
)

// Texts yields every text of the task that may hold references when [Task.Template] is set, with its place in the task's JSON. What is
// written to the text changes the task.
func (t *Task) Texts() iter.Seq2[string, *string] {
	return func(yield func(string, *string) bool) {
		_ = yield("image", &t.Image) && yield("script", &t.Script) && each("command", t.Command, yield) && t.envTexts(yield) &&
			t.fileTexts(yield) && t.reportTexts(yield)
	}
}

func each(where string, list []string, yield func(string, *string) bool) bool {
	for i := range list {
		if !yield(at(where, i), &list[i]) {
			return false
		}
	}
	return true
}

func (t *Task) envTexts(yield func(string, *string) bool) bool {
	for _, key := range sortedKeys(t.Env) {
		value := t.Env[key]
		more := yield("env."+key, &value)
		if value != t.Env[key] {
			t.Env[key] = value
		}
		if !more {
			return false
		}
	}
	return true
}

func (t *Task) fileTexts(yield func(string, *string) bool) bool {
	for i := range t.Mounts {
		if where := at("mounts", i); !yield(where+".source", &t.Mounts[i].Source) || !yield(where+".target", &t.Mounts[i].Target) {
			return false
		}
	}
	for i := range t.Secrets {
		if where := at("secrets", i); !yield(where+".source", &t.Secrets[i].Source) || !yield(where+".file", &t.Secrets[i].File) {
			return false
		}
	}
	return true
}

func (t *Task) reportTexts(yield func(string, *string) bool) bool {
	if t.Log != nil && (!yield("log.stdout", &t.Log.Stdout) || !yield("log.stderr", &t.Log.Stderr)) {
		return false
	}
	return t.Progress == nil || yield("progress.file", &t.Progress.File) && yield("progress.pattern", &t.Progress.Pattern)
}

// references checks that what a template refers to will have a value, and the one that is meant.
func (c *checker) references(where string, t *Task, g *Group, a *Array) {
	if !t.Template {
		return
	}
	for place, text := range t.Texts() {
		for _, name := range template.References(*text) {
			if g.loose() {
				c.looseReference(where+"."+place, name)
			} else {
				c.reference(where+"."+place, name, a)
			}
		}
		if inContainer(place) && len(template.References(*text)) > 0 {
			c.add(CodePath, where+"."+place, "write the path out", "a path in the container cannot depend on a value that is only known once the job runs")
		}
	}
}

// inContainer reports whether a text is a path that was checked against what the container needs, which a value could undo.
func inContainer(place string) bool {
	field := path.Ext(place)
	return strings.HasPrefix(place, "mounts[") && field == ".target" || strings.HasPrefix(place, "secrets[") && field == ".file"
}

// looseReference checks a reference of a worker that starts by itself. It is an element of an array, and its number is the element's index.
func (c *checker) looseReference(where, name string) {
	switch name {
	case "worker.index":
		c.add(CodeConflict, where, "write array.index", "${worker.index} is 0 for all of them: without gang every worker is an element of an array, with a group of its own")
	case "worker.count":
		c.add(CodeConflict, where, "write the number", "${worker.count} is 1 for all of them: without gang every worker is an element of an array, with a group of its own")
	default:
		c.reference(where, name, &Array{})
	}
}

func (c *checker) reference(where, name string, a *Array) {
	parameter, isArray := strings.CutPrefix(name, "array.")
	switch {
	case !isArray:
		return
	case a == nil:
		c.add(CodeNoParameter, where, "add array { indices = \"0-9\" }", "${%s} has no value: the job is no array", name)
	case parameter != "index" && !slices.Contains(a.Names(), parameter):
		known := append([]string{"index"}, a.Names()...)
		hint := didYouMean(parameter, known)
		if hint == "" {
			hint = fmt.Sprintf("the array has %s", strings.Join(known, ", "))
		}
		c.add(CodeNoParameter, where, hint, "${%s} has no value: the array has no parameter %q", name, parameter)
	}
}
