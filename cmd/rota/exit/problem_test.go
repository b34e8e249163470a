package exit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/jobspec/hclfile/diagnostic"
	"github.com/rota-hpc/rota/jobspec/script"
)

// TestProblems notices an error whose code or hint is another one's, and a problem of the API of
// which something is lost.
func TestProblems(t *testing.T) {
	unreachable := func(err error, addrs ...string) error { return &api.UnreachableError{Addrs: addrs, Err: err} }
	refused := errors.New("refused")
	for _, c := range []struct {
		err        error
		code, hint string
		status     int
	}{
		{Usagef("x").WithHint("do y"), "usage", "do y", 400},
		{unreachable(refused, "http://a:1"), "unreachable", "check that a controller is running, and that ROTA_ADDR", 503},
		{unreachable(refused, "http://a:1", "unix:"+api.DefaultSocket), "unreachable",
			"no daemon is running on this machine", 503},
		{unreachable(fmt.Errorf("dial: %w", fs.ErrPermission), "unix:"+api.DefaultSocket), "unreachable",
			"you may not access the socket: ask the cluster's operators", 503},
		{ErrTimeout, "timeout", "", 504}, {context.DeadlineExceeded, "timeout", "", 504},
		{ErrInterrupted, "interrupted", "", 499}, {context.Canceled, "interrupted", "", 499},
		{&CodeError{Code: Interrupted, Text: "x"}, "interrupted", "", 499}, {&CodeError{Code: 7, Text: "x"}, "failed", "",
			500},
		{refused, "failed", "", 500},
		{&api.Problem{Status: 409, Code: api.CodeWrongState, Hint: "h"}, api.CodeWrongState, "h", 409},
		{&api.UncertainError{Err: unreachable(refused, "x")}, "uncertain",
			"the request may or may not have taken effect: check before", 503},
		{LostAnswer(&api.UncertainError{Err: unreachable(refused, "x")}, "see y"), "uncertain", "see y", 503},
		{LostAnswer(unreachable(refused, "x"), "see y"), "unreachable", "check that", 503},
		{&api.UncertainError{Err: &api.Problem{Status: 503, Code: api.CodeNoLeader, Hint: "h"}}, "uncertain",
			"the request may or may not have taken effect: check before", 503},
	} {
		for _, err := range []error{c.err, fmt.Errorf("job 4: %w", c.err)} {
			p := AsProblem(err)
			if p.Code != c.code || p.Status != c.status || p.Detail != err.Error() || !strings.HasPrefix(p.Hint, c.hint) ||
				(c.hint == "") != (p.Hint == "") {
				t.Errorf("%T: %+v, want %s, %q", c.err, p, c.code, c.hint)
			}
		}
	}
	p := &api.Problem{Type: "t", Title: "T", Status: 422, Code: api.CodeInvalidJob, Detail: "d", Errors: []string{"a",
		"b"}}
	if got := AsProblem(fmt.Errorf("submit x: %w", p)); got.Detail != "submit x: d" || len(got.Errors) != 2 ||
		got.Type != "t" ||
		p.Detail != "d" {
		t.Errorf("got %+v of %+v", got, p)
	}
	if err := LostAnswer(&api.UncertainError{Err: p}, "h"); !errors.Is(err, p) || err.Error() != "d" {
		t.Errorf("got %v", err)
	}
	if IsNotFound(p) || !IsNotFound(fmt.Errorf("x: %w", &api.Problem{Code: api.CodeNotFound})) || IsNotFound(nil) {
		t.Error("not found is told wrongly")
	}
	if err := (&JobError{refused}); err.Error() != "refused" || !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
}

// TestMistakesOfAFile notices a mistake that is not printed, or printed without its place.
func TestMistakesOfAFile(t *testing.T) {
	e := &FileError{Name: "a.hcl", Diags: diagnostic.Diagnostics{{Code: "JS-1", File: "a.hcl",
		Start: diagnostic.Pos{Line: 2,
			Column: 3}, Text: "no such word", Hint: "write y", Line: "  x = 1"}}}
	if e.Error() != "a.hcl: 1 mistake" {
		t.Errorf("got %v", e)
	}
	var out bytes.Buffer
	if err := e.Print(&out, false, false); err != nil || !strings.HasPrefix(out.String(),
		"a.hcl:2:3: no such word (JS-1)\n") ||
		!strings.Contains(out.String(), "write y") || strings.Contains(out.String(), "\x1b") {
		t.Errorf("%v: %s", err, &out)
	}
	out.Reset()
	if err := e.Print(&out, true, false); err != nil || !strings.Contains(out.String(), "\x1b[") {
		t.Errorf("in colour: %v: %s", err, &out)
	}
	e = &FileError{Name: "a.sh", Problems: script.Problems{{Line: 4, Kind: script.Mistake, Code: "SB-1", Text: "one"},
		{Kind: script.Refused, Code: "SB-2", Flag: "--x", Text: "two"}}}
	if out.Reset(); e.Error() != "a.sh: 2 mistakes" || e.Print(&out, false, false) != nil ||
		!strings.Contains(out.String(), "a.sh:4: one") || !strings.Contains(out.String(), "two") {
		t.Errorf("%v: %s", e, &out)
	}
	var told struct {
		api.Problem
		Problems []struct{ Code string }
	}
	out.Reset()
	if err := e.Print(&out, true, true); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out.Bytes(), &told); err != nil || told.Code != api.CodeInvalidJob ||
		told.Type != "urn:rota:problem:invalid-job" || len(told.Problems) != 2 {
		t.Errorf("as JSON: %v: %s", err, &out)
	}
}
