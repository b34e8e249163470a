package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

func TestSubmit(t *testing.T) {
	a := newAnswers(t)
	a.give("POST /v1/jobs", api.SubmitResponse{IDs: []cluster.JobID{17}})
	s := session{t: t, addr: a.URL, env: []string{"LAB_A=1", "LAB_TOKEN=secret", "OTHER=2"}}
	file := jobFile(t, smallJob)
	got := s.run("submit", file, "-var", "n=5", "--name", "other", "-t", "1:30:00", "--priority", "7", "--class", "te", "--hold")
	if got.code != 0 || got.stdout != "Submitted batch job 17\n" {
		t.Fatalf("%+v", got)
	}
	r := a.asked()[0]
	var sent api.SubmitRequest
	if err := json.Unmarshal([]byte(r.body), &sent); err != nil || len(sent.Jobs) != 1 {
		t.Fatalf("%v in %s", err, r.body)
	}
	job := sent.Jobs[0]
	dir, _ := os.Getwd()
	host, _ := os.Hostname()
	if job.Name != "other" || job.TimeLimit != 5400 || *job.Priority != 7 || job.Class != jobspec.TE || !job.Hold {
		t.Errorf("options were not taken over: %s", r.body)
	}
	if job.Workdir != dir || job.SubmitDir != dir || job.SubmitHost != host {
		t.Errorf("the submit host is not filled in: %s", r.body)
	}
	if fmt.Sprint(job.ExportEnv) != "map[LAB_A:1]" {
		t.Errorf("exported %v, want LAB_A alone", job.ExportEnv)
	}
	if fmt.Sprint(job.Groups[0].Tasks[0].Command) != "[sleep 5]" {
		t.Errorf("-var was not heeded: %v", job.Groups[0].Tasks[0].Command)
	}
	if len(r.key) < 16 {
		t.Errorf("key %q: a submission must always have one", r.key)
	}
}

func TestSubmitOutput(t *testing.T) {
	a := newAnswers(t)
	a.give("POST /v1/jobs", api.SubmitResponse{IDs: []cluster.JobID{17}})
	s := session{t: t, addr: a.URL, stdin: smallJob}
	if got := s.run("submit", "-", "--parsable", "--idempotency-key", "mine"); got.code != 0 || got.stdout != "17\n" {
		t.Errorf("--parsable: %+v", got)
	}
	if key := a.asked()[0].key; key != "mine" {
		t.Errorf("key %q, want mine", key)
	}
	if got := s.run("submit", "-", "-o", "json"); got.code != 0 || strings.Join(strings.Fields(got.stdout), "") != `{"ids":[17]}` {
		t.Errorf("-o json: %+v", got)
	}
	if got := s.run("submit", "-", "--idempotency-key", "two words"); got.code != exitUsage {
		t.Errorf("a bad key: %+v", got)
	}
}

func TestSubmitMistakes(t *testing.T) {
	a := newAnswers(t)
	s := session{t: t, addr: a.URL, stdin: "job \"x\" {\n  task \"m\" {\n    comand = [\"true\"]\n  }\n}\n"}
	got := s.run("submit", "-")
	if got.code != exitUsage || !strings.Contains(got.stderr, "<stdin>:3:5") || !strings.Contains(got.stderr, "command") {
		t.Errorf("%+v", got)
	}
	got = s.run("submit", "-", "-o", "json")
	var problem struct {
		api.Problem
		Diagnostics []struct {
			Code  string
			Start struct{ Line int }
		} `json:"diagnostics"`
	}
	if err := json.Unmarshal([]byte(got.stderr), &problem); err != nil || got.code != exitUsage {
		t.Fatalf("%v in %+v", err, got)
	}
	if problem.Code != api.CodeInvalidJob || len(problem.Diagnostics) == 0 || problem.Diagnostics[0].Start.Line != 3 {
		t.Errorf("%+v", problem)
	}
	if len(a.asked()) != 0 {
		t.Errorf("a bad file was sent: %v", a.asked())
	}
}

func TestValidate(t *testing.T) {
	s := session{t: t, addr: "unix:/nowhere"}
	good := jobFile(t, smallJob)
	if got := s.run("validate", good); got.code != 0 || !strings.HasSuffix(got.stdout, "ok, job small\n") {
		t.Errorf("%+v", got)
	}
	var job jobspec.Job
	if got := s.run("validate", good, "-o", "json"); got.code != 0 || json.Unmarshal([]byte(got.stdout), &job) != nil || job.Name != "small" {
		t.Errorf("%+v", got)
	}
	bad := jobFile(t, "job \"x\" {}\n")
	if got := s.run("validate", bad, good); got.code != exitUsage || !strings.Contains(got.stdout, "ok, job small") || got.stderr == "" {
		t.Errorf("one bad and one good file: %+v", got)
	}
}

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		problem   string
		status    int
		code, own int
	}{
		{api.CodeNotFound, 404, exitNotFound, ownNotFound},
		{api.CodeDenied, 403, exitDenied, ownDenied},
		{api.CodeUnauthorised, 401, exitDenied, ownDenied},
		{api.CodeInvalidJob, 422, exitUsage, ownUsage},
		{api.CodeImpossible, 422, exitUsage, ownUsage},
		{api.CodeInternal, 500, exitFailed, ownFailed},
		{api.CodeBusy, 429, exitFailed, ownFailed},
	} {
		a := newAnswers(t)
		p := api.Problem{Title: "T", Status: c.status, Code: c.problem, Detail: "what went wrong", Hint: "what to do", Errors: []string{"one", "two"}}
		a.refuse("GET /v1/jobs/5", p)
		s := session{t: t, addr: a.URL}
		got := s.run("status", "5")
		want := "rota: what went wrong\n  one\n  two\n  hint: what to do\n"
		if got.code != c.code || got.stderr != want || got.stdout != "" {
			t.Errorf("%s: %+v, want code %d", c.problem, got, c.code)
		}
		if got := s.run("wait", "5"); got.code != c.own {
			t.Errorf("%s: wait gives %d, want %d", c.problem, got.code, c.own)
		}
		var told api.Problem
		if got := s.run("status", "5", "-o", "json"); json.Unmarshal([]byte(got.stderr), &told) != nil || told.Code != c.problem || got.code != c.code {
			t.Errorf("%s in JSON: %+v", c.problem, got)
		}
	}
}

func TestUnreachable(t *testing.T) {
	s := session{t: t, addr: "http://127.0.0.1:1,unix:/nowhere/rota.sock"}
	got := s.run("queue")
	if got.code != exitUnreachable || !strings.Contains(got.stderr, "http://127.0.0.1:1, unix:/nowhere/rota.sock") || !strings.Contains(got.stderr, "ROTA_ADDR") {
		t.Errorf("%+v", got)
	}
	if got := s.run("run", "true"); got.code != ownUnreachable {
		t.Errorf("run: %+v", got)
	}
}

func TestJobCodes(t *testing.T) {
	for _, c := range []struct {
		job  api.Job
		want int
	}{
		{api.Job{Code: cluster.Completed}, 0},
		{api.Job{Code: cluster.Failed, ExitCode: 3}, 3},
		{api.Job{Code: cluster.Failed, ExitCode: 255}, 255},
		{api.Job{Code: cluster.Failed, Signal: 11}, 139},
		{api.Job{Code: cluster.Failed}, ownFailed},
		{api.Job{Code: cluster.OutOfMemory, Signal: 9}, exitOOM},
		{api.Job{Code: cluster.TimedOut, Signal: 15}, ownTimeout},
		{api.Job{Code: cluster.TimedOut}, ownTimeout},
		{api.Job{Code: cluster.NodeFailed}, ownFailed},
		{api.Job{Code: cluster.BootFailed}, ownFailed},
		{api.Job{Code: cluster.Cancelled}, ownFailed},
		{api.Job{Code: cluster.Cancelled, Signal: 15}, 143},
	} {
		code, note := jobCode(&c.job)
		if code != c.want {
			t.Errorf("%s %d:%d gives %d, want %d", c.job.Code, c.job.ExitCode, c.job.Signal, code, c.want)
		}
		if quiet := c.job.Code == cluster.Completed || c.job.Code == cluster.Failed && c.want != ownFailed; quiet != (note == "") {
			t.Errorf("%s %d:%d says %q", c.job.Code, c.job.ExitCode, c.job.Signal, note)
		}
	}
}

func TestWait(t *testing.T) {
	a := newAnswers(t)
	a.on("GET /v1/jobs/1", whenAsked(1, api.Job{ID: 1, State: "RUNNING", Code: cluster.Running}, api.Job{ID: 1, State: "FAILED", Code: cluster.Failed, ExitCode: 4}))
	a.give("GET /v1/jobs/2", api.Job{ID: 2, State: "COMPLETED", Code: cluster.Completed})
	a.give("GET /v1/jobs/3", api.Job{ID: 3, State: "RUNNING", Code: cluster.Running})
	s := session{t: t, addr: a.URL}
	if got := s.run("wait", "1", "2"); got.code != 4 || got.stderr != "" {
		t.Errorf("%+v", got)
	}
	polls := 0
	for _, r := range a.asked() {
		if strings.HasPrefix(r.what, "GET /v1/jobs/1?") && strings.Contains(r.what, "after=42") && strings.Contains(r.what, "wait=") {
			polls++
		}
	}
	if polls != 1 {
		t.Errorf("the second look at job 1 is no long poll: %v", a.asked())
	}
	if got := s.run("wait", "--any", "3", "2", "-o", "name"); got.code != ownUsage {
		t.Errorf("%+v", got)
	}
	if got := s.run("wait", "--any", "3", "2"); got.code != 0 || got.stderr != "" {
		t.Errorf("%+v", got)
	}
	if got := s.run("wait", "3", "--timeout", "50ms"); got.code != ownTimeout {
		t.Errorf("%+v", got)
	}
}

// whenAsked gives the first answer n times and the second from then on.
func whenAsked(n int, first, then any) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		n--
		v := first
		if n < 0 {
			v = then
		}
		_ = json.NewEncoder(w).Encode(v)
	}
}

func TestCancel(t *testing.T) {
	a := newAnswers(t)
	a.give("POST /v1/jobs/1/cancel", api.ControlResponse{Items: []api.ControlItem{{ID: 1}}})
	a.refuse("POST /v1/jobs/2/cancel", api.Problem{Status: 404, Code: api.CodeNotFound, Detail: "there is no job 2"})
	a.give("POST /v1/jobs/cancel", api.ControlResponse{Items: []api.ControlItem{{ID: 5}, {ID: 6}}})
	s := session{t: t, addr: a.URL}
	if got := s.run("cancel", "1,2"); got.code != exitNotFound || got.stdout != "1 cancelled\n" || got.stderr != "rota: there is no job 2\n" {
		t.Errorf("%+v", got)
	}
	if got := s.run("cancel", "-u", "ada", "-t", "PD,R", "--reason", "weekend"); got.code != 0 || got.stdout != "2 cancelled\n" {
		t.Errorf("%+v", got)
	}
	asked := a.asked()
	var sent api.CancelRequest
	if err := json.Unmarshal([]byte(asked[len(asked)-1].body), &sent); err != nil || sent.User != "ada" || len(sent.States) != 2 || sent.Reason != "weekend" {
		t.Errorf("%v: %+v", err, sent)
	}
}

func TestPlan(t *testing.T) {
	a := newAnswers(t)
	a.give("POST /v1/plan", api.PlanResponse{Starts: true, Places: []api.PlanNode{{Node: "gpu01", GPUs: []int{0, 3}}}})
	file := jobFile(t, smallJob)
	s := session{t: t, addr: a.URL}
	if got := s.run("plan", file); got.code != 0 || !strings.Contains(got.stdout, "gpu01 0,3") {
		t.Errorf("%+v", got)
	}
	a.give("POST /v1/plan", api.PlanResponse{Reason: api.Reason{Code: "Resources", Text: "not enough"}, Ahead: 1})
	want := "small would wait: Resources: not enough\n1 job goes before it\n"
	if got := s.run("plan", file); got.code != exitWouldWait || got.stdout != want {
		t.Errorf("%+v", got)
	}
	if got := s.run("submit", "--dry-run", file); got.code != 0 || got.stdout != want {
		t.Errorf("--dry-run: %+v", got)
	}
	for _, r := range a.asked() {
		if strings.HasPrefix(r.what, "POST /v1/jobs") {
			t.Errorf("submitted: %s", r.what)
		}
	}
}

func TestCheckFails(t *testing.T) {
	a := newAnswers(t)
	a.give("GET /v1/check", api.Check{Index: 9, Violations: []string{"A3: gang 4 is half assigned"}})
	got := session{t: t, addr: a.URL}.run("check")
	if got.code != exitFailed || got.stdout != "A3: gang 4 is half assigned\n" || !strings.Contains(got.stderr, "1 invariant does not hold") {
		t.Errorf("%+v", got)
	}
}

func TestStaleAnswersAreMarked(t *testing.T) {
	a := newAnswers(t)
	a.on("GET /v1/jobs", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(api.HeaderStale, "12")
		streamOf(nil)(w, r)
	})
	if got := (session{t: t, addr: a.URL}).run("queue"); got.code != 0 || !strings.Contains(got.stderr, "12s") {
		t.Errorf("%+v", got)
	}
}

func TestUpdate(t *testing.T) {
	a := newAnswers(t)
	a.give("POST /v1/jobs/4/update", api.ControlResponse{Items: []api.ControlItem{{ID: 4}}})
	a.give("POST /v1/jobs/5_[1-2]/update", api.ControlResponse{Items: []api.ControlItem{{ID: 7}, {ID: 8}}})
	s := session{t: t, addr: a.URL}
	for _, c := range []struct{ args, body string }{
		{"update 4 --time +2h", `{"add_time":7200}`},
		{"update 4 --time -30m --priority 0", `{"add_time":-1800,"priority":0}`},
		{"update 4 --time 1-00:00:00 --name other", `{"time_limit":86400,"name":"other"}`},
	} {
		got := s.run(strings.Fields(c.args)...)
		asked := a.asked()
		if body := asked[len(asked)-1].body; got.code != 0 || got.stdout != "1 updated\n" || body != c.body {
			t.Errorf("rota %s: %+v sent %s", c.args, got, body)
		}
	}
	if got := s.run("update", "5_[1-2]", "--priority", "70"); got.code != 0 || got.stdout != "2 updated\n" {
		t.Errorf("%+v", got)
	}
	for _, args := range []string{"update 4", "update --time 2h", "update 4 --time soon", "update 4 --priority high"} {
		if got := s.run(strings.Fields(args)...); got.code != exitUsage {
			t.Errorf("rota %s: %+v", args, got)
		}
	}
}

func TestResubmit(t *testing.T) {
	a := newAnswers(t)
	record := api.Job{ID: 9, Name: "sweep", Code: cluster.Failed, State: "FAILED", Array: api.ArrayPlace{Size: 4}}
	record.Spec = &jobspec.Job{Name: "sweep", Array: &jobspec.Array{Matrix: []jobspec.Axis{{Name: "lr", Values: []string{"1", "2", "3", "4"}}}},
		Dependencies: []jobspec.Dependency{{Type: "afterok", Jobs: []string{"3"}}}}
	element := func(index int, code cluster.JobState) api.Job {
		return api.Job{ID: cluster.JobID(10 + index), Code: code, Array: api.ArrayPlace{Job: 9, Index: &index}}
	}
	a.give("GET /v1/jobs/9", record)
	a.on("GET /v1/jobs", streamOf([]api.Job{element(2, cluster.OutOfMemory)}))
	a.give("GET /v1/history", list("JobList", element(1, cluster.Failed), element(0, cluster.Completed)))
	a.give("POST /v1/jobs", api.SubmitResponse{IDs: []cluster.JobID{20}})
	s := session{t: t, addr: a.URL}
	for args, want := range map[string]string{
		"resubmit 9 --failed":             `{"columns":["lr"],"rows":[["2"],["3"]]}`,
		"resubmit 9 --cancelled":          `{"columns":["lr"],"rows":[["4"]]}`,
		"resubmit 9 --failed --cancelled": `{"columns":["lr"],"rows":[["2"],["3"],["4"]]}`,
	} {
		got := s.run(strings.Fields(args)...)
		asked := a.asked()
		var sent api.SubmitRequest
		if err := json.Unmarshal([]byte(asked[len(asked)-1].body), &sent); err != nil {
			t.Fatal(err)
		}
		array, _ := json.Marshal(sent.Jobs[0].Array)
		if got.code != 0 || got.stdout != "Submitted batch job 20\n" || string(array) != want || len(sent.Jobs[0].Dependencies) != 0 {
			t.Errorf("rota %s: %+v sent %s", args, got, array)
		}
	}
	if got := s.run("resubmit", "9"); got.code != exitUsage {
		t.Errorf("%+v", got)
	}
}

func TestArrayPrune(t *testing.T) {
	a := newAnswers(t)
	a.give("POST /v1/jobs/9/prune", api.PruneResponse{Kept: []int{3}, Cancelled: []int{2, 0, 1}, Silent: []int{7}})
	s := session{t: t, addr: a.URL}
	got := s.run("array", "prune", "9", "--metric", "loss", "--keep", "top 25%", "--dry-run")
	if got.code != 0 || got.stdout != "kept: 3\nwould be cancelled: 0-2\nleft alone, without loss yet: 7\n" {
		t.Errorf("%+v", got)
	}
	for _, args := range []string{"array 9", "array prune 9 --metric loss", "array plant 9 --metric loss --keep 1"} {
		if got := s.run(strings.Fields(args)...); got.code != exitUsage {
			t.Errorf("rota %s: %+v", args, got)
		}
	}
}
