package jobfile

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/rules"
)

// FuzzParse wants every file either refused with a place and a code, or turned into a job that
// meets its own rules.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/ok/*.hcl", "testdata/bad/*.hcl"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, name := range names {
			src, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(src)
		}
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		start := time.Now()
		job, diags := Parse("fuzz.hcl", src, testOptions())
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("parsing %d bytes took %v", len(src), took)
		}
		if diags.HasErrors() != (job == nil) {
			t.Fatalf("job %v with diagnostics %v", job, diags)
		}
		for _, d := range diags {
			if d.Code == "" || d.Text == "" || d.File == "" {
				t.Errorf("a diagnostic without code, text or file: %+v", d)
			}
		}
		if err := diags.WriteText(&strings.Builder{}, true); err != nil {
			t.Error(err)
		}
		if job == nil {
			return
		}
		if problems := rules.Validate(job); problems != nil {
			t.Errorf("the defaults break rules: %v", problems)
		}
		text, err := json.Marshal(job)
		if err != nil {
			t.Fatal(err)
		}
		again := &jobspec.Job{}
		if err := json.Unmarshal(text, again); err != nil {
			t.Fatal(err)
		}
		again.Default()
		writtenAgain(t, job)
		if second, _ := json.Marshal(again); string(second) != string(text) {
			t.Errorf("the canonical form changes when it is read again:\n%s\n%s", text, second)
		}
	})
}

// writtenAgain wants a job that was read to survive being written, unless no file can say it.
func writtenAgain(t *testing.T, job *jobspec.Job) {
	t.Helper()
	src, err := Write(job)
	if errors.Is(err, ErrNotWritable) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	opts := Options{}
	if job.Array != nil {
		opts.ReadFile = func(string) ([]byte, error) { return writeParams(job.Array) }
	}
	back, diags := Parse("job.hcl", src, opts)
	if diags.HasErrors() {
		t.Fatalf("%v\n%s", diags, src)
	}
	want, err := job.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := back.Canonical(); string(got) != string(want) {
		t.Errorf("written:\n%s\ngot:\n%s\nwant:\n%s", src, got, want)
	}
}

// BenchmarkParse is the time that a submission spends on a typical file.
func BenchmarkParse(b *testing.B) {
	src, err := os.ReadFile("testdata/ok/try.hcl")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, diags := Parse("try.hcl", src, Options{}); diags.HasErrors() {
			b.Fatal(diags)
		}
	}
}
