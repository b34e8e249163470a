package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/jobspec/jobfile"
)

func TestFmt(t *testing.T) {
	dir := t.TempDir()
	bad, good, broken := filepath.Join(dir, "a.hcl"), filepath.Join(dir, "b.hcl"), filepath.Join(t.TempDir(), "c.hcl")
	text := "job \"a\" {\n  task \"t\" {\n    command = [\"true\"]\n  }\n}\n"
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	write(bad, strings.ReplaceAll(text, "  ", "      "))
	write(good, text)
	write(broken, "job \"a\" {")
	s := session{t: t}
	if got := s.run("fmt", "--check", dir); got.code != exitFailed || got.stdout != bad+"\n" {
		t.Errorf("%+v", got)
	}
	if got := s.run("fmt", dir); got.code != 0 || got.stdout != bad+"\n" {
		t.Errorf("%+v", got)
	}
	if b, err := os.ReadFile(bad); err != nil || string(b) != text {
		t.Errorf("%q, %v", b, err)
	}
	if info, err := os.Stat(bad); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", info, err)
	}
	if got := s.run("fmt", "--check", dir); got.code != 0 || got.stdout != "" {
		t.Errorf("%+v", got)
	}
	if got := s.run("fmt", broken); got.code != exitUsage || !strings.Contains(got.stderr, "c.hcl:1:") {
		t.Errorf("%+v", got)
	}
	if got := s.run("fmt", t.TempDir()); got.code != exitUsage {
		t.Errorf("%+v", got)
	}
	if rest, _ := filepath.Glob(filepath.Join(dir, ".rota*")); len(rest) > 0 {
		t.Errorf("left behind: %v", rest)
	}
}

func TestParse(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.hcl")
	text := `variable "token" {
  type      = string
  sensitive = true
  default   = "s3cret"
}
job "a" {
  task "t" {
    command = ["true", "--token", var.token]
    env {
      TOKEN = var.token
      PLAIN = "yes"
    }
  }
}
`
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := session{t: t}
	got := s.run("parse", name)
	if got.code != 0 || strings.Contains(got.stdout, "s3cret") || strings.Count(got.stdout, concealed) != 2 || !strings.Contains(got.stdout, `"PLAIN": "yes"`) {
		t.Errorf("%+v", got)
	}
	if got := s.run("parse", name, "--sensitive", "-o", "yaml"); got.code != 0 || !strings.Contains(got.stdout, "TOKEN: s3cret\n") {
		t.Errorf("%+v", got)
	}
	if got := s.run("validate", name, "-o", "json"); got.code != 0 || strings.Contains(got.stdout, "s3cret") || strings.Count(got.stdout, concealed) != 2 {
		t.Errorf("%+v", got)
	}
	one, two := s.run("parse", name, "--digest"), s.run("parse", name, "--digest", "-var", "token=other")
	if len(one.stdout) != 65 || one.stdout == two.stdout {
		t.Errorf("%+v and %+v", one, two)
	}
}

func TestWarnings(t *testing.T) {
	name := jobFile(t, "job \"big\" {\n  class      = \"te\"\n  time_limit = \"5h\"\n\n  task \"t\" {\n    command = [\"true\"]\n  }\n}\n")
	a := newAnswers(t)
	a.give("POST /v1/jobs", api.SubmitResponse{IDs: []cluster.JobID{17}})
	a.give("POST /v1/plan", api.PlanResponse{Starts: true})
	s := session{t: t, addr: a.URL}
	for _, command := range []string{"validate", "submit", "plan", "parse"} {
		got := s.run(command, name)
		if got.code != 0 || !strings.Contains(got.stderr, "JS-190") || !strings.Contains(got.stderr, "job.hcl:3:") || strings.Contains(got.stdout, "JS-190") {
			t.Errorf("%s: %+v", command, got)
		}
	}
	var report struct {
		Files []struct{ Diagnostics []struct{ Severity int } }
	}
	got := s.run("validate", "-o", "json", name)
	if err := json.Unmarshal([]byte(got.stderr), &report); err != nil || len(report.Files) != 1 || report.Files[0].Diagnostics[0].Severity != 2 {
		t.Errorf("%v in %+v", err, got)
	}
	got = s.run("validate", "-o", "json", jobFile(t, "job \"big\" {}\n"))
	if err := json.Unmarshal([]byte(got.stderr), &report); err != nil || len(report.Files) != 1 || report.Files[0].Diagnostics[0].Severity != 1 {
		t.Errorf("%v in %+v", err, got)
	}
	if got := s.run("validate", name, "--color", "always"); !strings.Contains(got.stderr, "\x1b[") {
		t.Errorf("--color always: %+v", got)
	}
	if got := s.run("validate", name, "--color", "sometimes"); got.code != exitUsage {
		t.Errorf("%+v", got)
	}
}

func TestInit(t *testing.T) {
	t.Chdir(t.TempDir())
	s := session{t: t}
	for _, one := range jobfile.Templates() {
		file := one.Name + ".hcl"
		if got := s.run("init", file, "--template", one.Name); got.code != 0 {
			t.Errorf("%+v", got)
		}
		if got := s.run("validate", file); got.code != 0 {
			t.Errorf("template %s: %+v", one.Name, got)
		}
		if got := s.run("init", file, "--template", one.Name); got.code != exitUsage || !strings.Contains(got.stderr, "is there already") {
			t.Errorf("%+v", got)
		}
	}
	if got := s.run("init"); got.code != 0 || strings.Count(got.stdout, "\n") != 1+len(jobfile.Templates()) {
		t.Errorf("%+v", got)
	}
	for _, args := range []string{"init x.hcl", "init --template sngle"} {
		if got := s.run(strings.Fields(args)...); got.code != exitUsage || got.stderr == "" {
			t.Errorf("rota %s: %+v", args, got)
		}
	}
}

func TestExplain(t *testing.T) {
	s := session{t: t}
	for _, word := range []string{"JS-112", "js112", "PD", "Priority", "time_limit", "group.count"} {
		if got := s.run("explain", word); got.code != 0 || got.stdout == "" {
			t.Errorf("rota explain %s: %+v", word, got)
		}
	}
	if got := s.run("explain", "priorty"); got.code != exitNotFound || !strings.Contains(got.stderr, "did you mean") {
		t.Errorf("%+v", got)
	}
	var entries []map[string]string
	if got := s.run("explain", "TO", "-o", "json"); json.Unmarshal([]byte(got.stdout), &entries) != nil || len(entries) == 0 || entries[0]["text"] == "" {
		t.Errorf("%+v", got)
	}
}

func TestNodeDrain(t *testing.T) {
	a := newAnswers(t)
	a.give("POST /v1/nodes/n1/drain", api.Node{Name: "n1"})
	a.refuse("POST /v1/nodes/n2/resume", api.Problem{Status: 404, Code: api.CodeNotFound, Detail: "there is no node \"n2\""})
	s := session{t: t, addr: a.URL}
	if got := s.run("node", "drain", "n1", "--reason", "fan"); got.code != 0 || got.stdout != "1 drained\n" {
		t.Errorf("%+v", got)
	}
	if asked := a.asked(); asked[0].body != `{"reason":"fan"}` {
		t.Errorf("%+v", asked)
	}
	if got := s.run("node", "resume", "n2"); got.code != exitNotFound || !strings.HasPrefix(got.stderr, "rota: there is no node \"n2\"") {
		t.Errorf("%+v", got)
	}
	for _, args := range []string{"node", "node drain", "node drain n1", "node burn n1"} {
		if got := s.run(strings.Fields(args)...); got.code != exitUsage {
			t.Errorf("rota %s: %+v", args, got)
		}
	}
}
