package submit

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// runningJob gives job 7 as pending, then running, then ended with code, and the given output.
func runningJob(a *rotatest.Answers, workers, code int) {
	base := api.Job{ID: 7, Name: "seven", Workers: workers, State: "PENDING", Code: model.Pending}
	running, over := base, base
	running.State, running.Code, running.Attempt = "RUNNING", model.Running, 1
	over.State, over.Code, over.Attempt, over.ExitCode = "COMPLETED", model.Completed, 1, code
	if code != 0 {
		over.State, over.Code = "FAILED", model.Failed
	}
	states := []api.Job{base, running, over}
	a.On("GET /v1/jobs/7", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(states[0])
		if len(states) > 1 {
			states = states[1:]
		}
	})
}

func TestRun(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.Give("POST /v1/jobs", api.SubmitResponse{IDs: []model.JobID{7}})
	runningJob(a, 1, 9)
	a.On("GET /v1/jobs/7/logs", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello\nno end")) })
	got := rotatest.Session{Commands: groups, T: t, Addr: a.URL}.Run("run", "-G", "2", "-c", "4", "--mem", "8G", "-N",
		"3", "--env", "A=b=c", "python", "-c", "x")
	if got.Code != 9 || got.Stdout != "hello\nno end" || got.Stderr != "" {
		t.Errorf("%+v", got)
	}
	var sent api.SubmitRequest
	if err := json.Unmarshal([]byte(a.Requests()[0].Body), &sent); err != nil {
		t.Fatal(err)
	}
	group := sent.Jobs[0].Groups[0]
	task := group.Tasks[0]
	if group.Count != 3 || task.Resources.GPUs != 2 || task.Resources.Cores != 4 ||
		task.Resources.Memory != 8*jobspec.GiB || task.Env["A"] != "b=c" ||
		strings.Join(task.Command, " ") != "python -c x" || sent.Jobs[0].Name != "python" {
		t.Errorf("sent %s", a.Requests()[0].Body)
	}
}

// TestRunWithAPartOfAGPU notices a part that becomes a whole GPU, or none.
func TestRunWithAPartOfAGPU(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.Give("POST /v1/jobs", api.SubmitResponse{IDs: []model.JobID{7}})
	runningJob(a, 1, 0)
	a.On("GET /v1/jobs/7/logs", func(http.ResponseWriter, *http.Request) {})
	run := rotatest.Session{Commands: groups, T: t, Addr: a.URL}.Run
	if got := run("run", "--gpus", "0.5", "x"); got.Code != 0 {
		t.Fatalf("%+v", got)
	}
	var sent api.SubmitRequest
	if err := json.Unmarshal([]byte(a.Requests()[0].Body), &sent); err != nil {
		t.Fatal(err)
	}
	r := sent.Jobs[0].Groups[0].Tasks[0].Resources
	if r.GPUs != 1 || r.GPU == nil || *r.GPU != (jobspec.GPU{Share: 500, MaxMemory: jobspec.PartOfMemory}) {
		t.Errorf("sent %s", a.Requests()[0].Body)
	}
	if got := run("run", "--gpus", "1.5", "x"); got.Code != 120 || !strings.Contains(got.Stderr, "more than one GPU") {
		t.Errorf("%+v", got)
	}
}

func TestFollowSeveralWorkers(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.Give("POST /v1/jobs", api.SubmitResponse{IDs: []model.JobID{7}})
	runningJob(a, 2, 0)
	a.On("GET /v1/jobs/7/logs", func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("from " + r.URL.Query().Get("worker") + "\nlast"))
	})
	got := rotatest.Session{Commands: groups, T: t, Addr: a.URL, Stdin: rotatest.SmallJob}.Run("submit", "-", "--follow")
	if got.Code != 0 {
		t.Fatalf("%+v", got)
	}
	for _, line := range []string{"Submitted batch job 7\n", "0: from \n0: last\n", "1: from 1\n1: last\n"} {
		for _, part := range strings.SplitAfter(line, "\n") {
			if !strings.Contains(got.Stdout, part) {
				t.Errorf("no %q in %q", part, got.Stdout)
			}
		}
	}
}

// TestFollowTakesUpABrokenStream cuts the connection in the middle: what was shown is not shown
// again, and nothing is lost.
func TestFollowTakesUpABrokenStream(t *testing.T) {
	a := rotatest.NewAnswers(t)
	text := strings.Repeat("a line of output\n", 1000)
	a.Give("GET /v1/jobs/7", api.Job{ID: 7, Workers: 1, Attempt: 1, State: "RUNNING", Code: model.Running})
	cuts := []int{0, 1, 5000, len(text) - 1}
	a.On("GET /v1/jobs/7/logs", func(w http.ResponseWriter, _ *http.Request) {
		if len(cuts) == 0 {
			_, _ = w.Write([]byte(text))
			a.Give("GET /v1/jobs/7", api.Job{ID: 7, Workers: 1, Attempt: 1, State: "COMPLETED", Code: model.Completed})
			return
		}
		_, _ = w.Write([]byte(text[:cuts[0]]))
		cuts = cuts[1:]
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	got := rotatest.Session{Commands: groups, T: t, Addr: a.URL}.Run("logs", "7.0", "-f")
	if got.Code != 0 || got.Stdout != text {
		t.Errorf("code %d, %d bytes, want %d; %s", got.Code, len(got.Stdout), len(text), got.Stderr)
	}
}

func TestFollowOfAJobThatNeverRan(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.Give("POST /v1/jobs", api.SubmitResponse{IDs: []model.JobID{7}})
	a.Give("GET /v1/jobs/7", api.Job{ID: 7, State: "CANCELLED", Code: model.Cancelled})
	got := rotatest.Session{Commands: groups, T: t, Addr: a.URL, Stdin: rotatest.SmallJob}.Run("submit", "-", "--follow")
	if got.Code != exit.OwnFailed || got.Stderr != "rota: job 7 was cancelled\n" {
		t.Errorf("%+v", got)
	}
}

func TestLogs(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.Give("GET /v1/jobs/7", api.Job{ID: 7, Workers: 2, Code: model.Completed, Attempt: 1})
	a.On("GET /v1/jobs/7/logs", func(w http.ResponseWriter, r *http.Request) {
		_,
			_ = w.Write([]byte(r.URL.RawQuery + "\n"))
	})
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL}
	for command, want := range map[string]string{
		"logs 7":                      "0: stream=both\n1: stream=both&worker=1\n",
		"logs 7.1 --tail 3":           "stream=both&tail=3&worker=1\n",
		"logs 7 --worker 0 --stderr":  "stream=stderr\n",
		"logs 7.0 --attempt 2 -n 5":   "attempt=2&stream=both&tail=5\n",
		"logs --task main 7.1":        "stream=both&task=main&worker=1\n",
		"logs 7.1 --follow --tail=10": "follow=true&stream=both&tail=10&worker=1\n",
	} {
		if got := s.Run(strings.Fields(command)...); got.Code != 0 || got.Stdout != want {
			t.Errorf("rota %s: %+v, want %q", command, got, want)
		}
	}
}
