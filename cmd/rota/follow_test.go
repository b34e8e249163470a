package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// runningJob gives job 7 as pending, then running, then ended with code, and the given output.
func runningJob(a *answers, workers, code int) {
	base := api.Job{ID: 7, Name: "seven", Workers: workers, State: "PENDING", Code: cluster.Pending}
	running, over := base, base
	running.State, running.Code, running.Attempt = "RUNNING", cluster.Running, 1
	over.State, over.Code, over.Attempt, over.ExitCode = "COMPLETED", cluster.Completed, 1, code
	if code != 0 {
		over.State, over.Code = "FAILED", cluster.Failed
	}
	states := []api.Job{base, running, over}
	a.on("GET /v1/jobs/7", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(states[0])
		if len(states) > 1 {
			states = states[1:]
		}
	})
}

func TestRun(t *testing.T) {
	a := newAnswers(t)
	a.give("POST /v1/jobs", api.SubmitResponse{IDs: []cluster.JobID{7}})
	runningJob(a, 1, 9)
	a.on("GET /v1/jobs/7/logs", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello\nno end")) })
	got := session{t: t, addr: a.URL}.run("run", "-G", "2", "-c", "4", "--mem", "8G", "-N", "3", "--env", "A=b=c", "python", "-c", "x")
	if got.code != 9 || got.stdout != "hello\nno end" || got.stderr != "" {
		t.Errorf("%+v", got)
	}
	var sent api.SubmitRequest
	if err := json.Unmarshal([]byte(a.asked()[0].body), &sent); err != nil {
		t.Fatal(err)
	}
	group := sent.Jobs[0].Groups[0]
	task := group.Tasks[0]
	if group.Count != 3 || task.Resources.GPUs != 2 || task.Resources.Cores != 4 || task.Resources.Memory != 8*jobspec.GiB || task.Env["A"] != "b=c" ||
		strings.Join(task.Command, " ") != "python -c x" || sent.Jobs[0].Name != "python" {
		t.Errorf("sent %s", a.asked()[0].body)
	}
}

func TestFollowSeveralWorkers(t *testing.T) {
	a := newAnswers(t)
	a.give("POST /v1/jobs", api.SubmitResponse{IDs: []cluster.JobID{7}})
	runningJob(a, 2, 0)
	a.on("GET /v1/jobs/7/logs", func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("from " + r.URL.Query().Get("worker") + "\nlast"))
	})
	got := session{t: t, addr: a.URL, stdin: smallJob}.run("submit", "-", "--follow")
	if got.code != 0 {
		t.Fatalf("%+v", got)
	}
	for _, line := range []string{"Submitted batch job 7\n", "0: from \n0: last\n", "1: from 1\n1: last\n"} {
		for _, part := range strings.SplitAfter(line, "\n") {
			if !strings.Contains(got.stdout, part) {
				t.Errorf("no %q in %q", part, got.stdout)
			}
		}
	}
}

// TestFollowTakesUpABrokenStream cuts the connection in the middle: what was shown is not shown again, and nothing is lost.
func TestFollowTakesUpABrokenStream(t *testing.T) {
	a := newAnswers(t)
	text := strings.Repeat("a line of output\n", 1000)
	cuts := []int{0, 1, 5000, len(text) - 1}
	a.on("GET /v1/jobs/7/logs", func(w http.ResponseWriter, _ *http.Request) {
		if len(cuts) == 0 {
			_, _ = w.Write([]byte(text))
			return
		}
		_, _ = w.Write([]byte(text[:cuts[0]]))
		cuts = cuts[1:]
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	got := session{t: t, addr: a.URL}.run("logs", "7.0", "-f")
	if got.code != 0 || got.stdout != text {
		t.Errorf("code %d, %d bytes, want %d; %s", got.code, len(got.stdout), len(text), got.stderr)
	}
}

func TestFollowOfAJobThatNeverRan(t *testing.T) {
	a := newAnswers(t)
	a.give("POST /v1/jobs", api.SubmitResponse{IDs: []cluster.JobID{7}})
	a.give("GET /v1/jobs/7", api.Job{ID: 7, State: "CANCELLED", Code: cluster.Cancelled})
	got := session{t: t, addr: a.URL, stdin: smallJob}.run("submit", "-", "--follow")
	if got.code != ownFailed || got.stderr != "rota: job 7 was cancelled\n" {
		t.Errorf("%+v", got)
	}
}

func TestLogs(t *testing.T) {
	a := newAnswers(t)
	a.give("GET /v1/jobs/7", api.Job{ID: 7, Workers: 2, Code: cluster.Completed, Attempt: 1})
	a.on("GET /v1/jobs/7/logs", func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.URL.RawQuery + "\n")) })
	s := session{t: t, addr: a.URL}
	for command, want := range map[string]string{
		"logs 7":                      "0: \n1: worker=1\n",
		"logs 7.1 --tail 3":           "tail=3&worker=1\n",
		"logs 7 --worker 0 --stderr":  "stream=stderr\n",
		"logs 7.0 --attempt 2 -n 5":   "attempt=2&tail=5\n",
		"logs --task main 7.1":        "task=main&worker=1\n",
		"logs 7.1 --follow --tail=10": "follow=true&tail=10&worker=1\n",
	} {
		if got := s.run(strings.Fields(command)...); got.code != 0 || got.stdout != want {
			t.Errorf("rota %s: %+v, want %q", command, got, want)
		}
	}
}
