package submit

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

func TestSubmit(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.Give("POST /v1/jobs", api.SubmitResponse{IDs: []model.JobID{17}})
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL, Env: []string{"LAB_A=1", "LAB_TOKEN=secret", "OTHER=2"}}
	file := rotatest.JobFile(t, rotatest.SmallJob)
	got := s.Run("submit", file, "-var", "n=5", "--name", "other", "-t", "1:30:00", "--priority", "7", "--class", "te",
		"--hold")
	if got.Code != 0 || got.Stdout != "Submitted batch job 17\n" {
		t.Fatalf("%+v", got)
	}
	r := a.Requests()[0]
	var sent api.SubmitRequest
	if err := json.Unmarshal([]byte(r.Body), &sent); err != nil || len(sent.Jobs) != 1 {
		t.Fatalf("%v in %s", err, r.Body)
	}
	job := sent.Jobs[0]
	dir, _ := os.Getwd()
	host, _ := os.Hostname()
	if job.Name != "other" || job.TimeLimit != 5400 || *job.Priority != 7 || job.Class != jobspec.TE || !job.Hold {
		t.Errorf("options were not taken over: %s", r.Body)
	}
	if job.Workdir != dir || job.SubmitDir != dir || job.SubmitHost != host {
		t.Errorf("the submit host is not filled in: %s", r.Body)
	}
	if fmt.Sprint(job.ExportEnv) != "map[LAB_A:1]" {
		t.Errorf("exported %v, want LAB_A alone", job.ExportEnv)
	}
	if fmt.Sprint(job.Groups[0].Tasks[0].Command) != "[sleep 5]" {
		t.Errorf("-var was not heeded: %v", job.Groups[0].Tasks[0].Command)
	}
	if len(r.Key) < 16 {
		t.Errorf("key %q: a submission must always have one", r.Key)
	}
}

func TestSubmitOutput(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.Give("POST /v1/jobs", api.SubmitResponse{IDs: []model.JobID{17}})
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL, Stdin: rotatest.SmallJob}
	if got := s.Run("submit", "-", "--parsable", "--idempotency-key", "mine"); got.Code != 0 || got.Stdout != "17\n" {
		t.Errorf("--parsable: %+v", got)
	}
	if key := a.Requests()[0].Key; key != "mine" {
		t.Errorf("key %q, want mine", key)
	}
	if got := s.Run("submit", "-", "-o", "json"); got.Code != 0 ||
		strings.Join(strings.Fields(got.Stdout), "") != `{"apiVersion":"v1","kind":"SubmitResponse","ids":[17]}` {
		t.Errorf("-o json: %+v", got)
	}
	if got := s.Run("submit", "-", "--idempotency-key", "two words"); got.Code != exit.Usage {
		t.Errorf("a bad key: %+v", got)
	}
}

func TestSubmitMistakes(t *testing.T) {
	a := rotatest.NewAnswers(t)
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL,
		Stdin: "job \"x\" {\n  task \"m\" {\n    comand = [\"true\"]\n  }\n}\n"}
	got := s.Run("submit", "-")
	if got.Code != exit.Usage || !strings.Contains(got.Stderr, "<stdin>:3:5") || !strings.Contains(got.Stderr, "command") {
		t.Errorf("%+v", got)
	}
	got = s.Run("submit", "-", "-o", "json")
	var problem struct {
		api.Problem
		Diagnostics []struct {
			Code  string
			Start struct{ Line int }
		} `json:"diagnostics"`
	}
	if err := json.Unmarshal([]byte(got.Stderr), &problem); err != nil || got.Code != exit.Usage {
		t.Fatalf("%v in %+v", err, got)
	}
	if problem.Code != api.CodeInvalidJob || len(problem.Diagnostics) == 0 || problem.Diagnostics[0].Start.Line != 3 {
		t.Errorf("%+v", problem)
	}
	if len(a.Requests()) != 0 {
		t.Errorf("a bad file was sent: %v", a.Requests())
	}
}

func TestPlan(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.Give("POST /v1/plan", api.PlanResponse{Starts: true, Places: []api.PlanNode{{Node: "gpu01", GPUs: []int{0, 3}}}})
	file := rotatest.JobFile(t, rotatest.SmallJob)
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL}
	if got := s.Run("plan", file); got.Code != 0 || !strings.Contains(got.Stdout, "gpu01 0,3") {
		t.Errorf("%+v", got)
	}
	a.Give("POST /v1/plan", api.PlanResponse{Reason: api.Reason{Code: "Resources", Text: "not enough"}, Ahead: 1})
	want := "small would wait: Resources: not enough\n1 job is ahead of it\n"
	if got := s.Run("plan", file); got.Code != exit.WouldWait || got.Stdout != want {
		t.Errorf("%+v", got)
	}
	if got := s.Run("submit", "--dry-run", file); got.Code != 0 || got.Stdout != want {
		t.Errorf("--dry-run: %+v", got)
	}
	for _, r := range a.Requests() {
		if strings.HasPrefix(r.What, "POST /v1/jobs") {
			t.Errorf("submitted: %s", r.What)
		}
	}
}

func TestResubmit(t *testing.T) {
	a := rotatest.NewAnswers(t)
	record := api.Job{ID: 9, Name: "sweep", Code: model.Failed, State: "FAILED", Array: api.ArrayPlace{Size: 4}}
	record.Spec = &jobspec.Job{Name: "sweep", Array: &jobspec.Array{Matrix: []jobspec.Axis{{Name: "lr",
		Values: []string{"1", "2", "3", "4"}}}},
		Dependencies: []jobspec.Dependency{{Type: "afterok", Jobs: []string{"3"}}}}
	element := func(index int, code model.JobState) api.Job {
		return api.Job{ID: model.JobID(10 + index), Code: code, Array: api.ArrayPlace{Job: 9, Index: &index}}
	}
	a.Give("GET /v1/jobs/9", record)
	a.On("GET /v1/jobs", rotatest.StreamOf([]api.Job{element(2, model.OutOfMemory)}))
	a.Give("GET /v1/history", rotatest.List("JobList", element(1, model.Failed), element(0, model.Completed)))
	a.Give("POST /v1/jobs", api.SubmitResponse{IDs: []model.JobID{20}})
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL}
	for args, want := range map[string]string{
		"resubmit 9 --failed":             `{"columns":["lr"],"rows":[["2"],["3"]]}`,
		"resubmit 9 --cancelled":          `{"columns":["lr"],"rows":[["4"]]}`,
		"resubmit 9 --failed --cancelled": `{"columns":["lr"],"rows":[["2"],["3"],["4"]]}`,
	} {
		got := s.Run(strings.Fields(args)...)
		asked := a.Requests()
		var sent api.SubmitRequest
		if err := json.Unmarshal([]byte(asked[len(asked)-1].Body), &sent); err != nil {
			t.Fatal(err)
		}
		array, _ := json.Marshal(sent.Jobs[0].Array)
		if got.Code != 0 || got.Stdout != "Submitted batch job 20\n" || string(array) != want ||
			len(sent.Jobs[0].Dependencies) != 0 {
			t.Errorf("rota %s: %+v sent %s", args, got, array)
		}
	}
	if got := s.Run("resubmit", "9"); got.Code != exit.Usage {
		t.Errorf("%+v", got)
	}
}

// TestWarningsOfTheCluster: what a job asks for and does not get is said, and the job is submitted.
func TestWarningsOfTheCluster(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.Give("POST /v1/jobs", api.SubmitResponse{IDs: []model.JobID{17}, Warnings: []string{"no node can suspend jobs"}})
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL}
	got := s.Run("submit", rotatest.JobFile(t, rotatest.SmallJob))
	if got.Code != 0 || got.Stdout != "Submitted batch job 17\n" ||
		got.Stderr != "rota: warning: no node can suspend jobs\n" {
		t.Errorf("%+v", got)
	}
}
