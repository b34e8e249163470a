package submit

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
)

// awayFor makes a handler that breaks off n times in the middle of its answer, as a controller does
// that is killed, before it answers.
func awayFor(n int, answer http.HandlerFunc) http.HandlerFunc {
	var asked atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) > int64(n) {
			answer(w, r)
			return
		}
		_, _ = w.Write([]byte("{"))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// impatient makes the client itself give up at once, so that the commands' own patience is seen.
var impatient = api.Options{RetryFor: time.Nanosecond, Unreachable: time.Nanosecond}

// TestControllersAwayWhileAJobRuns: controllers that are started anew do not end what follows a
// job, and cost it no output and no exit code.
func TestControllersAwayWhileAJobRuns(t *testing.T) {
	running := api.Job{ID: 7, Workers: 1, State: "RUNNING", Code: cluster.Running, Attempt: 1}
	over := running
	over.State, over.Code, over.ExitCode = "FAILED", cluster.Failed, 3
	for _, c := range []struct {
		command string
		code    int
	}{
		{"run true", 3},
		{"wait 7", 3},
		{"logs 7.0 -f", 0},
	} {
		a := rotatest.NewAnswers(t)
		a.Give("POST /v1/jobs", api.SubmitResponse{IDs: []cluster.JobID{7}})
		first := true
		ended := awayFor(6, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(over) })
		a.On("GET /v1/jobs/7", func(w http.ResponseWriter, r *http.Request) {
			if first {
				first = false
				_ = json.NewEncoder(w).Encode(running)
				return
			}
			ended(w, r)
		})
		logsAsked := 0
		a.On("GET /v1/jobs/7/logs", func(w http.ResponseWriter, _ *http.Request) {
			if logsAsked++; logsAsked <= 2 {
				rotatest.WriteProblem(w, &api.Problem{Title: "No leader", Status: 503, Code: api.CodeNoLeader,
					Detail: "there is no leader now"})
				return
			}
			_, _ = w.Write([]byte("all of it\n"))
		})
		got := rotatest.Session{Commands: groups, T: t, Addr: a.URL,
			ClientOptions: impatient}.Run(strings.Fields(c.command)...)
		output := c.command == "wait 7" || got.Stdout == "all of it\n"
		if got.Code != c.code || !output || strings.Count(got.Stderr, "job 7 continues; retrying for 10 minutes\n") != 1 {
			t.Errorf("rota %s: %+v", c.command, got)
		}
	}
}

// TestControllersAwayFromTheBeginning: a command that no controller has answered yet fails at once.
func TestControllersAwayFromTheBeginning(t *testing.T) {
	for _, command := range []string{"run true", "wait 7", "logs 7 -f", "queue -i 1", "events -f"} {
		a := rotatest.NewAnswers(t)
		for _, what := range []string{"POST /v1/jobs", "GET /v1/jobs/7", "GET /v1/jobs", "GET /v1/events"} {
			a.Refuse(what, api.Problem{Title: "No leader", Status: 503, Code: api.CodeNoLeader,
				Detail: "there is no leader now"})
		}
		got := rotatest.Session{Commands: groups, T: t, Addr: a.URL, ClientOptions: impatient}.Run(strings.Fields(command)...)
		if got.Code != exit.Unreachable && got.Code != exit.OwnUnreachable || strings.Contains(got.Stderr, "asking again") {
			t.Errorf("rota %s: %+v", command, got)
		}
	}
}
