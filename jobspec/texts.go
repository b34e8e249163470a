package jobspec

import (
	"iter"
	"maps"
	"slices"
	"strconv"
)

// Texts yields every text of the task that may hold references when [Task.Template] is set, with
// its place in the task's JSON. Writing to the text changes the task.
func (t *Task) Texts() iter.Seq2[string, *string] {
	return func(yield func(string, *string) bool) {
		_ = yield("image", &t.Image) && yield("script", &t.Script) && each("command", t.Command, yield) &&
			t.envTexts(yield) &&
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
	for _, key := range slices.Sorted(maps.Keys(t.Env)) {
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
		if where := at("mounts", i); !yield(where+".source", &t.Mounts[i].Source) ||
			!yield(where+".target", &t.Mounts[i].Target) {
			return false
		}
	}
	for i := range t.Secrets {
		if where := at("secrets", i); !yield(where+".source", &t.Secrets[i].Source) ||
			!yield(where+".file", &t.Secrets[i].File) {
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

func at(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
