package script

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/jobfile"
)

var update = flag.Bool("update", false, "write the golden files anew")

// clock is a fixed time in a zone two hours ahead of UTC.
func clock() Clock {
	zone := time.FixedZone("test", 2*3600)
	return Clock{
		Now: time.Date(2026, 11, 21, 10, 0, 0, 0, zone).Unix(),
		Civil: func(at int64) Civil {
			t := time.Unix(at, 0).In(zone)
			return Civil{t.Year(), int(t.Month()), t.Day(), t.Hour(), t.Minute(), t.Second()}
		},
		At: func(c Civil) int64 {
			return time.Date(c.Year, time.Month(c.Month), c.Day, c.Hour, c.Minute, c.Second, 0, zone).Unix()
		},
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; look at the difference, then run with -update. Got:\n%s", file, got)
	}
}

// shown returns all results of a script: the problems, the job, and the script that it runs, when
// that has changed.
func shown(t *testing.T, name string, src []byte, r Result) string {
	t.Helper()
	out := r.Problems.Format(name)
	if r.Job == nil {
		return out
	}
	job, err := r.Job.Clone()
	if err != nil {
		t.Fatal(err)
	}
	task := &job.Groups[0].Tasks[0]
	script := task.Script
	task.Script = "(the script as it was submitted)"
	if script != string(src) {
		task.Script = "(below)"
	}
	b, err := json.MarshalIndent(job, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	out += string(b) + "\n"
	if task.Script == "(below)" {
		out += "--- script\n" + script
	}
	return out
}

func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/scripts/*.sh")
	if err != nil || len(files) < 40 {
		t.Fatalf("%d scripts, %v", len(files), err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(strings.TrimSuffix(name, ".sh"), func(t *testing.T) {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			r := Read(src, Options{Name: name, Dir: "/home/ada", Clock: clock()})
			golden(t, strings.TrimSuffix(file, ".sh")+".golden", shown(t, name, src, r))
			if r.Job == nil {
				t.Fatalf("there is no job: %s", r.Problems.Format(name))
			}
			sameAsFile(t, r.Job)
		})
	}
}

// sameAsFile checks that the job file of a job makes the same job.
func sameAsFile(t *testing.T, job *jobspec.Job) {
	t.Helper()
	text, err := jobfile.Write(job)
	if err != nil {
		t.Fatal(err)
	}
	back, diags := jobfile.Parse("job.hcl", text, jobfile.Options{})
	if diags.HasErrors() {
		t.Fatalf("%v\n%s", diags, text)
	}
	want, err := job.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	got, err := back.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("the job file makes another job\n got %s\nwant %s\n%s", got, want, text)
	}
}
