package jobfile

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/hclfile/diagnostic"
	"github.com/rota-hpc/rota/jobspec/rules"
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
	for _, name := range append(files(t, "testdata/ok/*.hcl"), files(t, "testdata/ok/*.hcl.json")...) {
		t.Run(filepath.Base(name), func(t *testing.T) {
			src, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			job, diags := Parse(filepath.Base(name), src, optionsOf(src))
			if diags.HasErrors() {
				t.Fatalf("refused:\n%v", diags)
			}
			if problems := rules.Validate(job); problems != nil {
				t.Errorf("with its defaults the job breaks rules: %v", problems)
			}
			text, err := json.MarshalIndent(job, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, strings.TrimSuffix(strings.TrimSuffix(name, ".json"), ".hcl")+".json", append(text, '\n'))
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

// TestWarnings compares everything that is said about files that are accepted with a shake of the
// head.
func TestWarnings(t *testing.T) {
	for _, name := range files(t, "testdata/warn/*.hcl") {
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		read, diags := Load(filepath.Base(name), src, optionsOf(src))
		if diags.HasErrors() || read.Job == nil || len(read.Warnings) == 0 {
			t.Fatalf("%s: %v, warnings %v", name, diags, read.Warnings)
		}
		var text bytes.Buffer
		if err := read.Warnings.WriteText(&text, false); err != nil {
			t.Fatal(err)
		}
		golden(t, strings.TrimSuffix(name, ".hcl")+".txt", text.Bytes())
	}
}

// codesOf finds the codes that a package declares, by its source.
func codesOf(t *testing.T, pattern string) []string {
	t.Helper()
	var found []string
	declared := regexp.MustCompile(`(?m)^\tCode\w+ *= "(JS-\d{3})"`)
	for _, name := range files(t, pattern) {
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range declared.FindAllStringSubmatch(string(src), -1) {
			found = append(found, m[1])
		}
	}
	return found
}

// allCodes are those that a job file can be refused with, or warned of.
func allCodes(t *testing.T) []string {
	t.Helper()
	codes := append(codesOf(t, "../*.go"), codesOf(t, "../hclfile/*.go")...)
	slices.Sort(codes)
	if codes = slices.Compact(codes); len(codes) < 25 {
		t.Fatalf("only %d codes found", len(codes))
	}
	return codes
}

// TestEveryCodeHasAGolden fails when a message was never looked at.
func TestEveryCodeHasAGolden(t *testing.T) {
	var all strings.Builder
	for _, name := range append(files(t, "testdata/bad/*.txt"), files(t, "testdata/warn/*.txt")...) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	for _, code := range allCodes(t) {
		if !strings.Contains(all.String(), "("+code+")") {
			t.Errorf("no file in testdata/bad is refused with %s", code)
		}
	}
	if diagnostic.CodeUnsupported != jobspec.CodeUnsupported {
		t.Errorf("two codes for unsupported parts: %s and %s", diagnostic.CodeUnsupported, jobspec.CodeUnsupported)
	}
}
