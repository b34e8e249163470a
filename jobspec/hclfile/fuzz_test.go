package hclfile_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/jobspec/hclfile"
	"github.com/rota-hpc/rota/jobspec/template"
)

// FuzzLoad wants every file, in HCL and in JSON, to be read or refused with places in it, soon, and no secret to be shown.
func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"testdata/*/*.hcl", "testdata/*/*.json"} {
		for _, name := range files(f, pattern) {
			f.Add(read(f, name))
		}
	}
	f.Add([]byte("variable \"s\" {\nsensitive = true\ndefault = \"x-SECRET-x\"\n}\njob \"a\" { count = var.s }"))
	f.Fuzz(func(t *testing.T, src []byte) {
		name := "f.hcl"
		if hclfile.IsJSON(name, src) {
			name = "f.json"
		}
		opts := options()
		opts.Vars = nil
		start := time.Now()
		w, result, diags := load(name, src, opts)
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%d bytes took %v", len(src), took)
		}
		lines := strings.Count(string(src), "\n") + 1
		for _, d := range diags {
			if d.Code == "" || d.Text == "" || d.File == "" || d.File == name && (d.Start.Line > lines || d.Start.Line < 1 || d.Start.Column < 1) {
				t.Errorf("a diagnostic without its place: %+v", d)
			}
		}
		if err := diags.WriteText(&strings.Builder{}, true); err != nil {
			t.Error(err)
		}
		if _, err := json.Marshal(diags.Report()); err != nil {
			t.Error(err)
		}
		result.At("tasks[0].command[3]", "JS-999", "text", "hint")
		if !diags.HasErrors() {
			checkTemplates(t, w, result)
		}
	})
}

// checkTemplates wants every reference that was kept to be found in a template again.
func checkTemplates(t *testing.T, w *workload, result *hclfile.Result) {
	t.Helper()
	templates := 0
	for _, task := range w.Tasks {
		if !task.Template {
			continue
		}
		templates++
		for _, text := range append([]string{task.Script}, task.Command...) {
			if _, err := template.Expand(text, func(string) (string, bool) { return "v", true }); err != nil {
				t.Errorf("%q: %v", text, err)
			}
		}
	}
	if len(result.References()) > 0 && templates == 0 {
		t.Errorf("references %v in no template", result.References())
	}
}
