package jobfile

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/hclfile"
)

var update = flag.Bool("update", false, "write the golden files anew; read the difference before committing it")

// environment is what the files in testdata may see.
var environment = map[string]string{"ROTA_VAR_from_env": "7", "ALLOWED": "yes", "FORBIDDEN": "no"}

func testOptions() Options {
	return Options{
		Vars:     map[string]string{},
		Getenv:   func(name string) (string, bool) { v, ok := environment[name]; return v, ok },
		AllowEnv: []string{"ALLOWED", "UNSET"},
		Dir:      "testdata/files",
		Now:      func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) },
		NewUUID:  func() string { return "00000000-0000-4000-8000-000000000000" },
	}
}

// options adds what a file's first comments ask for: "# -var a=1".
func optionsOf(src []byte) Options {
	opts := testOptions()
	for line := range strings.Lines(string(src)) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "# -var "); ok {
			name, value, _ := strings.Cut(text, "=")
			opts.Vars[name] = value
		}
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "# -var-file "); ok {
			opts.VarFiles = append(opts.VarFiles, text)
		}
	}
	return opts
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (go test -update writes it anew)\ngot:\n%s\nwant:\n%s", name, got, want)
	}
}

func files(t *testing.T, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("no files match %s: %v", pattern, err)
	}
	return names
}

// TestOK compares the canonical form of every good file with the one that was reviewed.
func TestOK(t *testing.T) {
	for _, name := range files(t, "testdata/ok/*.hcl") {
		t.Run(filepath.Base(name), func(t *testing.T) {
			src, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			job, diags := Parse(filepath.Base(name), src, optionsOf(src))
			if diags.HasErrors() {
				t.Fatalf("refused:\n%v", diags)
			}
			if problems := job.Validate(); problems != nil {
				t.Errorf("with its defaults the job breaks rules: %v", problems)
			}
			text, err := json.MarshalIndent(job, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, strings.TrimSuffix(name, ".hcl")+".json", append(text, '\n'))
		})
	}
}

// TestBad compares everything that is said about every bad file.
func TestBad(t *testing.T) {
	for _, name := range files(t, "testdata/bad/*.hcl") {
		t.Run(filepath.Base(name), func(t *testing.T) {
			src, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			job, diags := Parse(filepath.Base(name), src, optionsOf(src))
			if !diags.HasErrors() || job != nil {
				t.Fatalf("a bad file was accepted")
			}
			var text bytes.Buffer
			if err := diags.WriteText(&text, false); err != nil {
				t.Fatal(err)
			}
			golden(t, strings.TrimSuffix(name, ".hcl")+".txt", text.Bytes())
		})
	}
}

// codes are all that a job file can be refused with.
var codes = []string{
	hclfile.CodeSyntax, hclfile.CodeEncoding, hclfile.CodeLimit, hclfile.CodeUnknownName, hclfile.CodeDuplicate, hclfile.CodeMissing,
	hclfile.CodeLabels, hclfile.CodeForm, hclfile.CodeType, hclfile.CodeNoUnit, hclfile.CodeQuantity, hclfile.CodeRange, hclfile.CodeValue,
	hclfile.CodeReference, hclfile.CodeFunction, hclfile.CodeExpression, hclfile.CodeDeferred, hclfile.CodeCycle, hclfile.CodeVariable,
	hclfile.CodeVariableValue, hclfile.CodeVariableRule, hclfile.CodeNoVariable, hclfile.CodeVariableFile, hclfile.CodeUnsupported,
	jobspec.CodeRequired, jobspec.CodeName, jobspec.CodeRange, jobspec.CodeChoice, jobspec.CodePath, jobspec.CodeProgram,
	jobspec.CodeConflict, jobspec.CodeTooLarge, jobspec.CodeSignal, jobspec.CodeText, jobspec.CodeDuplicate,
}

// TestEveryCodeHasAGolden fails when a message was never looked at.
func TestEveryCodeHasAGolden(t *testing.T) {
	var all strings.Builder
	for _, name := range files(t, "testdata/bad/*.txt") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	for _, code := range codes {
		if !strings.Contains(all.String(), "("+code+")") {
			t.Errorf("no file in testdata/bad is refused with %s", code)
		}
	}
	if hclfile.CodeUnsupported != jobspec.CodeUnsupported {
		t.Errorf("two codes for unsupported parts: %s and %s", hclfile.CodeUnsupported, jobspec.CodeUnsupported)
	}
}

// TestEveryRefusalIsByName writes every part that is not supported yet where it would stand, and wants it refused there by its name.
func TestEveryRefusalIsByName(t *testing.T) {
	around := map[string][2]string{
		"job":        {"job \"a\" {\n", "\ntask \"t\" { command = [\"true\"] }\n}"},
		"group":      {"job \"a\" {\ngroup \"g\" {\n", "\ntask \"t\" { command = [\"true\"] }\n}\n}"},
		"task":       {"job \"a\" {\ntask \"t\" {\ncommand = [\"true\"]\n", "\n}\n}"},
		"checkpoint": {"job \"a\" {\ncheckpoint {\n", "\n}\ntask \"t\" { command = [\"true\"] }\n}"},
		"preemption": {"job \"a\" {\npreemption {\n", "\n}\ntask \"t\" { command = [\"true\"] }\n}"},
		"resources":  {"job \"a\" {\ntask \"t\" {\ncommand = [\"true\"]\nresources {\n", "\n}\n}\n}"},
		"gpu":        {"job \"a\" {\ntask \"t\" {\ncommand = [\"true\"]\nresources {\ngpu {\n", "\n}\n}\n}\n}"},
		"mount":      {"job \"a\" {\ntask \"t\" {\ncommand = [\"true\"]\nmount {\nsource = \"/a\"\ntarget = \"/a\"\n", "\n}\n}\n}"},
		"progress":   {"job \"a\" {\ntask \"t\" {\ncommand = [\"true\"]\nprogress {\n", "\n}\n}\n}"},
	}
	for _, s := range sections() {
		for _, name := range s.refused() {
			where, known := around[s.name]
			if !known {
				t.Fatalf("section %s has refusals but no surroundings in this test", s.name)
			}
			for _, form := range []string{name + " = \"x\"", name + " {\n}", name + " \"label\" {\n}"} {
				_, diags := Parse("f.hcl", []byte(where[0]+form+where[1]), Options{})
				ok := false
				for _, d := range diags {
					ok = ok || d.Code == hclfile.CodeUnsupported && strings.Contains(d.Text, name+" is not supported yet") && d.Hint != ""
					ok = ok || d.Code == hclfile.CodeForm && strings.Contains(d.Text, name)
				}
				if !ok {
					t.Errorf("%s in %s: not refused by name: %v", form, s.name, diags)
				}
			}
		}
	}
}
