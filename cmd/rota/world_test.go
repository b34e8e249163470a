package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// answers is a controller that says what it is told to: a body for each "METHOD /path", and notes every request.
type answers struct {
	*httptest.Server
	mu       sync.Mutex
	fixed    map[string]func(http.ResponseWriter, *http.Request)
	requests []request
}

type request struct {
	what string // METHOD /path?query
	body string
	key  string
}

func newAnswers(t *testing.T) *answers {
	t.Helper()
	a := &answers{fixed: map[string]func(http.ResponseWriter, *http.Request){}}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	return a
}

// ServeHTTP implements http.Handler.
func (a *answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	a.mu.Lock()
	a.requests = append(a.requests, request{what: r.Method + " " + r.URL.RequestURI(), body: string(body), key: r.Header.Get(api.HeaderIdempotencyKey)})
	answer := a.fixed[r.Method+" "+r.URL.Path]
	a.mu.Unlock()
	w.Header().Set(api.HeaderIndex, "42")
	if answer == nil {
		writeProblem(w, &api.Problem{Title: "Not Found", Status: 404, Code: api.CodeNotFound, Detail: "there is nothing at " + r.URL.Path})
		return
	}
	answer(w, r)
}

func writeProblem(w http.ResponseWriter, p *api.Problem) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p)
}

// give answers what ("GET /v1/jobs") with v as JSON.
func (a *answers) give(what string, v any) {
	a.on(what, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(v) })
}

// refuse answers what with a problem.
func (a *answers) refuse(what string, p api.Problem) {
	a.on(what, func(w http.ResponseWriter, _ *http.Request) { writeProblem(w, &p) })
}

func (a *answers) on(what string, do func(http.ResponseWriter, *http.Request)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fixed[what] = do
}

// asked lists the requests so far.
func (a *answers) asked() []request {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]request(nil), a.requests...)
}

// result is what a command left.
type result struct {
	code           int
	stdout, stderr string
}

// session runs commands as a user without a terminal would.
type session struct {
	t     *testing.T
	addr  string
	env   []string
	stdin string
	file  *os.File // standard input, where it is one
	out   *os.File // standard output, where it is one
	calls api.Options
}

func (s session) run(args ...string) result {
	s.t.Helper()
	var stdout, stderr bytes.Buffer
	env := append([]string{"ROTA_ADDR=" + s.addr}, s.env...)
	w := &world{stdin: strings.NewReader(s.stdin), stdout: &stdout, stderr: &stderr, environ: func() []string { return env },
		now: func() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }, terminal: func(io.Writer) bool { return false },
		client: s.calls}
	if s.file != nil {
		w.stdin = s.file
	}
	if s.out != nil {
		w.stdout = s.out
	}
	w.getenv = func(name string) string { value, _ := w.lookup(name); return value }
	ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
	defer cancel()
	code := Run(ctx, append([]string{"rota"}, args...), w, commands(w))
	return result{code, stdout.String(), stderr.String()}
}

// golden compares got with testdata/NAME.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; make it with -update", err)
	}
	if got != string(want) {
		t.Errorf("%s differs.\ngot:\n%s\nwant:\n%s", path, got, want)
	}
}

// jobFile writes a small job file and returns its path.
func jobFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "job.hcl")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

const smallJob = `
variable "n" {
  type    = number
  default = 1
}

job "small" {
  export = ["LAB_*"]

  task "main" {
    command = ["sleep", var.n]
  }
}
`
