package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/controld/api"
)

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		problem   string
		status    int
		code, own int
	}{
		{api.CodeNotFound, 404, exit.NotFound, exit.OwnNotFound},
		{api.CodeDenied, 403, exit.Denied, exit.OwnDenied},
		{api.CodeUnauthorised, 401, exit.Denied, exit.OwnDenied},
		{api.CodeInvalidJob, 422, exit.Usage, exit.OwnUsage},
		{api.CodeImpossible, 422, exit.Usage, exit.OwnUsage},
		{api.CodeInternal, 500, exit.Failed, exit.OwnFailed},
	} {
		a := rotatest.NewAnswers(t)
		p := api.Problem{Title: "T", Status: c.status, Code: c.problem, Detail: "what went wrong", Hint: "what to do",
			Errors: []string{"one", "two"}}
		a.Refuse("GET /v1/jobs/5", p)
		s := rotatest.Session{Commands: commands, T: t, Addr: a.URL}
		got := s.Run("status", "5")
		want := "rota: what went wrong\n  one\n  two\n  hint: what to do\n"
		if got.Code != c.code || got.Stderr != want || got.Stdout != "" {
			t.Errorf("%s: %+v, want code %d", c.problem, got, c.code)
		}
		if got := s.Run("wait", "5"); got.Code != c.own {
			t.Errorf("%s: wait gives %d, want %d", c.problem, got.Code, c.own)
		}
		var told api.Problem
		if got := s.Run("status", "5", "-o", "json"); json.Unmarshal([]byte(got.Stderr), &told) != nil ||
			told.Code != c.problem || got.Code != c.code {
			t.Errorf("%s in JSON: %+v", c.problem, got)
		}
	}
}

func TestUnreachable(t *testing.T) {
	s := rotatest.Session{Commands: commands, T: t, Addr: "http://127.0.0.1:1,unix:/nowhere/rota.sock"}
	got := s.Run("queue")
	if got.Code != exit.Unreachable || !strings.Contains(got.Stderr, "http://127.0.0.1:1, unix:/nowhere/rota.sock") ||
		!strings.Contains(got.Stderr, "ROTA_ADDR") {
		t.Errorf("%+v", got)
	}
	if got := s.Run("run", "true"); got.Code != exit.OwnUnreachable {
		t.Errorf("run: %+v", got)
	}
}
