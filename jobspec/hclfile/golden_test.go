package hclfile_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/jobspec/hclfile"
	"github.com/rota-hpc/rota/jobspec/hclfile/diagnostic"
)

// optionsOf adds what a file's comments ask for: "# -var a=1" and "# -var-file x"; in JSON, the
// values of "//" are the comments.
func optionsOf(src []byte) hclfile.Options {
	opts := options()
	for line := range strings.Lines(string(src)) {
		line = strings.TrimSpace(line)
		if text, ok := strings.CutPrefix(line, "# -var "); ok {
			name, value, _ := strings.Cut(text, "=")
			opts.Vars[name] = value
		}
		if text, ok := strings.CutPrefix(line, "# -var-file "); ok {
			opts.VarFiles = append(opts.VarFiles, text)
		}
		if text, ok := strings.CutPrefix(line, "# -auto-file "); ok {
			opts.AutoFiles = append(opts.AutoFiles, text)
		}
	}
	return opts
}

// TestOK compares what every good file says with what was reviewed, and its JSON twin with that.
func TestOK(t *testing.T) {
	for _, name := range files(t, "testdata/ok/*.hcl") {
		t.Run(filepath.Base(name), func(t *testing.T) {
			src := read(t, name)
			opts := optionsOf(src)
			text := mustLoad(t, filepath.Base(name), string(src), opts)
			golden(t, strings.TrimSuffix(name, ".hcl")+".out", []byte(text))
			twin, err := os.ReadFile(name + ".json")
			if errors.Is(err, fs.ErrNotExist) {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if other := mustLoad(t, filepath.Base(name)+".json", string(twin), opts); other != text {
				t.Errorf("in JSON it says\n%s\nwhere HCL says\n%s", other, text)
			}
		})
	}
}

// TestBad compares everything that is said about every bad file, for people and for editors.
func TestBad(t *testing.T) {
	names := append(files(t, "testdata/bad/*.hcl"), files(t, "testdata/bad/*.json")...)
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			src := read(t, name)
			_, _, diags := load(filepath.Base(name), src, optionsOf(src))
			if !diags.HasErrors() {
				t.Fatal("a bad file was accepted")
			}
			var text bytes.Buffer
			if err := diags.WriteText(&text, false); err != nil {
				t.Fatal(err)
			}
			golden(t, name+".txt", text.Bytes())
			if filepath.Base(name) == "report.hcl" {
				golden(t, name+".report", []byte(toJSON(t, diags.Report())))
			}
		})
	}
}

// TestEveryCodeHasAGolden fails when a message was never looked at.
func TestEveryCodeHasAGolden(t *testing.T) {
	var all strings.Builder
	for _, name := range files(t, "testdata/bad/*.txt") {
		all.Write(read(t, name))
	}
	for _, code := range []string{
		diagnostic.CodeSyntax, diagnostic.CodeEncoding, diagnostic.CodeLimit, diagnostic.CodeUnknownName,
		diagnostic.CodeDuplicate, diagnostic.CodeMissing,
		diagnostic.CodeLabels, diagnostic.CodeForm, diagnostic.CodeType, diagnostic.CodeNoUnit, diagnostic.CodeQuantity,
		diagnostic.CodeRange, diagnostic.CodeValue,
		diagnostic.CodeReference, diagnostic.CodeFunction, diagnostic.CodeExpression, diagnostic.CodeDeferred,
		diagnostic.CodeCycle, diagnostic.CodeDeferredUse,
		diagnostic.CodeDynamic, diagnostic.CodeVariable, diagnostic.CodeVariableValue, diagnostic.CodeVariableRule,
		diagnostic.CodeNoVariable,
		diagnostic.CodeVariableFile, diagnostic.CodeUnsupported,
	} {
		if !strings.Contains(all.String(), "("+code+")") {
			t.Errorf("no file in testdata/bad is refused with %s", code)
		}
	}
}
