package jobspec_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/rota-hpc/rota/jobspec"
)

// FuzzValidate takes jobs as a program may send them: whatever they are, nothing panics, and defaults make no good job bad and no bad job
// good.
func FuzzValidate(f *testing.F) {
	names, err := filepath.Glob("jobfile/testdata/ok/*.json")
	if err != nil || len(names) == 0 {
		f.Fatalf("no jobs to begin with: %v", err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	for _, r := range rules {
		job := r.job()
		r.spoil(job)
		text, err := json.Marshal(job)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		job := &jobspec.Job{}
		if json.Unmarshal(text, job) != nil {
			return
		}
		before := job.Validate()
		_ = job.ValidateAt(1 << 30)
		_ = job.Warnings()
		if job.Array != nil {
			e := job.Array.Elements()
			for i := range min(e.Len(), 10) {
				if n := e.Index(i); before == nil && (e.Ordinal(n) != i || len(e.Params(i)) != len(job.Array.Names())) {
					t.Errorf("element %d has index %d, which is element %d", i, n, e.Ordinal(n))
				}
			}
		}
		job.Default()
		if after := job.Validate(); (before == nil) != (after == nil) {
			t.Errorf("before: %v\nwith defaults: %v", before, after)
		}
		once, err := json.Marshal(job)
		if err != nil {
			t.Fatal(err)
		}
		job.Default()
		if twice, _ := json.Marshal(job); string(once) != string(twice) {
			t.Errorf("defaults twice:\n%s\n%s", once, twice)
		}
	})
}
