// Package slurmtest runs Slurm's commands in tests, against fake controllers with known jobs.
package slurmtest

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/cmd/rota/slurm/tool"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// Run runs a command line against a controller, and returns exit code, stdout and stderr.
func Run(t testing.TB, tools tool.Commands, addr string, environ []string, args ...string) (int, string, string) {
	t.Helper()
	return RunWith(t, tools, addr, environ, strings.NewReader(""), args...)
}

// RunWith is Run with standard input.
func RunWith(t testing.TB, tools tool.Commands, addr string, environ []string, stdin io.Reader,
	args ...string) (int, string, string) {
	t.Helper()
	return call(t, tools, addr, environ, stdin, tool.Submitter{}, args)
}

func call(t testing.TB, tools tool.Commands, addr string, environ []string, stdin io.Reader, does tool.Submitter,
	args []string) (int, string, string) {
	t.Helper()
	if tools[args[0]].Does == nil {
		t.Fatalf("%s is no name of Slurm", args[0])
	}
	var stdout, stderr bytes.Buffer
	env := Env(append([]string{"ROTA_ADDR=" + addr}, environ...))
	env.Stdin, env.Stdout, env.Stderr = stdin, &stdout, &stderr
	env.Now = func() time.Time { return time.Date(2026, 11, 21, 13, 0, 0, 0, time.Local) }
	return tools.Run(t.Context(), args, env, does), stdout.String(), stderr.String()
}

// Env returns a command's environment with these variables.
func Env(environ []string) *command.Env {
	env := &command.Env{Environ: func() []string { return environ }, Now: time.Now,
		ClientOptions: api.Options{Unreachable: 100 * time.Millisecond}}
	env.Getenv = func(name string) string { value, _ := env.LookupEnv(name); return value }
	return env
}

// Shell runs commands in one directory of a user, against one controller.
type Shell struct {
	*testing.T
	Tools   tool.Commands
	Addr    string
	Environ []string
	Stdin   string
	Does    tool.Submitter
}

// Call runs a command line.
func (s Shell) Call(args ...string) (code int, stdout, stderr string) {
	s.Helper()
	return call(s.T, s.Tools, s.Addr, s.Environ, strings.NewReader(s.Stdin), s.Does, args)
}

// Accepting is a controller that accepts every job under the id 7.
func Accepting(t *testing.T) *rotatest.Answers {
	t.Helper()
	a := rotatest.NewAnswers(t)
	a.Give("POST /v1/jobs", api.SubmitResponse{IDs: []model.JobID{7}})
	a.Give("GET /v1/cluster", api.Cluster{Name: "dgx"})
	return a
}

// Submitted returns the most recently submitted job.
func Submitted(t *testing.T, a *rotatest.Answers) *jobspec.Job {
	t.Helper()
	all := a.Requests()
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].What == "POST /v1/jobs" {
			var req api.SubmitRequest
			if err := json.Unmarshal([]byte(all[i].Body), &req); err != nil || len(req.Jobs) != 1 {
				t.Fatalf("%v of %s", err, all[i].Body)
			}
			return req.Jobs[0]
		}
	}
	t.Fatal("nothing was submitted")
	return nil
}

// Body is the text of a batch script.
const Body = "#!/bin/bash\npython train.py\n"
