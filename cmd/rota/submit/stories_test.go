package submit

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// TestWrongSubmissionsSendNothing notices a job that is submitted although something is wrong with
// it, and a message that does not name what.
func TestWrongSubmissionsSendNothing(t *testing.T) {
	a := rotatest.NewAnswers(t)
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL, Stdin: rotatest.SmallJob}
	dir := t.TempDir()
	binary := filepath.Join(dir, "a.out")
	if err := os.WriteFile(binary, []byte("\x7fELF\x00\x01"), 0o600); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("k", 65)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"run"}, "no command given: rota run"},
		{[]string{"run", "-N", "0", "x"}, "--nodes 0: must be at least 1"},
		{[]string{"run", "-N", "-3", "x"}, "--nodes -3: must be at least 1"},
		{[]string{"run", "--mem", "lots", "x"}, "--mem "},
		{[]string{"run", "--time", "never", "x"}, "--time "},
		{[]string{"run", "--time", "0", "x"}, "--time 0 is out of range: 1s to 3650d"},
		{[]string{"run", "--env", "A", "x"}, "--env A: write --env NAME=VALUE"},
		{[]string{"run", "--class", "best", "x"}, "class"},
		{[]string{"run", "--priority", "101", "x"}, "priority"},
		{[]string{"run", "-G", "-1", "-c", "-2", "x"}, "job x has 2 errors:\n  "},
		{[]string{"run", "--array", "0-3", "x"}, "rota submit has --array: use rota submit --follow OPTIONS --wrap COMMAND"},
		{[]string{"run", "-a", "0-3", "x"}, "rota submit has -a: use rota submit --follow OPTIONS --wrap COMMAND"},
		{[]string{"run", "--az", "x"}, "rota run has no option --az\n  hint: \"rota help run\" lists its options"},
		{[]string{"run", "--gres=gpu:1", "x"}, "rota submit has --gres: use rota submit"},
		{[]string{"run", "--frobnicate", "x"}, "\"rota help run\" lists its options"},
		{[]string{"submit", filepath.Join(dir, "missing.hcl")}, "missing.hcl: no such file or directory\n  hint: pass " +
			"the path"},
		{[]string{"submit", dir}, " is not a regular file"},
		{[]string{"submit", binary}, "a.out"},
		{[]string{"submit"}, "rota submit needs a job file or a script, or - for standard input"},
		{[]string{"submit", "--wrap", "  "}, "--wrap needs a command"},
		{[]string{"submit", "-", "--idempotency-key", ""}, "--idempotency-key must have 1 to 64 visible ASCII characters"},
		{[]string{"submit", "-", "--idempotency-key", long}, "--idempotency-key must have 1 to 64 visible ASCII characters"},
		{[]string{"submit", "-", "--idempotency-key", "ä"}, "--idempotency-key must have 1 to 64 visible ASCII characters"},
		{[]string{"submit", "-", "-var", "n=x"}, "n"},
		{[]string{"submit", "-", "-var", "nosuch=1"}, "nosuch"},
		{[]string{"submit", "-", "-var", "=1"}, "-var =1: write -var NAME=VALUE"},
		{[]string{"submit", "-", "-var-file", filepath.Join(dir, "missing.vars")}, "missing.vars"},
		{[]string{"plan", "-", "extra"}, "rota plan needs one job file, or - for standard input"},
		{[]string{"wait"}, "no job given: rota wait JOB... [--any]"},
		{[]string{"wait", "7", "--timeout", "soon"}, "--timeout \"soon\" is not a duration"},
		{[]string{"resubmit", "9"}, "--failed or --cancelled is required"},
		{[]string{"resubmit", "9,10", "--failed"}, "rota resubmit needs one job, not 2"},
	} {
		want := exit.Usage
		if c.args[0] == "run" || c.args[0] == "wait" {
			want = exit.OwnUsage
		}
		if got := s.Run(c.args...); got.Code != want || got.Stdout != "" || !strings.Contains(got.Stderr, c.want) {
			t.Errorf("rota %q: %+v, want %q", c.args, got, c.want)
		}
	}
	if asked := a.Requests(); len(asked) > 0 {
		t.Errorf("sent %+v", asked)
	}
	a.Give("POST /v1/jobs", api.SubmitResponse{IDs: []model.JobID{17}})
	for i, key := range []string{long[:64], "k"} {
		if got := s.Run("submit", "-", "--idempotency-key", key); got.Code != 0 || a.Requests()[i].Key != key {
			t.Errorf("the key %s: %+v", key, got)
		}
	}
}

// TestRefusedSubmissions notices a refusal whose list of mistakes or whose hint is lost.
func TestRefusedSubmissions(t *testing.T) {
	a := rotatest.NewAnswers(t)
	p := api.Problem{Status: 422, Code: api.CodeInvalidJob, Detail: `job "small" has 2 errors`,
		Errors: []string{"queue: no such queue", "account: no such account"}, Hint: "rota share lists the accounts"}
	a.Refuse("POST /v1/jobs", p)
	a.Refuse("POST /v1/plan", p)
	a.Give("GET /v1/jobs/9", api.Job{ID: 9, State: "FAILED", Code: model.Failed, Spec: &jobspec.Job{Name: "small"}})
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL, Stdin: rotatest.SmallJob}
	tail := `job "small" has 2 errors` + "\n  queue: no such queue\n  account: no such account\n" +
		"  hint: rota share lists the accounts\n"
	for args, begin := range map[string]string{"submit -": "rota: submit small: ", "plan -": "rota: plan small: ",
		"run --name small true": "rota: submit small: ", "resubmit 9 --failed": "rota: submit small: "} {
		want := exit.Usage
		if strings.HasPrefix(args, "run") {
			want = exit.OwnUsage
		}
		if got := s.Run(strings.Fields(args)...); got.Code != want || got.Stderr != begin+tail || got.Stdout != "" {
			t.Errorf("rota %s: %+v\nwant %s", args, got, begin+tail)
		}
	}
}

// TestAnIDThatCannotBePrinted notices a job that its user does not learn of, and submits again.
func TestAnIDThatCannotBePrinted(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("needs /dev/full: %v", err)
	}
	defer full.Close()
	a := rotatest.NewAnswers(t)
	a.Give("POST /v1/jobs", api.SubmitResponse{IDs: []model.JobID{17}})
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL, Stdin: rotatest.SmallJob, Out: full}
	for _, args := range []string{"submit -", "submit - --parsable", "submit - -o json"} {
		if got := s.Run(strings.Fields(args)...); got.Code != exit.Failed ||
			!strings.Contains(got.Stderr, "job 17 is submitted, but: write ") {
			t.Errorf("rota %s: %+v", args, got)
		}
	}
}

// TestWaitingForTheEnd notices another exit code than the job's, and a failure of rota itself that
// looks like the job's.
func TestWaitingForTheEnd(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.Give("POST /v1/jobs", api.SubmitResponse{IDs: []model.JobID{7}})
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL, Stdin: "#!/bin/sh\n#SBATCH -W\ntrue\n",
		ClientOptions: impatient}
	for _, c := range []struct {
		job  api.Job
		code int
		says string
	}{
		{api.Job{Code: model.Completed}, 0, ""}, {api.Job{Code: model.Failed, ExitCode: 3}, 3, ""},
		{api.Job{Code: model.TimedOut, TimeLimit: 5400}, exit.OwnTimeout, "rota: job 7 reached its time limit of 1:30:00\n"},
		{api.Job{Code: model.OutOfMemory}, exit.OutOfMemory, "rota: job 7 ran out of memory\n"},
		{api.Job{Code: model.Cancelled, Signal: 15}, 143, "rota: job 7 was cancelled\n"},
		{api.Job{Code: model.NodeFailed, State: "NODE_FAIL", Reason: api.Reason{Text: "gpu01 is\x1b gone"}}, exit.OwnFailed,
			"rota: job 7 ended as NODE_FAIL: gpu01 is? gone\n"},
	} {
		c.job.ID = 7
		a.Give("GET /v1/jobs/7", c.job)
		for _, args := range []string{"submit -", "submit - --wait"} {
			if got := s.Run(strings.Fields(args)...); got.Code != c.code || got.Stdout != "Submitted batch job 7\n" ||
				got.Stderr != c.says {
				t.Errorf("rota %s, %s: %+v", args, c.job.Code, got)
			}
		}
		if got := s.Run("wait", "7"); got.Code != c.code || got.Stdout != "" || got.Stderr != c.says {
			t.Errorf("rota wait, %s: %+v", c.job.Code, got)
		}
	}
	a.Refuse("GET /v1/jobs/7", api.Problem{Status: 403, Code: api.CodeDenied, Detail: "not yours"})
	if got := s.Run("submit", "-"); got.Code != exit.OwnDenied || got.Stdout != "Submitted batch job 7\n" ||
		got.Stderr != "rota: job 7: not yours\n" {
		t.Errorf("a failure behind the submission: %+v", got)
	}
}

// TestWaitingForSeveral notices the code of another job than the highest, and the report of another
// than the first.
func TestWaitingForSeveral(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.Give("GET /v1/jobs/1", api.Job{ID: 1, Code: model.Failed, ExitCode: 9})
	a.Give("GET /v1/jobs/2_5", api.Job{ID: 2, Code: model.Completed})
	a.Give("GET /v1/jobs/2", api.Job{ID: 2, Code: model.Completed})
	a.Give("GET /v1/jobs/3", api.Job{ID: 3, Code: model.Failed, ExitCode: 4})
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL}
	if got := s.Run("wait", "3,1", "2_5"); got.Code != 9 || got.Stderr != "" {
		t.Errorf("%+v", got)
	}
	got := s.Run("wait", "3", "1", "-o", "json")
	dec := json.NewDecoder(strings.NewReader(got.Stdout))
	for _, want := range []model.JobID{3, 1} {
		var j api.Job
		if err := dec.Decode(&j); err != nil || j.ID != want {
			t.Errorf("as JSON: %d, %v in %+v", j.ID, err, got)
		}
	}
	a.Refuse("GET /v1/jobs/4", api.Problem{Status: 404, Code: api.CodeNotFound, Detail: "no such job"})
	if got := s.Run("wait", "4", "--any"); got.Code != exit.OwnNotFound || got.Stderr != "rota: job 4: no such job\n" {
		t.Errorf("%+v", got)
	}
}

// TestWhatPlanSays notices a job that would start and is said to wait, and tasks that are called
// groups.
func TestWhatPlanSays(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.Give("POST /v1/plan", api.PlanResponse{Starts: true, Begins: 4, Places: []api.PlanNode{{Node: "gpu01"}}})
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL, Stdin: rotatest.SmallJob}
	table := "WORKER NODE  GPUS\n     0 gpu01 -\n"
	if got := s.Run("plan", "-", "--array", "0-9"); got.Code != 0 ||
		got.Stdout != "4 tasks of small would start now; the first of them here:\n"+table {
		t.Errorf("%+v", got)
	}
	s.Stdin = "job \"two\" {\n  group \"a\" {\n    task \"t\" {\n      command = [\"true\"]\n    }\n  }\n" +
		"  group \"b\" {\n    task \"t\" {\n      command = [\"true\"]\n    }\n  }\n}\n"
	if got := s.Run("plan", "-"); got.Code != 0 ||
		got.Stdout != "4 groups of two would start now; the first of them here:\n"+table {
		t.Errorf("%+v", got)
	}
	a.Give("POST /v1/plan", api.PlanResponse{Starts: true, Begins: 1, Places: []api.PlanNode{{Node: "gpu01"}}})
	if got := s.Run("plan", "-"); got.Code != 0 || got.Stdout != "two would start now\n"+table {
		t.Errorf("%+v", got)
	}
	a.Give("POST /v1/plan", api.PlanResponse{Reason: api.Reason{Text: "a\x1b[31m limit"}, Ahead: 2,
		Funnel: []api.FunnelStep{{What: "are up", Nodes: 3}}, Advice: "ask for less"})
	want := "two would wait: a?[31m limit\n2 jobs are ahead of it\n\nNODES THAT\n    3 are up\n\nask for less\n"
	if got := s.Run("plan", "-"); got.Code != exit.WouldWait || got.Stdout != want {
		t.Errorf("%+v\nwant %s", got, want)
	}
	var plan api.PlanResponse
	got := s.Run("plan", "-", "-o", "json")
	if err := json.Unmarshal([]byte(got.Stdout), &plan); err != nil || got.Code != exit.WouldWait || plan.Ahead != 2 {
		t.Errorf("as JSON: %+v, %v", got, err)
	}
}

// TestWhatIsResubmitted notices the submission of a job of another user or in another state. It
// also notices array tasks that are submitted in place of others.
func TestWhatIsResubmitted(t *testing.T) {
	three := 3
	a := rotatest.NewAnswers(t)
	a.Give("POST /v1/jobs", api.SubmitResponse{IDs: []model.JobID{20}})
	a.On("GET /v1/jobs", rotatest.StreamOf(nil))
	a.Give("GET /v1/history", rotatest.List("JobList", api.Job{ID: 14, Code: model.Failed,
		Array: api.ArrayPlace{Job: 13, Index: &three}},
		api.Job{ID: 99, Code: model.Failed}))
	array := &jobspec.Job{Name: "sweep", Array: &jobspec.Array{Indices: "1-7:2"}, Begin: "now+1h"}
	for ref, j := range map[string]api.Job{
		"5":    {ID: 5, Code: model.Failed, State: "FAILED"}, // of another user: without a specification
		"6":    {ID: 6, Code: model.Running, State: "RUNNING", Spec: &jobspec.Job{Name: "x"}},
		"7":    {ID: 7, Code: model.Completed, State: "COMPLETED", Spec: &jobspec.Job{Name: "x"}},
		"8":    {ID: 8, Code: model.Cancelled, State: "CANCELLED", Spec: &jobspec.Job{Name: "x"}},
		"9":    {ID: 9, Code: model.TimedOut, State: "TIMEOUT", Spec: &jobspec.Job{Name: "x"}},
		"13":   {ID: 13, Code: model.Failed, State: "FAILED", Spec: array, Array: api.ArrayPlace{Size: 4}},
		"13_3": {ID: 14, Code: model.Failed, State: "FAILED", Spec: array, Array: api.ArrayPlace{Job: 13, Index: &three}},
		"15": {ID: 15, Code: model.Completed, State: "COMPLETED", Spec: &jobspec.Job{Name: "all",
			Array: &jobspec.Array{Indices: "0-1"}}, Array: api.ArrayPlace{Size: 2}},
	} {
		a.Give("GET /v1/jobs/"+ref, j)
	}
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL}
	for args, want := range map[string]string{
		"5 --failed":       "job 5 belongs to another user: only its owner can resubmit it",
		"6 --failed":       "nothing of job 6 to resubmit: it is RUNNING",
		"7 --failed":       "nothing of job 7 to resubmit: it is COMPLETED",
		"8 --failed":       "nothing of job 8 to resubmit: it is CANCELLED",
		"9 --cancelled":    "nothing of job 9 to resubmit: it is TIMEOUT",
		"13_3 --cancelled": "nothing of job 13_3 to resubmit: it is FAILED",
		"15 --failed":      "nothing of job 15 to resubmit: it is COMPLETED",
	} {
		if got := s.Run(append([]string{"resubmit"}, strings.Fields(args)...)...); got.Code != exit.Usage ||
			got.Stdout != "" ||
			got.Stderr != "rota: "+want+"\n" {
			t.Errorf("rota resubmit %s: %+v", args, got)
		}
	}
	if slices.ContainsFunc(a.Requests(), func(r rotatest.Request) bool { return strings.HasPrefix(r.What, "POST") }) {
		t.Error("something was submitted all the same")
	}
	for args, indices := range map[string]string{"8 --cancelled": "", "9 --failed": "", "13_3 --failed": "3",
		"13 --failed": "3", "13 --cancelled": "1,5,7", "13 --failed --cancelled": "1-7:2"} {
		got := s.Run(append([]string{"resubmit", "--parsable"}, strings.Fields(args)...)...)
		job := sent(t, a)
		found := ""
		if job.Array != nil {
			found = job.Array.Indices
		}
		if got.Code != 0 || got.Stdout != "20\n" || found != indices || job.Begin != "" {
			t.Errorf("rota resubmit %s: %+v, tasks %q, want %q", args, got, found, indices)
		}
	}
}

// ctrlC presses Ctrl-C.
func ctrlC(t *testing.T) {
	if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
		t.Error(err)
	}
}

// TestCtrlCWhileASubmittedJobIsFollowed notices a job that is cancelled although it does not belong
// to the terminal. It also notices a message that does not say that the job goes on.
func TestCtrlCWhileASubmittedJobIsFollowed(t *testing.T) {
	for _, flag := range []string{"--follow", "--wait"} {
		a := rotatest.NewAnswers(t)
		a.Give("POST /v1/jobs", api.SubmitResponse{IDs: []model.JobID{7}})
		a.On("GET /v1/jobs/7", func(_ http.ResponseWriter, r *http.Request) {
			ctrlC(t)
			<-r.Context().Done()
		})
		s := rotatest.Session{Commands: groups, T: t, Addr: a.URL, Stdin: rotatest.SmallJob}
		got := s.Run("submit", "-", flag)
		if got.Code != exit.Interrupted || got.Stdout != "Submitted batch job 7\n" ||
			got.Stderr != "rota: job 7 continues (\"rota cancel 7\" cancels it): interrupted\n" {
			t.Errorf("%s: %+v", flag, got)
		}
		for _, r := range a.Requests() {
			if strings.Contains(r.What, "cancel") {
				t.Errorf("%s: asked %s", flag, r.What)
			}
		}
	}
}

// TestASecondCtrlC notices a command that cannot be left: before the answer to the submission, and while
// the job does not end.
func TestASecondCtrlC(t *testing.T) {
	var now atomic.Int64
	var posted, again atomic.Bool
	clock := func() time.Time { return time.Unix(1_800_000_000, now.Load()) }
	a := rotatest.NewAnswers(t)
	a.On("POST /v1/jobs", func(_ http.ResponseWriter, r *http.Request) {
		posted.Store(true)
		ctrlC(t) // the other one comes when the first has been noticed
		<-r.Context().Done()
	})
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL, Now: func() time.Time {
		now.Add(int64(secondSignalAfter))
		if posted.Load() && !again.Swap(true) {
			ctrlC(t)
		}
		return clock()
	}}
	got := s.Run("run", "--export=NONE", "true")
	if got.Code != exit.Interrupted || got.Stdout != "" ||
		!strings.Contains(got.Stderr, "rota: the job will be cancelled once it is submitted; press Ctrl-C again to "+
			"exit at once\n") ||
		!strings.Contains(got.Stderr, "interrupted while submitting true (\"rota queue --me\" shows whether it was "+
			"submitted)") {
		t.Errorf("%+v", got)
	}
	now.Store(0)
	a.Give("POST /v1/jobs", api.SubmitResponse{IDs: []model.JobID{7}})
	a.On("GET /v1/jobs/7", func(_ http.ResponseWriter, r *http.Request) {
		ctrlC(t)
		<-r.Context().Done()
	})
	a.On("POST /v1/jobs/7/cancel", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(api.ControlResponse{})
		now.Add(int64(secondSignalAfter))
		ctrlC(t)
	})
	s.Now = clock
	got = s.Run("run", "true")
	if got.Code != exit.Interrupted || !strings.HasSuffix(got.Stderr,
		"rota: exited while cancelling job 7: interrupted\n") ||
		!strings.HasPrefix(got.Stderr, "rota: cancelling job 7; press Ctrl-C again to exit at once\n") {
		t.Errorf("%+v", got)
	}
}

// TestACancellationThatFails notices a job that is said to be cancelled and is
// not.
func TestACancellationThatFails(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.Give("POST /v1/jobs", api.SubmitResponse{IDs: []model.JobID{7}})
	refused := make(chan struct{})
	first := true
	a.On("GET /v1/jobs/7", func(w http.ResponseWriter, _ *http.Request) {
		if first {
			first = false
			ctrlC(t)
		}
		<-refused
		_ = json.NewEncoder(w).Encode(api.Job{ID: 7, Code: model.Completed, State: "COMPLETED"})
	})
	a.On("POST /v1/jobs/7/cancel", func(w http.ResponseWriter, _ *http.Request) {
		rotatest.WriteProblem(w, &api.Problem{Status: 409, Code: api.CodeWrongState, Detail: "it has ended"})
		close(refused)
	})
	got := rotatest.Session{Commands: groups, T: t, Addr: a.URL}.Run("run", "true")
	if got.Code != 0 || !strings.HasPrefix(got.Stderr, "rota: cancelling job 7; press Ctrl-C again to exit at once\n") {
		t.Errorf("%+v", got)
	}
}

// TestNamesOfJobs notices a name that the controllers refuse, for a command that they would run.
func TestNamesOfJobs(t *testing.T) {
	for command, want := range map[string]string{"/usr/bin/python3.11": "python3.11", "./train me.sh": "train-me.sh",
		"-x": "x", "...": "run", "ä": "run", "_a": "a", strings.Repeat("n", 80): strings.Repeat("n", 60),
		"A-z_0.9": "A-z_0.9"} {
		if got := jobName(command); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}

// TestOptionsOfRun notices an option that the job does not have.
func TestOptionsOfRun(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.Give("POST /v1/jobs", api.SubmitResponse{IDs: []model.JobID{7}})
	a.Give("GET /v1/jobs/7", api.Job{ID: 7, Code: model.Completed})
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL, Env: []string{"LAB_A=1", "LAB_B=2", "OTHER=3"}}
	got := s.Run("run", "-J", "n", "-p", "q", "-A", "acc", "-q", "te", "-t", "1:30", "--priority", "0", "-D", "/work",
		"--image",
		"/images/a", "--export", "LAB_*,OTHER", "--env", "X=1", "--env", "Y=", "--", "sh", "-c", "exit 3")
	job := sentFirst(t, a)
	task := job.Groups[0].Tasks[0]
	if got.Code != 0 || job.Name != "n" || job.Queue != "q" || job.Account != "acc" || job.Class != jobspec.TE ||
		job.TimeLimit != 90 || job.Priority == nil || *job.Priority != 0 || job.Workdir != "/work" ||
		task.Image != "/images/a" ||
		strings.Join(task.Command, "|") != "sh|-c|exit 3" || len(job.ExportEnv) != 3 || job.ExportEnv["OTHER"] != "3" ||
		task.Env["X"] != "1" || len(task.Env) != 2 {
		t.Errorf("%+v sent %+v", got, job)
	}
}

// TestWorkersOfRun notices workers that share a node although -N gives each its own, and workers that
// do not although they would fit.
func TestWorkersOfRun(t *testing.T) {
	for options, want := range map[string]string{
		"": "1 workers, 1 on a node", "-N 3": "3 workers, 1 on a node", "-n 3": "3 workers, 3 on a node",
		"--ntasks=4": "4 workers, 4 on a node", "-N 2 -n 2": "2 workers, 1 on a node", "-n 1": "1 workers, 1 on a node",
		"-N 2 -n 4": "each worker has its own node",
		"-n 0":      "--workers 0: must be at least 1", "-N 0": "--nodes 0: must be at least 1",
		"--pty -n 2": "this job has 2",
	} {
		a := rotatest.NewAnswers(t)
		a.Give("POST /v1/jobs", api.SubmitResponse{IDs: []model.JobID{7}})
		a.Give("GET /v1/jobs/7", api.Job{ID: 7, Code: model.Completed})
		s := rotatest.Session{Commands: groups, T: t, Addr: a.URL}
		got := s.Run(slices.Concat([]string{"run"}, strings.Fields(options), []string{"--", "true"})...)
		said := got.Stderr
		if got.Code == 0 {
			g := sentFirst(t, a).Groups[0]
			said = fmt.Sprintf("%d workers, %d on a node", g.Count, g.MaxWorkersPerNode)
		} else if got.Code != 120 {
			t.Errorf("%q: code %d", options, got.Code)
		}
		if !strings.Contains(said, want) {
			t.Errorf("%q: %s, want %s", options, said, want)
		}
	}
}

// sentFirst is the first job that was submitted.
func sentFirst(t *testing.T, a *rotatest.Answers) *jobspec.Job {
	t.Helper()
	var r api.SubmitRequest
	if err := json.Unmarshal([]byte(a.Requests()[0].Body), &r); err != nil {
		t.Fatal(err)
	}
	return r.Jobs[0]
}
