package slurm

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/oci"
)

// run runs a command line before a controller, and returns exit code, output and errors.
func run(t testing.TB, addr string, environ []string, args ...string) (int, string, string) {
	t.Helper()
	return runWith(t, addr, environ, strings.NewReader(""), args...)
}

// runWith is run with something to read.
func runWith(t testing.TB, addr string, environ []string, stdin io.Reader, args ...string) (int, string, string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	env := testEnv(append([]string{"ROTA_ADDR=" + addr}, environ...))
	env.Stdin, env.Stdout, env.Stderr = stdin, &stdout, &stderr
	env.Now = func() time.Time { return time.Date(2026, 11, 21, 13, 0, 0, 0, time.Local) }
	if !Has("/run/rota/bin/" + args[0]) {
		t.Fatalf("%s is no name of Slurm", args[0])
	}
	return Run(t.Context(), args, env, Submitter{}), stdout.String(), stderr.String()
}

func testEnv(environ []string) *command.Env {
	env := &command.Env{Environ: func() []string { return environ }, Now: time.Now,
		ClientOptions: api.Options{Unreachable: 100 * time.Millisecond}}
	env.Getenv = func(name string) string { value, _ := env.LookupEnv(name); return value }
	return env
}

func newTool(environ []string) *tool { return &tool{Env: testEnv(environ)} }

// jobs are one that runs on two nodes, a pending array with a task that runs, one that waits, and one
// that has ended.
func jobs() []api.Job {
	at := func(minute int) *api.Time {
		return &api.Time{Time: time.Date(2026, 11, 21, 12, minute, 0, 0, time.Local)}
	}
	three := 3
	mine := uint32(os.Getuid())
	return []api.Job{
		{ID: 7, Name: "train", User: "ann", UID: mine, Account: "physics", Queue: "gpu", Class: "be", State: "RUNNING",
			Code: model.Running, Priority: 50, Submitted: at(0), Started: at(1), Elapsed: 3661, TimeLimit: 2 * 86400,
			Nodes: []string{"n1", "n2"}, Workers: 2, Cores: 16, Memory: 64 * jobspec.GiB, GPUs: 8, Attempt: 2,
			Workdir: "/home/ann"},
		{ID: 8, Name: "sweep", User: "bob", UID: mine + 1, Queue: "gpu", State: "RUNNING", Code: model.Running, Workers: 1,
			Elapsed: 5, Memory: 1500 * jobspec.MiB, Cores: 1, TimeLimit: 60,
			Array: api.ArrayPlace{Indices: "4-9%2", Size: 10}, Reason: api.Reason{Code: "Resources", Text: "no"}},
		{ID: 12, Name: "sweep", User: "bob", UID: mine + 1, Queue: "gpu", State: "RUNNING", Code: model.Running, Workers: 1,
			Cores: 1, Memory: jobspec.GiB, Nodes: []string{"n3"}, Started: at(2), TimeLimit: 60, Elapsed: 5,
			Array: api.ArrayPlace{Job: 8, Index: &three}},
		{ID: 20, Name: "a-long-name", User: "ann", UID: mine, Queue: "gpu", State: "PENDING", Code: model.Pending, Workers: 1,
			Reason: api.Reason{Code: "Dependency"}},
		{ID: 21, Name: "done", User: "ann", UID: mine, Queue: "gpu", State: "COMPLETED", Code: model.Completed},
	}
}

func queue(t *testing.T) *rotatest.Answers {
	t.Helper()
	a := rotatest.NewAnswers(t)
	a.On("GET /v1/jobs", func(w http.ResponseWriter, r *http.Request) {
		var list []api.Job
		for _, j := range jobs() {
			if ids := r.URL.Query()["id"]; len(ids) == 0 || slices.Contains(ids, fmt.Sprint(j.ID)) {
				list = append(list, j)
			}
		}
		rotatest.StreamOf(list)(w, r)
	})
	a.Give("GET /v1/cluster", api.Cluster{Name: "lab", Policy: "rota", Controllers: []api.Controller{{Name: "c1"}}})
	a.Give("GET /v1/jobs/7", jobs()[0])
	a.Give("GET /v1/jobs/8_3", jobs()[2])
	done := api.ControlResponse{Items: []api.ControlItem{{ID: 7}}}
	for _, verb := range []string{"requeue", "hold", "release", "update"} {
		a.Give("POST /v1/jobs/7/"+verb, done)
		a.Give("POST /v1/jobs/8_3/"+verb, done)
		a.Refuse("POST /v1/jobs/9/"+verb, api.Problem{Status: 403, Code: api.CodeDenied,
			Detail: "from inside a job only its own job can be changed", Hint: "do it outside"})
	}
	return a
}

// TestSqueue has the command lines of Slurm's clients, and what they read.
func TestSqueue(t *testing.T) {
	a := queue(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-h", "-j", "7", "-o", "%T"}, "RUNNING\n"},
		{[]string{"-h", "-j", "7", "-o", "%T %B"}, "RUNNING n1\n"},
		{[]string{"-h", "-j", "20", "-o", "%T %B"}, "PENDING n/a\n"},
		{[]string{"-h", "-j", "21", "-o", "%T"}, ""}, // it has ended, and there is such a job
		{[]string{"--noheader", "--format", "%i %t", "--job", "7,8,12"}, "7 R\n8_[4-9%2] PD\n8_3 R\n"},
		{[]string{"-h", "--me", "-o%i|%A|%u"}, "7|7|ann\n20|20|ann\n"},
		{[]string{"-hu", "bob", "-o", "%A"}, "8\n12\n"},
		{[]string{"-h", "--user=bob,ann", "-o", "%A"}, "7\n8\n12\n20\n"},
		{[]string{"-h", "-j7", "-o", "%a %P %q %j %M %l %L %D %C %m %b %N %r %Q"},
			"physics gpu be train 1:01:01 2-00:00:00 1-22:58:59 2 16 32G gres/gpu:4 n[1-2] None 50\n"},
		{[]string{"-h", "-j8", "-o", "%M %l %m %b %N %R %S"}, "0:00 1:00 1500M N/A  (Resources) N/A\n"},
		{[]string{"-h", "-j7", "-o", "%V %S %e"}, "2026-11-21T12:00:00 2026-11-21T12:01:00 2026-11-23T12:01:00\n"},
		{[]string{"-j", "20", "-o", "%.8j|%8t|%.4t|"}, "    NAME|ST      |  ST|\na-long-n|PD      |  PD|\n"},
		{[]string{"-j", "7,20"}, "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n" +
			"                 7       gpu    train      ann  R    1:01:01      2 n[1-2]\n" +
			"                20       gpu a-long-n      ann PD       0:00      1 (Dependency)\n"},
	} {
		code, out, said := run(t, a.URL, nil, append([]string{"squeue"}, c.args...)...)
		if code != 0 || out != c.want || said != "" {
			t.Errorf("squeue %q: %d\n%s%s\nwant\n%s", c.args, code, out, said, c.want)
		}
	}
	for args, want := range map[string]string{
		"-j 99":      "slurm_load_jobs error: Invalid job id specified\n",
		"-j x":       "squeue: error: Invalid job id: x\n",
		"-o %s":      "squeue: error: %s of the format \"%s\" is not supported: %A %B %C %D %E %F %G",
		"-o %.i":     "squeue: error: the format \"%.i\" has a '.' without a width\n",
		"-o %8":      "squeue: error: the format \"%8\" ends in a '%'\n",
		"-o %9000i":  "squeue: error: the width 9000",
		"--steps":    "squeue: error: unknown flag: --steps",
		"-u ,":       "squeue: error: --user is empty\n",
		"--jobs= -h": "squeue: error: --jobs is empty\n",
		"-h 7":       "squeue: error: Unrecognized option: 7\n",
		"-s 7.0":     "squeue: error: unknown shorthand flag: 's' in -s",
		"-t RUNING":  "squeue: error: Invalid job state specified: RUNING",
		"-M other":   "squeue: error: 'other' can't be reached now",
	} {
		code, out, said := run(t, a.URL, nil, append([]string{"squeue"}, strings.Fields(args)...)...)
		if code != 1 || out != "" || !strings.HasPrefix(said, want) {
			t.Errorf("squeue %s: %d\n%s%s\nwant\n%s", args, code, out, said, want)
		}
	}
}

// TestScontrol has what scripts and clients use of scontrol, what it asks the controllers for, and what
// is refused.
func TestScontrol(t *testing.T) {
	a := queue(t)
	for _, c := range []struct {
		args  string
		asked []string
	}{
		{"requeue 7", []string{"POST /v1/jobs/7/requeue "}},
		{"requeue 7,8_3", []string{"POST /v1/jobs/7/requeue ", "POST /v1/jobs/8_3/requeue "}},
		{"requeue 7 8_3", []string{"POST /v1/jobs/7/requeue ", "POST /v1/jobs/8_3/requeue "}},
		{"hold 7", []string{"POST /v1/jobs/7/hold "}},
		{"RELEASE 7", []string{"POST /v1/jobs/7/release "}},
		{"update JobId=7 Name=x", []string{`POST /v1/jobs/7/update {"name":"x"}`}},
		{"update job=7 TimeLimit=10", []string{`POST /v1/jobs/7/update {"time_limit":600}`}},
		{"update JobId=7 Comment=x", []string{`POST /v1/jobs/7/update {"comment":"x"}`}},
		{"update JobId=7 Comment=", []string{`POST /v1/jobs/7/update {"comment":""}`}},
		{"update jobid=7 timelimit+=10", []string{`POST /v1/jobs/7/update {"add_time":600}`}},
		{"update jobid=7 TimeLimit=-00:01:00", []string{`POST /v1/jobs/7/update {"add_time":-60}`}},
	} {
		before := len(a.Requests())
		code, out, said := run(t, a.URL, nil, append([]string{"scontrol"}, strings.Fields(c.args)...)...)
		var asked []string
		for _, r := range a.Requests()[before:] {
			body := strings.TrimSpace(r.Body)
			if strings.HasSuffix(r.What, "update") {
				asked = append(asked, r.What+" "+body)
			} else {
				asked = append(asked, r.What+" ")
			}
		}
		if code != 0 || out != "" || said != "" || !slices.Equal(asked, c.asked) {
			t.Errorf("scontrol %s: %d %s%s, asked %q", c.args, code, out, said, asked)
		}
	}
	list := []string{"SLURM_JOB_NODELIST=gpu[01-02],login"}
	for args, want := range map[string]string{
		"show hostnames":              "gpu01\ngpu02\nlogin\n",
		"show hostname n[9-10]":       "n9\nn10\n",
		"show hostlist gpu01,gpu02,x": "gpu[01-02],x\n",
		"-o show job 8_3": "JobId=12 ArrayJobId=8 ArrayTaskId=3 JobName=sweep UserId=bob(" + fmt.Sprint(os.Getuid()+1) +
			") GroupId=root(0) Priority=0 Nice=50 Account= QOS= JobState=RUNNING Reason=None Dependency=(null) Requeue=1 " +
			"Restarts=0 BatchFlag=1 ExitCode=0:0 RunTime=00:00:05 TimeLimit=00:01:00 SubmitTime=Unknown " +
			"EligibleTime=Unknown StartTime=2026-11-21T12:02:00 EndTime=2026-11-21T12:03:00 Deadline=N/A Partition=gpu " +
			"ReqNodeList=(null) ExcNodeList=(null) NodeList=n3 BatchHost=n3 NumNodes=1 NumCPUs=1 NumTasks=1 CPUs/Task=1 " +
			"ReqTRES=cpu=1,mem=1G,node=1,billing=1 AllocTRES=cpu=1,mem=1G,node=1,billing=1 MinMemoryNode=1G " +
			"MinTmpDiskNode=0 Features=(null) OverSubscribe=OK Command=(null) WorkDir= StdErr=(null) StdIn=/dev/null " +
			"StdOut=(null)\n",
	} {
		if code, out, said := run(t, a.URL, list, append([]string{"scontrol"}, strings.Fields(args)...)...); code != 0 ||
			out != want || said != "" {
			t.Errorf("scontrol %s: %d\n%s%s\nwant\n%s", args, code, out, said, want)
		}
	}
	if code, out, _ := run(t, a.URL, nil, "scontrol", "show", "job", "7"); code != 0 ||
		!strings.Contains(out, "\n   JobState=RUNNING Reason=None Dependency=(null)\n   Requeue=1 Restarts=1 ") ||
		!strings.Contains(out, "AllocTRES=cpu=16,mem=64G,node=2,billing=16,gres/gpu=8\n") {
		t.Errorf("show job: %d\n%s", code, out)
	}
	if code, out, _ := run(t, a.URL, nil, "scontrol", "show", "job"); code != 0 ||
		strings.Count(out, "JobName=") != len(jobs()) {
		t.Errorf("show job of all: %d\n%s", code, out)
	}
	for args, want := range map[string]string{
		"":                           "scontrol: error: no command given",
		"requeue":                    "scontrol: error: too few arguments for keyword: requeue\n",
		"requeue x":                  "scontrol: error: Invalid job id specified: ",
		"requeue 9 7":                "scontrol: error: job 9: from inside a job only its own job can be changed (do it outs",
		"suspend 7":                  "scontrol: error: invalid keyword: suspend",
		"show step 7.0":              "scontrol: error: invalid entity: step",
		"show job 99":                "slurm_load_jobs error: Invalid job id specified\n",
		"show hostnames":             "scontrol: error: show hostnames needs a list",
		"show hostlist":              "scontrol: error: Invalid hostlist",
		"show job 7 8":               "scontrol: error: too many arguments for keyword: show job\n",
		"update JobId=7":             "scontrol: error: no update specified",
		"update Name=x":              "scontrol: error: update changes jobs and nodes only",
		"update JobId=7 Features=x":  "scontrol: error: update of Features is not supported: JobId, Name, Comment and TimeL",
		"update JobId=7 Name":        "scontrol: error: \"Name\" is no KEY=VALUE\n",
		"update JobId=7 Name+=x":     "scontrol: error: Name+= is not supported\n",
		"update JobId=7 TimeLimit=x": "scontrol: error: Invalid time limit specification: ",
		"-M other show job":          "scontrol: error: 'other' can't be reached now",
	} {
		if code, out, said := run(t, a.URL, nil, append([]string{"scontrol"}, strings.Fields(args)...)...); code != 1 ||
			out != "" || !strings.HasPrefix(said, want) {
			t.Errorf("scontrol %s: %d\n%s%s\nwant\n%s", args, code, out, said, want)
		}
	}
}

// TestNoController: clients look for Slurm's words.
func TestNoController(t *testing.T) {
	for args, want := range map[string]string{
		"squeue":             "slurm_load_jobs error: Unable to contact slurm controller",
		"scontrol show job":  "slurm_load_jobs error: Unable to contact slurm controller",
		"scontrol requeue 7": "scontrol: error: Unable to contact slurm controller",
	} {
		if code, out, said := run(t, "unix:/nowhere/at/all", nil, strings.Fields(args)...); code != 1 || out != "" ||
			!strings.HasPrefix(said, want) {
			t.Errorf("%s: %d\n%s%s", args, code, out, said)
		}
	}
	for _, name := range oci.Commands() {
		if !Has(name) {
			t.Errorf("containers have %s, which is no name of Slurm here", name)
		}
	}
	for name, want := range map[string]bool{"scontrol": true, "/usr/bin/squeue": true, "rota": false, "sdiag": false,
		"": false} {
		if Has(name) != want {
			t.Errorf("%q has a name of Slurm: %t", name, !want)
		}
	}
}
