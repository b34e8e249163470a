// Package rotatest runs commands in tests against a controller with prepared answers.
package rotatest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/controld/api"
)

// Answers is a controller with prepared answers, one for each "METHOD /path". It records all
// requests.
type Answers struct {
	*httptest.Server
	mu       sync.Mutex
	fixed    map[string]func(http.ResponseWriter, *http.Request)
	requests []Request
}

// Request is a request that a command sent.
type Request struct {
	What          string // METHOD /path?query
	Body          string
	Key           string
	Authorization string
}

// NewAnswers starts a controller without answers.
func NewAnswers(t testing.TB) *Answers {
	t.Helper()
	a := &Answers{fixed: map[string]func(http.ResponseWriter, *http.Request){}}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	return a
}

// ServeHTTP implements http.Handler.
func (a *Answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	a.mu.Lock()
	a.requests = append(a.requests, Request{What: r.Method + " " + r.URL.RequestURI(), Body: string(body),
		Key: r.Header.Get(api.HeaderIdempotencyKey), Authorization: r.Header.Get("Authorization")})
	answer := a.fixed[r.Method+" "+r.URL.Path]
	a.mu.Unlock()
	w.Header().Set(api.HeaderIndex, "42")
	if answer == nil {
		WriteProblem(w, &api.Problem{Title: "Not Found", Status: 404, Code: api.CodeNotFound,
			Detail: "there is nothing at " + r.URL.Path})
		return
	}
	answer(w, r)
}

// WriteProblem writes a problem as the API does.
func WriteProblem(w http.ResponseWriter, p *api.Problem) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p)
}

// Give prepares v as JSON for what, such as "GET /v1/jobs".
func (a *Answers) Give(what string, v any) {
	a.On(what, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(v) })
}

// Refuse prepares a problem for what.
func (a *Answers) Refuse(what string, p api.Problem) {
	a.On(what, func(w http.ResponseWriter, _ *http.Request) { WriteProblem(w, &p) })
}

// On prepares a handler for what.
func (a *Answers) On(what string, do func(http.ResponseWriter, *http.Request)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fixed[what] = do
}

// Requests returns the requests so far.
func (a *Answers) Requests() []Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]Request(nil), a.requests...)
}

// result is the exit code and the output of a command.
type result struct {
	Code           int
	Stdout, Stderr string
}

// Session runs commands as for a user, without a terminal unless one is asked for.
type Session struct {
	T             *testing.T
	Addr          string
	Env           []string
	Stdin         string
	File          *os.File // standard input, if it is a file
	Out           *os.File // standard output, if it is a file
	Terminal      bool     // whether the streams are a terminal
	ClientOptions api.Options
	Now           func() time.Time // nil: it is always 2026-11-21T12:00:00Z
	Commands      func() []*command.Command
}

// Run runs a command and returns its exit code and output.
func (s Session) Run(args ...string) result {
	s.T.Helper()
	var stdout, stderr output
	environ := append([]string{"ROTA_ADDR=" + s.Addr}, s.Env...)
	env := &command.Env{Stdin: strings.NewReader(s.Stdin), Stdout: &stdout, Stderr: &stderr,
		Environ:       func() []string { return environ },
		Now:           func() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) },
		IsTerminal:    func(io.Writer) bool { return s.Terminal },
		ClientOptions: s.ClientOptions}
	if s.Now != nil {
		env.Now = s.Now
	}
	if s.File != nil {
		env.Stdin = s.File
	}
	if s.Out != nil {
		env.Stdout = s.Out
	}
	env.Getenv = func(name string) string { value, _ := env.LookupEnv(name); return value }
	ctx, cancel := context.WithTimeout(s.T.Context(), 30*time.Second)
	defer cancel()
	code := command.Run(ctx, append([]string{"rota"}, args...), env, s.Commands())
	return result{code, stdout.String(), stderr.String()}
}

// output is a buffer that parts of a command write to at the same time, as to a file.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

// String returns what was written so far.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// Golden compares got with testdata/NAME.
func Golden(t *testing.T, update bool, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if update {
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

// JobFile writes a small job file and returns its path.
func JobFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "job.hcl")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// SmallJob is a job file with a variable and an exported variable.
const SmallJob = `
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

// AsRota is the environment variable that makes a test binary run rota.
const AsRota = "ROTA_TEST_AS_ROTA"

// Main runs the tests, or a command line if AsRota is set. It is for TestMain.
func Main(m *testing.M, commands func() []*command.Command) {
	if os.Getenv(AsRota) != "" {
		os.Exit(command.Run(context.Background(), os.Args, command.System(), commands()))
	}
	os.Exit(m.Run())
}

// Join joins groups of commands, for tests that use several.
func Join(groups ...func() []*command.Command) func() []*command.Command {
	return func() []*command.Command {
		var all []*command.Command
		for _, commands := range groups {
			all = append(all, commands()...)
		}
		return all
	}
}
