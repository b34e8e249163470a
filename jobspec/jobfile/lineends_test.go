package jobfile

import (
	"bytes"
	"testing"
)

// TestLineEndsOfWindows reads files as editors under Windows save them. A shell would take the
// carriage returns of a script for a part of its words, so the job has none.
func TestLineEndsOfWindows(t *testing.T) {
	windows := func(text string) []byte {
		return append([]byte("\ufeff"), bytes.ReplaceAll([]byte(text), []byte("\n"), []byte("\r\n"))...)
	}
	const script = "#!/bin/bash\necho a\n"
	opts := Options{ReadFile: func(string) ([]byte, error) { return windows(script), nil }}
	for name, file := range map[string]string{
		"heredoc":     "job \"a\" {\n  task \"t\" {\n    script = <<-EOT\n      #!/bin/bash\n      echo a\n    EOT\n  }\n}\n",
		"script_file": "job \"a\" {\n  task \"t\" {\n    script_file = \"a.sh\"\n  }\n}\n",
	} {
		job, diags := Parse("job.hcl", windows(file), opts)
		if diags.HasErrors() {
			t.Fatalf("%s: %v", name, diags)
		}
		if got := job.Groups[0].Tasks[0].Script; got != script {
			t.Errorf("%s: got the script %q, want %q", name, got, script)
		}
	}
	_, diags := Parse("job.hcl", windows("job \"a\" {\n\n  prioritty = 3\n}\n"), opts)
	if len(diags) == 0 || diags[0].Start.Line != 3 || diags[0].Start.Column != 3 || diags[0].Line != "  prioritty = 3" {
		t.Errorf("a mistake is shown at another place: %+v", diags)
	}
}
