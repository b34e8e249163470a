package present

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
)

// fill sets every field of a value, at any depth, each text to its own path.
func fill(v reflect.Value, path string, depth int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("<" + path + ">")
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint32:
		v.SetUint(1)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), path, depth)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), path, depth)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, path+".key", depth)
		fill(value, path, depth)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && depth < 8 {
				fill(v.Field(i), path+"."+f.Name, depth+1)
			}
		}
	}
}

// textsIn returns the paths of the texts that a value shows as JSON.
func textsIn(t *testing.T, v any) (paths []string) {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.Split(string(text), `\u003c`)[1:] {
		path, _, _ := strings.Cut(part, `\u003e`)
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// TestOthersSeeOnlyTheseTextsOfAJob: a user reads a job of another user. Whatever text a job has one
// day is hidden, or it is added here.
func TestOthersSeeOnlyTheseTextsOfAJob(t *testing.T) {
	job := new(api.Job)
	fill(reflect.ValueOf(job).Elem(), "", 0)
	if all := textsIn(t, job); len(all) < 80 || !slices.Contains(all, ".Spec.Groups.Tasks.Secrets.Source") {
		t.Fatalf("only %d texts are filled in: %v", len(all), all)
	}
	Redact(job, model.Reason{Code: model.ReasonLaunchFailure, Text: "<.Reason.Text>", Node: "n1"})
	want := []string{".Account", ".Array.Dropped", ".Array.Indices", ".Attempts.Cause", ".Attempts.ForAccount",
		".Attempts.ForUser", ".Attempts.Nodes", ".Attempts.OutputLostBy.Error", ".Attempts.OutputLostBy.Node",
		".Attempts.Rule", ".Attempts.Steps.Nodes", ".Attempts.Steps.OutputError", ".Attempts.Suspension.Cause",
		".Attempts.Trials.What", ".Basis", ".Class", ".Code",
		".Dependencies.Match", ".Dependencies.Type", ".Elastic.Text", ".Flags", ".Group.Name", ".Groups.Code",
		".Groups.Name", ".Name", ".Nodes", ".Queue", ".State", ".User"}
	if got := textsIn(t, job); !slices.Equal(got, want) {
		t.Errorf("others see %v, want %v", got, want)
	}
	if job.Metrics != nil || job.Reason.Text != "it could not be launched (n1)" {
		t.Errorf("%v, %q", job.Metrics, job.Reason.Text)
	}
}
