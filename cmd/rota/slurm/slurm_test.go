package slurm

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/slurm/slurmtest"
	"github.com/rota-hpc/rota/noded/oci"
)

// TestScontrol has what scripts and clients use of scontrol, what it asks the controllers for, and what
// is refused.
func TestScontrol(t *testing.T) {
	a := slurmtest.Queue(t)
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
		strings.Count(out, "JobName=") != len(slurmtest.Jobs()) {
		t.Errorf("show job of all: %d\n%s", code, out)
	}
	for args, want := range map[string]string{
		"":                           "scontrol: error: no command given",
		"requeue":                    "scontrol: error: too few arguments for keyword: requeue\n",
		"requeue x":                  "scontrol: error: Invalid job id specified: ",
		"requeue 9 7":                "scontrol: error: job 9: from inside a job only its own job can be changed (do it outs",
		"suspend 7":                  "scontrol: error: invalid keyword: suspend",
		"show step 7.0":              "scontrol: error: Job step 7.0 not found\n",
		"show job 99":                "slurm_load_jobs error: Invalid job id specified\n",
		"show hostnames":             "scontrol: error: host list is empty",
		"show hostlist":              "scontrol: error: Invalid hostlist",
		"show job 7 8":               "scontrol: error: too many arguments for keyword: show job\n",
		"update JobId=7":             "scontrol: error: no update specified",
		"update Name=x":              "scontrol: error: update can change only jobs and nodes",
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

// run runs a command line before a controller, and returns exit code, output and errors.
func run(t testing.TB, addr string, environ []string, args ...string) (int, string, string) {
	t.Helper()
	return slurmtest.Run(t, tools, addr, environ, args...)
}
