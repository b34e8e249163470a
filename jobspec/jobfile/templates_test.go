package jobfile

import (
	"strings"
	"testing"

	"github.com/rota-hpc/rota/jobspec/hclfile"
)

// TestTemplates wants every template to be a job file as it is, formatted, without warnings, and to
// say what it is for.
func TestTemplates(t *testing.T) {
	entries, err := templateFiles.ReadDir("templates")
	if err != nil || len(entries) != len(Templates()) {
		t.Fatalf("%d files for %d templates: %v", len(entries), len(Templates()), err)
	}
	for _, one := range Templates() {
		read, diags := Load(one.Name+".hcl", []byte(one.Text), Options{})
		if diags.HasErrors() || read.Warnings.HasErrors() {
			t.Errorf("%v\n%v", diags, read.Warnings)
		}
		if text, err := hclfile.Format(one.Name, []byte(one.Text)); err != nil || string(text) != one.Text {
			t.Errorf("%s is not formatted: %v\n%s", one.Name, err, text)
		}
		if one.Doc == "" || !strings.HasSuffix(one.Doc, ".") || strings.HasPrefix(one.Doc, "#") {
			t.Errorf("%s says %q", one.Name, one.Doc)
		}
	}
}
