package queries

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/cmd/rota/slurm/slurmtest"
	"github.com/rota-hpc/rota/cmd/rota/slurm/tool"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
)

// run runs a command line before a controller, and returns exit code, output and errors.
func run(t testing.TB, addr string, environ []string, args ...string) (int, string, string) {
	t.Helper()
	return slurmtest.Run(t, Commands, addr, environ, args...)
}

// TestSqueue has the command lines of Slurm's clients, and what they read.
func TestSqueue(t *testing.T) {
	a := slurmtest.Queue(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-h", "-j", "7", "-o", "%T"}, "RUNNING\n"},
		{[]string{"-h", "-j", "7", "-o", "%T %B"}, "RUNNING n1\n"},
		{[]string{"-h", "-j", "20", "-o", "%T %B"}, "PENDING n/a\n"},
		{[]string{"-h", "-j", "21", "-o", "%T"}, ""}, // it has ended, and there is such a job
		{[]string{"--noheader", "--format", "%i %t", "--job", "7,8,12"}, "7 R\n8_[4-9%2] PD\n8_3 R\n"},
		{[]string{"-h", "-o", "%A", "-j", "7,,8,12,"}, "7\n8\n12\n"}, // as a loop over names leaves it
		{[]string{"-h", "--me", "-o%i|%A|%u"}, "7|7|ann\n20|20|ann\n"},
		{[]string{"--noh", "--form=%A", "--use", "bob"}, "8\n12\n"}, // names may be shortened
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
		"-s --json":  "squeue: error: --json does not list steps",
		"-u ,":       "squeue: error: --user is empty\n",
		"--st":       "squeue: error: option --st is ambiguous: it may stand for --start, --state",
		"--stx":      "squeue: error: unknown flag: --stx",
		"--jobs= -h": "squeue: error: --jobs is empty\n",
		"-h 7":       "squeue: error: Unrecognized option: 7\n",
		"-s x":       "squeue: error: Unrecognized option: x",
		"--steps=x":  "squeue: error: Invalid job_step id: x\n",
		"-t RUNING":  "squeue: error: Invalid job state specified: RUNING",
		"-M other":   "squeue: error: 'other' can't be reached now",
	} {
		code, out, said := run(t, a.URL, nil, append([]string{"squeue"}, strings.Fields(args)...)...)
		if code != 1 || out != "" || !strings.HasPrefix(said, want) {
			t.Errorf("squeue %s: %d\n%s%s\nwant\n%s", args, code, out, said, want)
		}
	}
}

// TestStepsThatRun: squeue and scontrol show them, with the scripts of their jobs.
func TestStepsThatRun(t *testing.T) {
	a := slurmtest.Lab(t)
	const header = "         STEPID     NAME PARTITION     USER      TIME NODELIST\n"
	script, step, other := "        7.batch    batch       gpu      ann     59:00 gpu01\n",
		"            7.2   python       gpu      ann     30:00 gpu[01-02]\n",
		"      8_3.batch    batch       gpu      ann     59:00 gpu01\n"
	extern, otherExtern := "       7.extern   extern       gpu      ann     59:00 gpu[01-02]\n",
		"     8_3.extern   extern       gpu      ann     59:00 gpu01\n"
	for args, want := range map[string]string{
		"-s": header + script + extern + step + other + otherExtern, "--steps=7": header + script + extern + step,
		"-s 7.2": header + step, "-h -s7.2,8_3.batch": step + other, "-h -s -j 8": other + otherExtern,
		"-h -s -u bob": "", "-s 8_3 -h": other + otherExtern, "-h -s 7.extern": extern,
		"-h -s -o %i|%M -S -i": "8_3.extern|59:00\n8_3.batch|59:00\n7.extern|59:00\n7.batch|59:00\n7.2|30:00\n",
	} {
		if code, out, said := run(t, a.URL, nil, append([]string{"squeue"}, strings.Fields(args)...)...); code != 0 ||
			out != want || said != "" {
			t.Errorf("squeue %s: %d\n%s%s\nwant\n%s", args, code, out, said, want)
		}
	}
	show := func(text string, oneLine bool) (string, error) {
		var out bytes.Buffer
		env := slurmtest.Env([]string{"ROTA_ADDR=" + a.URL})
		env.Stdout, env.Name = &out, "scontrol"
		env.Now = func() time.Time { return time.Date(2026, 11, 21, 13, 0, 0, 0, time.Local) }
		err := Show(t.Context(), &tool.Tool{Env: env}, strings.Fields("step "+text), &ShowOptions{OneLine: oneLine})
		return out.String(), err
	}
	want := "StepId=7.2 UserId=4000001 StartTime=2026-11-21T12:30:00 TimeLimit=UNLIMITED\n" +
		"   State=RUNNING Partition=gpu NodeList=gpu[01-02]\n   Nodes=2 CPUs=6 Tasks=3 Name=python Network=(null)\n" +
		"   TRES=cpu=6,gres/gpu=2,node=2\n   ResvPorts=(null)\n\n"
	if got, err := show("7.2", false); err != nil || got != want {
		t.Errorf("%v\n%s", err, got)
	}
	if got, err := show("", true); err != nil || strings.Count(got, "\n") != 5 ||
		!strings.Contains(got, "StepId=8_3.batch ") ||
		!strings.Contains(got, "StepId=7.extern UserId=4000001 StartTime=2026-11-21T12:01:00 TimeLimit=UNLIMITED "+
			"State=RUNNING Partition=gpu NodeList=gpu[01-02] Nodes=2 CPUs=0 Tasks=2 Name=extern Network=(null) TRES=(null) ") {
		t.Errorf("all: %v\n%s", err, got)
	}
	for text, want := range map[string]string{"7.9": "Job step 7.9 not found", "x": "Invalid job step id specified: x",
		"99.0": "Job step 99.0 not found"} {
		if got, err := show(text, false); got != "" || err == nil || err.Error() != want {
			t.Errorf("%s: %q %v", text, got, err)
		}
	}
}

// TestWhoseJobsSacctShows: those of the caller, unless it is root, asks for all or names jobs.
func TestWhoseJobsSacctShows(t *testing.T) {
	a := slurmtest.Lab(t)
	if os.Getuid() != 0 {
		if _, out, _ := run(t, a.URL, nil, "sacct", "-n", "-X"); out != "" {
			t.Errorf("jobs of others:\n%s", out)
		}
	}
	for args, want := range map[string]string{
		"-a -S 12:00":            "3 4 5 7 8_[4-9%2] 8_[2,11] 8_0 8_3 20 21 30 31",
		"-a -S 12:30":            "5 7 8_[4-9%2] 8_[2,11] 8_0 8_3 20 21 30 31",
		"-a -u bob":              "21",
		"-u 4000003":             "21",
		"-j 4":                   "4",
		"-j 4,99 -j 5":           "4 5",
		"-j 8_4":                 "8_4",
		"-j 8_[4,5,2],8_3,8_0":   "8_[4-5%2] 8_2 8_0 8_3",
		"-j 8_5,8,4":             "4 8_[4-9%2] 8_[2,11] 8_0 8_3",
		"-j 8 -j 8_5":            "8_[4-9%2] 8_[2,11] 8_0 8_3",
		"-j 8_10":                "",
		"-j 4_1":                 "",
		"-a -N gpu02 -S 12:45":   "7",
		"-a -S now -s PD":        "8_[4-9%2] 20 21",
		"-a -s OOM,F -S 2026-11": "",
		"-a -s OOM,F -S 11/21":   "4 5",
		"-a -r default":          "21",
		"-a -A maths":            "",
		"-a --name oom -S 12:00": "5",
	} {
		_, out, said := run(t, a.URL, nil, append([]string{"sacct", "-n", "-X", "-P", "-o", "jobid"},
			strings.Fields(args)...)...)
		if got := strings.Join(strings.Fields(out), " "); got != want {
			t.Errorf("sacct %s: %q %s, want %q", args, got, said, want)
		}
	}
}

// TestSacctAsksForStepsWhereItShowsThem: and for those that run of so many jobs only.
func TestSacctAsksForStepsWhereItShowsThem(t *testing.T) {
	a := slurmtest.Lab(t)
	asked := func(args ...string) string {
		before := len(a.Requests())
		if code, _, said := run(t, a.URL, nil, args...); code != 0 {
			t.Errorf("%q: %s", args, said)
		}
		var all strings.Builder
		for _, r := range a.Requests()[before:] {
			all.WriteString(r.What + "\n")
		}
		return all.String()
	}
	if got := asked("sacct", "-X", "-j", "7"); strings.Contains(got, "steps") {
		t.Errorf("without steps it asks for\n%s", got)
	}
	got := asked("sacct", "-j", "7")
	if strings.Count(got, "steps=true") != 2 || !strings.Contains(got, "/v1/jobs/7/steps\n") {
		t.Errorf("with steps it asks for\n%s", got)
	}
	var many []api.Job
	for i := range maxAsked + 1 {
		many = append(many, slurmtest.JobOf(model.JobID(i+100), "x", model.Running, "RUNNING", func(j *api.Job) {
			j.Started, j.Nodes = slurmtest.Minute(1), []string{"n1"}
		}))
	}
	a.On("GET /v1/jobs", rotatest.StreamOf(many))
	code, out, said := run(t, a.URL, nil, "sacct", "-a", "-n")
	if code != 0 || strings.Count(out, "RUNNING") != 3*len(many) ||
		!strings.HasPrefix(said, "sacct: error: 101 jobs are running, and the running steps of at most 100 jobs are shown") {
		t.Errorf("of many jobs: %d %s\n%s", code, said, out)
	}
}

// TestTimesOfSacct has the forms of times that clients write.
func TestTimesOfSacct(t *testing.T) {
	now := time.Date(2026, 11, 21, 13, 0, 0, 0, time.Local)
	for text, want := range map[string]string{
		"now": "2026-11-21T13:00:00", "midnight": "2026-11-21T00:00:00", "noon": "2026-11-21T12:00:00",
		"now-2days": "2026-11-19T13:00:00", "now+60": "2026-11-21T13:01:00", "now-3600": "2026-11-21T12:00:00",
		"now-1hour": "2026-11-21T12:00:00", "08:30": "2026-11-21T08:30:00", "2026-11-20": "2026-11-20T00:00:00",
		"2026-11-20T07:00": "2026-11-20T07:00:00", "11/20/26": "2026-11-20T00:00:00", "1120": "2026-11-20T00:00:00",
		"tomorrow": "2026-11-22T00:00:00", "11/20/26-07:15": "2026-11-20T07:15:00",
	} {
		if got, err := readTime(text, now); err != nil || got.Format("2006-01-02T15:04:05") != want {
			t.Errorf("%s is %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "soon", "now*2", "now-", "now-2fortnights", "13/20/26"} {
		if got, err := readTime(text, now); err == nil {
			t.Errorf("%q is %s", text, got)
		}
	}
}
