package jobfile

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/template"
)

// again writes a job and reads it back.
func again(t *testing.T, job *jobspec.Job) ([]byte, []byte) {
	t.Helper()
	src, err := Write(job)
	if err != nil {
		t.Fatal(err)
	}
	params := func(string) ([]byte, error) { return writeParams(job.Array) }
	read, diags := Parse("job.hcl", src, Options{ReadFile: params})
	if diags.HasErrors() {
		t.Fatalf("%v\n%s", diags, src)
	}
	text, err := read.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	return src, text
}

// TestWrite writes every good job of testdata and wants the very same job back.
func TestWrite(t *testing.T) {
	for _, name := range append(files(t, "testdata/ok/*.hcl"), files(t, "../../examples/*.hcl")...) {
		t.Run(filepath.Base(name), func(t *testing.T) {
			src, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			opts := optionsOf(src)
			opts.Getenv = func(name string) (string, bool) {
				if name == "ROTA_VAR_dir" {
					return "/shared/x", true
				}
				v, ok := environment[name]
				return v, ok
			}
			if strings.Contains(name, "examples") {
				opts.Dir = filepath.Dir(name)
			}
			job, diags := Parse(name, src, opts)
			if diags.HasErrors() {
				t.Fatal(diags)
			}
			want, err := job.Canonical()
			if err != nil {
				t.Fatal(err)
			}
			written, got := again(t, job)
			if string(got) != string(want) {
				t.Errorf("the job has changed\nwritten:\n%s\ngot:\n%s\nwant:\n%s", written, got, want)
			}
			if strings.Contains(name, "testdata") {
				golden(t, "testdata/written/"+filepath.Base(name), written)
			}
		})
	}
}

// TestWriteTexts puts texts of random pieces in every place where a text may stand, with and
// without references around.
func TestWriteTexts(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 500 {
		job := randomTexts(random)
		want, err := job.Canonical()
		if err != nil {
			t.Fatal(err)
		}
		if written, got := again(t, job); string(got) != string(want) {
			t.Fatalf("the job has changed\nwritten:\n%s\ngot:\n%s\nwant:\n%s", written, got, want)
		}
	}
}

func randomTexts(random *rand.Rand) *jobspec.Job {
	pieces := []string{
		"$", "$$", "%", "%%", "{", "}", "${", "%{", "${HOME}", "$${", "%%{", "${job.id}", "$${array.index}", `"`, `\`, "\\n",
		"\n", "\r\n", "\t", " ", "a", "é",
		"世界", "EOT", "\nEOT\n", "\n  EOT\n", "#", "//", "/*", "'", "<<EOT", "\u200b", "\x01", "\x7f", "${local.x}", "~}",
		"${~ var.x ~}", "\U0001f600",
	}
	isTemplate := random.IntN(2) == 0
	text := func(mayDefer bool) string {
		var b template.Builder
		plain := ""
		for range 1 + random.IntN(9) {
			if mayDefer && isTemplate && random.IntN(4) == 0 {
				b.Reference(template.Names()[random.IntN(len(template.Names()))])
				continue
			}
			piece := pieces[random.IntN(len(pieces))]
			b.Literal(piece)
			plain += piece
		}
		if mayDefer && isTemplate {
			return b.String()
		}
		return plain
	}
	task := jobspec.Task{
		Name: "t", Command: []string{"run", text(true), text(true)},
		Env: map[string]string{"A": text(true), "_B": text(true)}, Template: isTemplate,
		Mounts: []jobspec.Mount{{Source: path.Clean("/a/" + text(true)),
			Target: path.Clean("/b/" + strings.ReplaceAll(text(false), "{", ""))}},
	}
	if random.IntN(2) == 0 {
		task.Command, task.Script = nil, text(true)+text(true)+"\n"
	}
	if isTemplate {
		task.Env["REF"] = "${worker.index}"
	}
	return &jobspec.Job{
		Name: "a", Description: new(text(false)), Comment: new(text(false)),
		Meta: map[string]string{"k": text(false)}, Workdir: "/" + text(false),
		Array:       &jobspec.Array{Matrix: []jobspec.Axis{{Name: "p", Values: []string{text(false), text(false)}}}},
		LogPolicies: []jobspec.LogPolicy{{Name: "l", Pattern: "x", Action: "event"}},
		Groups:      []jobspec.Group{{Tasks: []jobspec.Task{task}}},
	}
}

// writeParams writes the parameters of an array as the file that they are read from.
func writeParams(a *jobspec.Array) ([]byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	for _, row := range append([][]string{a.Columns}, a.Rows...) {
		if len(row) == 1 && row[0] == "" { // an empty line would be passed over
			w.Flush()
			b.WriteString("\"\"\n")
			continue
		}
		if err := w.Write(row); err != nil {
			return nil, fmt.Errorf("write %s: %w", ParamsFile, err)
		}
	}
	w.Flush()
	return b.Bytes(), w.Error()
}

// TestWriteParams brings every value back.
func TestWriteParams(t *testing.T) {
	for _, a := range []*jobspec.Array{
		{Columns: []string{"a"}, Rows: [][]string{{""}, {"x"}, {" y "}, {"\"q\""}, {"a,b\nc"}}},
		{Columns: []string{"a", "b"}, Rows: [][]string{{"", ""}, {"1", " "}}},
	} {
		job := &jobspec.Job{Name: "a", Array: a,
			Groups: []jobspec.Group{{Tasks: []jobspec.Task{{Name: "t", Command: []string{"true"}}}}}}
		want, err := job.Canonical()
		if err != nil {
			t.Fatal(err)
		}
		if _, got := again(t, job); string(got) != string(want) {
			t.Errorf("got:\n%s\nwant:\n%s", got, want)
		}
	}
}

// TestNotWritable wants an error for what only a program can ask for.
func TestNotWritable(t *testing.T) {
	job := &jobspec.Job{Name: "a", Meta: map[string]string{"7.a": "x"},
		Groups: []jobspec.Group{{Tasks: []jobspec.Task{{Name: "t", Command: []string{"true"}}}}}}
	if _, err := Write(job); !errors.Is(err, ErrNotWritable) || !strings.Contains(fmt.Sprint(err), "7.a") {
		t.Errorf("%v", err)
	}
}

// TestWriteLeavesTheJob wants a job to be the same after it was written.
func TestWriteLeavesTheJob(t *testing.T) {
	job := &jobspec.Job{Name: "a",
		Groups: []jobspec.Group{{Tasks: []jobspec.Task{{Name: "t", Command: []string{"true"}}}}}}
	before, _ := json.Marshal(job)
	src, err := Write(job)
	if err != nil {
		t.Fatal(err)
	}
	if after, _ := json.Marshal(job); string(before) != string(after) {
		t.Errorf("%s has become %s", before, after)
	}
	if want := "job \"a\" {\n  task \"t\" {\n    command = [\"true\"]\n  }\n}\n"; string(src) != want {
		t.Errorf("got:\n%s\nwant:\n%s", src, want)
	}
}
