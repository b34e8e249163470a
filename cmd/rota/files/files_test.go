package files

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
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
	s := rotatest.Session{Commands: groups, T: t}
	if got := s.Run("fmt", "--check", dir); got.Code != exit.Failed || got.Stdout != bad+"\n" {
		t.Errorf("%+v", got)
	}
	if got := s.Run("fmt", dir); got.Code != 0 || got.Stdout != bad+"\n" {
		t.Errorf("%+v", got)
	}
	if b, err := os.ReadFile(bad); err != nil || string(b) != text {
		t.Errorf("%q, %v", b, err)
	}
	if info, err := os.Stat(bad); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", info, err)
	}
	if got := s.Run("fmt", "--check", dir); got.Code != 0 || got.Stdout != "" {
		t.Errorf("%+v", got)
	}
	if got := s.Run("fmt", broken); got.Code != exit.Usage || !strings.Contains(got.Stderr, "c.hcl:1:") {
		t.Errorf("%+v", got)
	}
	if got := s.Run("fmt", t.TempDir()); got.Code != exit.Usage {
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
	s := rotatest.Session{Commands: groups, T: t}
	got := s.Run("parse", name)
	if got.Code != 0 || strings.Contains(got.Stdout, "s3cret") || strings.Count(got.Stdout, concealed) != 2 ||
		!strings.Contains(got.Stdout, `"PLAIN": "yes"`) {
		t.Errorf("%+v", got)
	}
	if got := s.Run("parse", name, "--sensitive", "-o", "yaml"); got.Code != 0 ||
		!strings.Contains(got.Stdout, "TOKEN: s3cret\n") {
		t.Errorf("%+v", got)
	}
	if got := s.Run("validate", name, "-o", "json"); got.Code != 0 || strings.Contains(got.Stdout, "s3cret") ||
		strings.Count(got.Stdout, concealed) != 2 {
		t.Errorf("%+v", got)
	}
	one, two := s.Run("parse", name, "--digest"), s.Run("parse", name, "--digest", "-var", "token=other")
	if len(one.Stdout) != 65 || one.Stdout == two.Stdout {
		t.Errorf("%+v and %+v", one, two)
	}
}

func TestWarnings(t *testing.T) {
	name := rotatest.JobFile(t, "job \"big\" {\n  class      = \"te\"\n  time_limit = \"5h\"\n\n  task \"t\" {\n    "+
		"command = [\"true\"]\n  }\n}\n")
	a := rotatest.NewAnswers(t)
	a.Give("POST /v1/jobs", api.SubmitResponse{IDs: []model.JobID{17}})
	a.Give("POST /v1/plan", api.PlanResponse{Starts: true})
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL}
	for _, command := range []string{"validate", "submit", "plan", "parse"} {
		got := s.Run(command, name)
		if got.Code != 0 || !strings.Contains(got.Stderr, "JS-190") || !strings.Contains(got.Stderr, "job.hcl:3:") ||
			strings.Contains(got.Stdout, "JS-190") {
			t.Errorf("%s: %+v", command, got)
		}
	}
	var report struct {
		Files []struct{ Diagnostics []struct{ Severity int } }
	}
	got := s.Run("validate", "-o", "json", name)
	if err := json.Unmarshal([]byte(got.Stderr), &report); err != nil || len(report.Files) != 1 ||
		report.Files[0].Diagnostics[0].Severity != 2 {
		t.Errorf("%v in %+v", err, got)
	}
	got = s.Run("validate", "-o", "json", rotatest.JobFile(t, "job \"big\" {}\n"))
	if err := json.Unmarshal([]byte(got.Stderr), &report); err != nil || len(report.Files) != 1 ||
		report.Files[0].Diagnostics[0].Severity != 1 {
		t.Errorf("%v in %+v", err, got)
	}
	if got := s.Run("validate", name, "--color", "always"); !strings.Contains(got.Stderr, "\x1b[") {
		t.Errorf("--color always: %+v", got)
	}
	if got := s.Run("validate", name, "--color", "sometimes"); got.Code != exit.Usage {
		t.Errorf("%+v", got)
	}
}

func TestInit(t *testing.T) {
	t.Chdir(t.TempDir())
	s := rotatest.Session{Commands: groups, T: t}
	for _, one := range jobfile.Templates() {
		file := one.Name + ".hcl"
		if got := s.Run("init", file, "--template", one.Name); got.Code != 0 {
			t.Errorf("%+v", got)
		}
		if got := s.Run("validate", file); got.Code != 0 {
			t.Errorf("template %s: %+v", one.Name, got)
		}
		if got := s.Run("init", file, "--template", one.Name); got.Code != exit.Usage ||
			!strings.Contains(got.Stderr, "already exists") {
			t.Errorf("%+v", got)
		}
	}
	if got := s.Run("init"); got.Code != 0 || strings.Count(got.Stdout, "\n") != 1+len(jobfile.Templates()) {
		t.Errorf("%+v", got)
	}
	for _, args := range []string{"init x.hcl", "init --template sngle"} {
		if got := s.Run(strings.Fields(args)...); got.Code != exit.Usage || got.Stderr == "" {
			t.Errorf("rota %s: %+v", args, got)
		}
	}
}

func TestExplain(t *testing.T) {
	s := rotatest.Session{Commands: groups, T: t}
	for _, word := range []string{"JS-112", "js112", "PD", "Priority", "time_limit", "group.count"} {
		if got := s.Run("explain", word); got.Code != 0 || got.Stdout == "" {
			t.Errorf("rota explain %s: %+v", word, got)
		}
	}
	if got := s.Run("explain", "priorty"); got.Code != exit.NotFound || !strings.Contains(got.Stderr, "did you mean") {
		t.Errorf("%+v", got)
	}
	var entries struct{ Items []map[string]string }
	if got := s.Run("explain", "TO", "-o", "json"); json.Unmarshal([]byte(got.Stdout), &entries) != nil ||
		len(entries.Items) == 0 || entries.Items[0]["text"] == "" {
		t.Errorf("%+v", got)
	}
}
