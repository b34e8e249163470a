package rules_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/rules"
)

// readBack reads the constraints of a job in the form in which the state machine keeps them.
func readBack(t *testing.T, job *jobspec.Job) {
	t.Helper()
	for i := range job.Groups {
		for _, list := range [][]jobspec.Constraint{job.Constraints, job.Groups[i].Constraints} {
			for _, c := range list {
				if again, err := jobspec.ParseConstraint(c.String()); err != nil || again.String() != c.String() {
					t.Errorf("%v is read back as %v: %v", c, again, err)
				}
			}
		}
	}
}

// FuzzValidate takes jobs as a program may send them. Nothing panics, and defaults make no good job
// bad and no bad job good.
func FuzzValidate(f *testing.F) {
	names, err := filepath.Glob("../jobfile/testdata/ok/*.json")
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
	for _, r := range broken {
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
		before := rules.Validate(job)
		if scheduling := rules.ValidateScheduling(job); before == nil && scheduling != nil {
			t.Errorf("the state machine refuses what users may write: %v", scheduling)
		} else if scheduling == nil {
			readBack(t, job)
		}
		_ = rules.ValidateAt(job, 1<<30)
		_ = rules.Warnings(job)
		if job.Array != nil {
			e := job.Array.Elements()
			for i := range min(e.Len(), 10) {
				if n := e.Index(i); before == nil && (e.Ordinal(n) != i || len(e.Params(i)) != len(job.Array.Names())) {
					t.Errorf("element %d has index %d, which is element %d", i, n, e.Ordinal(n))
				}
			}
		}
		job.Default()
		if after := rules.Validate(job); (before == nil) != (after == nil) {
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

// FuzzTexts reads the small languages that stand in a job's texts. A text that is understood,
// written and read again means the same.
func FuzzTexts(f *testing.F) {
	for _, text := range []string{
		"2026-03-01T08:00:00Z", "2024-02-29t23:59:59.75+01:30", "top 25%", "top 4", "123_4", "train",
		"node.gpu.model glob \"h100*\"", "node.label.x in \"a\", \"b\"",
		"node.cores >= \"8\"", "node.label.driver version \">= 550, < 600\"", "gpu[01-04,07],login",
		`step (?P<step>\d+) loss (?P<loss>\S+)`, "7-9,4", "0-99:2%8",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if at, err := jobspec.ParseTime(text); err == nil {
			if again, err := jobspec.ParseTime(jobspec.FormatTime(at)); at >= 0 && at < 253402300800 &&
				(err != nil || again != at) {
				t.Errorf("%q is %d, which is written %s", text, at, jobspec.FormatTime(at))
			}
		}
		if keep, err := jobspec.ParseKeep(text); err == nil {
			for _, n := range []int{1, 3, jobspec.MaxElements} {
				if got := keep.Of(n); got < 1 || got > n {
					t.Errorf("%q keeps %d of %d", text, got, n)
				}
			}
		}
		if target, err := jobspec.ParseTarget(text); err == nil && (target.Name == "") == (target.ID < 1) {
			t.Errorf("%q means %+v", text, target)
		}
		if c, err := jobspec.ParseConstraint(text); err == nil {
			if condition, err := c.Compile(); err == nil {
				node := &jobspec.NodeFacts{Name: "gpu01", Cores: 8, GPUs: 2, Models: []string{"NVIDIA H100"},
					GPUMemory: []jobspec.Bytes{80 * jobspec.GiB}, Labels: map[string]string{"x": text}}
				_ = condition.Holds(node)
				if again, err := jobspec.ParseConstraint(condition.String()); err != nil || again.String() != condition.String() {
					t.Errorf("%q is written %s, which is read as %s, %v", text, condition, again, err)
				}
			}
		}
		if names, err := jobspec.ExpandNodes([]string{text}); err == nil && len(names) == 0 {
			t.Errorf("%q names no node", text)
		}
		if pattern, err := jobspec.CompileProgress(text); err == nil {
			if step, _, ok := pattern.Read("step 7 loss 0.5"); ok && step < 0 {
				t.Errorf("%q reads the step %d", text, step)
			}
		}
		array := &jobspec.Array{Indices: "3-20:2,40"}
		if spans, missing, err := array.Elements().Select(text); err == nil {
			found, last := 0, -1
			for _, s := range spans {
				if s.First <= last || s.Last < s.First || s.Last >= array.Len() {
					t.Fatalf("%q selects %v", text, spans)
				}
				found, last = found+s.Last-s.First+1, s.Last
			}
			if found+missing < 1 {
				t.Errorf("%q names %d elements and %d that are not there", text, found, missing)
			}
		}
	})
}
