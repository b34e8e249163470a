package steps

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/cmd/rota/slurm/slurmtest"
	"github.com/rota-hpc/rota/cmd/rota/slurm/tool"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/stream"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// allocating is a controller whose job 7 waits for some answers, then runs, and ends when it is cancelled
// or, by itself, after lasts answers.
func allocating(t *testing.T, waits, lasts int) *rotatest.Answers {
	t.Helper()
	a := slurmtest.Accepting(t)
	var asked, cancelled, signals atomic.Int32
	a.On("GET /v1/jobs/7", func(w http.ResponseWriter, r *http.Request) {
		n := int(asked.Add(1))
		j := api.Job{ID: 7, Name: "x", User: "ann", Queue: "gpu", Account: "nlp", State: "PENDING", Code: model.Pending}
		switch {
		case signals.Load() > 1: // its shell has not set its trap at once
			j.State, j.Code = "COMPLETED", model.Completed
		case cancelled.Load() > 0 || n > waits+lasts:
			j.State, j.Code = "CANCELLED", model.Cancelled
		case n > waits:
			j.State, j.Code, j.Nodes = "RUNNING", model.Running, []string{"n1", "n2"}
		}
		rotatest.WhenAsked(0, j, j)(w, r)
	})
	a.On("POST /v1/jobs/7/cancel", func(w http.ResponseWriter, r *http.Request) {
		cancelled.Add(1)
		rotatest.WhenAsked(0, api.ControlResponse{}, api.ControlResponse{})(w, r)
	})
	a.On("POST /v1/jobs/7/signal", func(w http.ResponseWriter, r *http.Request) {
		signals.Add(1)
		rotatest.WhenAsked(0, api.ControlResponse{}, api.ControlResponse{})(w, r)
	})
	a.Refuse("POST /v1/jobs/7/exec", api.Problem{Status: http.StatusConflict, Code: api.CodeWrongState,
		Detail: "no shell"})
	return a
}

// released returns how an allocation was given back: what was executed in it, and with which signal; "" if it
// was not, or in another way.
func released(a *rotatest.Answers) string {
	how, signals := "", 0
	for _, r := range a.Requests() {
		switch r.What {
		case "POST /v1/jobs/7/exec":
			how = r.Body
		case "POST /v1/jobs/7/signal":
			if signals++; r.Body == `{"signal":"SIGURG","to":"script"}` && signals == 2 {
				return "URG " + how
			}
		case "POST /v1/jobs/7/cancel":
			return ""
		}
	}
	return ""
}

func isCancelled(a *rotatest.Answers) bool {
	return slices.ContainsFunc(a.Requests(), func(r rotatest.Request) bool { return r.What == "POST /v1/jobs/7/cancel" })
}

const always = 1 << 30

// runSalloc runs salloc with files, to which its command writes too.
func runSalloc(s slurmtest.Shell, args ...string) (code int, stdout, stderr string) {
	s.Helper()
	var files [2]*os.File
	for i := range files {
		f, err := os.Create(filepath.Join(s.TempDir(), strconv.Itoa(i)))
		if err != nil {
			s.Fatal(err)
		}
		defer f.Close()
		files[i] = f
	}
	env := slurmtest.Env(append([]string{"ROTA_ADDR=" + s.Addr}, s.Environ...))
	env.Stdin, env.Stdout, env.Stderr = strings.NewReader(s.Stdin), files[0], files[1]
	code = Commands.Run(s.Context(), append([]string{"salloc"}, args...), env, tool.Submitter{})
	out, err := os.ReadFile(files[0].Name())
	said, err2 := os.ReadFile(files[1].Name())
	if err != nil || err2 != nil {
		s.Fatal(err, err2)
	}
	return code, string(out), string(said)
}

// TestSalloc: the command runs here, with what srun reads, and its end gives the nodes back.
func TestSalloc(t *testing.T) {
	a := allocating(t, 2, always)
	s := slurmtest.Shell{T: t, Tools: Commands, Addr: a.URL, Stdin: "in\n",
		Environ: []string{"PATH=/usr/bin:/bin", "SLURM_GPUS=9", "SALLOC_PARTITION=gpu"}}
	show := `cat; echo $SLURM_JOB_ID $SLURM_JOB_NODELIST $SLURM_NNODES "$SLURM_TASKS_PER_NODE" $SLURM_NTASKS ` +
		`$SLURM_CPUS_PER_TASK $SLURM_JOB_PARTITION $SLURM_CLUSTER_NAME "$SLURM_GPUS" $ROTA_ADDR; exit 3`
	code, out, said := runSalloc(s, "-N2", "--ntasks-per-node=2", "-c3", "-t5", "-J", "x", "sh", "-c", show)
	want := "in\n7 n[1-2] 2 2(x2) 4 3 gpu dgx  " + a.URL + "\n"
	const messages = "salloc: Pending job allocation 7\nsalloc: job 7 queued and waiting for resources\n" +
		"salloc: job 7 has been allocated resources\nsalloc: Granted job allocation 7\n" +
		"salloc: Nodes n[1-2] are ready for job\nsalloc: Relinquishing job allocation 7\n"
	if code != 3 || out != want || said != messages || !strings.Contains(released(a), "echo exit 3 ") {
		t.Errorf("%d\n%s\nwant\n%s\n%s", code, out, want, said)
	}
	j := slurmtest.Submitted(t, a)
	task := j.Groups[0].Tasks[0]
	if j.Queue != "gpu" || j.Name != "x" || j.TimeLimit != 300 || j.RequeueExit != 0 || j.Groups[0].Count != 2 ||
		task.Launch.Type != jobspec.LaunchSteps || task.Launch.Nproc != 2 || task.Resources.Cores != 6 ||
		task.Log.Stdout != "" {
		t.Errorf("the job is %+v, its task %+v", j, task)
	}
	a = allocating(t, 0, always)
	s = slurmtest.Shell{T: t, Tools: Commands, Addr: a.URL, Environ: []string{"SHELL=/bin/sh"}, Stdin: "kill -9 $$\n"}
	if code, _, said := runSalloc(s, "-Q"); code != 128+9 || said != "" ||
		!strings.Contains(released(a), "echo signal 9 ") ||
		slurmtest.Submitted(t, a).Name != "interactive" {
		t.Errorf("a shell: %d %q", code, said)
	}
	a = allocating(t, 0, always)
	s.Addr = a.URL
	if code, _, said := runSalloc(s, "--no-shell"); code != 0 || isCancelled(a) ||
		said != "salloc: Granted job allocation 7\nsalloc: Nodes n[1-2] are ready for job\n" {
		t.Errorf("--no-shell: %d %q", code, said)
	}
}

// TestSallocGivesBack: an allocation whose command has succeeded ends without more ado, and one whose node does
// not answer is cancelled.
func TestSallocGivesBack(t *testing.T) {
	a := allocating(t, 0, always)
	s := slurmtest.Shell{T: t, Tools: Commands, Addr: a.URL}
	if code, _, said := runSalloc(s, "-Q", "true"); code != 0 || said != "" || released(a) != "URG " {
		t.Errorf("%d %q %q", code, said, released(a))
	}
	a = allocating(t, 0, always)
	a.Refuse("POST /v1/jobs/7/signal", api.Problem{Status: http.StatusBadGateway, Code: api.CodeInternal,
		Detail: "job 7 is on node n1, which does not answer"})
	s.Addr = a.URL
	if code, _, said := runSalloc(s, "-Q", "true"); code != 0 || said != "" || !isCancelled(a) {
		t.Errorf("its node is lost: %d %q", code, said)
	}
}

// TestSallocRevoked: the user is told that the nodes are gone, and with -K the command is signalled.
func TestSallocRevoked(t *testing.T) {
	const revoked = "salloc: Job allocation 7 has been revoked.\n"
	for _, flag := range []string{"-K", "-KUSR1", "--kill-command=15"} {
		s := slurmtest.Shell{T: t, Tools: Commands, Addr: allocating(t, 0, 1).URL}
		code, _, said := runSalloc(s, flag, "sleep", "1000")
		if want := map[string]int{"-KUSR1": 128 + 10}[flag]; code != max(want, 128+15-5*min(want, 1)) ||
			!strings.HasSuffix(said, revoked) {
			t.Errorf("%s: %d %q", flag, code, said)
		}
	}
	// without it the command goes on: here until a file is there that the message makes
	file := filepath.Join(t.TempDir(), "told")
	s := slurmtest.Shell{T: t, Tools: Commands, Addr: allocating(t, 0, 1).URL}
	if code, _, said := runSalloc(s, "sh", "-c", "trap 'exit 9' TERM HUP; sleep 0.3; echo >"+file); code != 0 ||
		!strings.HasSuffix(said, revoked) {
		t.Errorf("%d %q", code, said)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	a := allocating(t, 1, 0)
	s.Addr = a.URL
	if code, _, said := runSalloc(s, "true"); code != 1 || said != revoked+
		"salloc: error: Unable to allocate resources: job 7 is CANCELLED: \"rota status 7\" says more\n" {
		t.Errorf("ended before it ran: %d %q", code, said)
	}
	a = allocating(t, always, 0)
	s.Addr = a.URL
	if code, _, said := runSalloc(s, "-Q", "-I1", "true"); code != 1 || !isCancelled(a) ||
		said != "salloc: error: Unable to allocate resources: Requested nodes are busy\n" {
		t.Errorf("-I: %d %q", code, said)
	}
}

// TestSallocOfComponents: the command finds what srun reads of each component.
func TestSallocOfComponents(t *testing.T) {
	a := allocating(t, 0, always)
	s := slurmtest.Shell{T: t, Tools: Commands, Addr: a.URL,
		Environ: []string{"PATH=/usr/bin:/bin", "SLURM_JOB_ID_HET_GROUP_4=3", "SLURM_GPUS_PER_TASK=9"}}
	show := `echo $SLURM_HET_SIZE $SLURM_JOB_ID "$SLURM_JOB_ID_HET_GROUP_0 $SLURM_JOB_ID_HET_GROUP_4" ` +
		`$SLURM_JOB_NODELIST $SLURM_JOB_NODELIST_HET_GROUP_1 $SLURM_JOB_CPUS_PER_NODE_HET_GROUP_1 "$SLURM_GPUS_PER_TASK" ` +
		`$SLURM_GPUS_PER_TASK_HET_GROUP_1 $SLURM_NTASKS $SLURM_NTASKS_HET_GROUP_1 $SLURM_NNODES_HET_GROUP_1`
	code, out, said := runSalloc(s, "-n1", "-J", "x", ":", "-n2", "-c3", "--gpus-per-task=1", "sh", "-c", show)
	if want := "2 7 7  n1 n2 6  1 1 2 1\n"; code != 0 || out != want {
		t.Errorf("%d %q, want %q: %s", code, out, want, said)
	}
	j := slurmtest.Submitted(t, a)
	if len(j.Groups) != 2 || j.GangScope != jobspec.ScopeJob || j.Groups[1].Tasks[0].Resources.GPUs != 2 ||
		j.Groups[1].Tasks[0].Script != "" || j.Groups[0].Tasks[0].Script == "" {
		t.Errorf("the job is %+v", j)
	}
}

// TestSallocInterrupted: Ctrl-C while it waits cancels the job.
func TestSallocInterrupted(t *testing.T) {
	a := allocating(t, always, 0)
	var asked atomic.Int32
	a.On("GET /v1/jobs/7", func(w http.ResponseWriter, r *http.Request) {
		j := api.Job{ID: 7, State: "PENDING", Code: model.Pending}
		if asked.Add(1) == 3 {
			if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
				t.Error(err)
			}
		}
		rotatest.WhenAsked(0, j, j)(w, r)
	})
	s := slurmtest.Shell{T: t, Tools: Commands, Addr: a.URL}
	if code, _, said := runSalloc(s, "true"); code != 1 || !isCancelled(a) || said != "salloc: Pending job allocation 7\n"+
		"salloc: job 7 queued and waiting for resources\nsalloc: Job allocation 7 has been revoked.\n" {
		t.Errorf("%d %q", code, said)
	}
}

// TestSrunInSalloc: tasks start where the user has gone in a shell of salloc, and have the way to the
// controllers of their own node.
func TestSrunInSalloc(t *testing.T) {
	var got *api.StepRequest
	a := stepNode(t, "/v1/jobs/9/steps", func(c *stream.Conn, r *api.StepRequest) {
		got = r
		begin(t, c, []string{"n1"}, 1)
		send(t, c, frame(t, stream.End, all, api.StepEnd{}))
	})
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ submitted, args, want string }{{here, "a", ""}, {"/elsewhere", "a", here},
		{"/elsewhere", "--jobid=9 a", ""}, {"/elsewhere", "-D /w a", "/w"}} {
		got = nil
		env := []string{"SLURM_JOB_ID=9", "SLURM_SUBMIT_DIR=" + c.submitted, "Y=z"}
		code, _, said := run(t, a.URL, env, append([]string{"srun"}, strings.Fields(c.args)...)...)
		if code != 0 || got == nil || got.Workdir != c.want || !slices.Contains(got.Env, "Y=z") ||
			slices.ContainsFunc(got.Env, func(v string) bool { return strings.HasPrefix(v, "ROTA_") }) {
			t.Errorf("srun %s: %d %s, asked for %+v", c.args, code, said, got)
		}
	}
}

// TestSallocRefuses: a wrong command line submits nothing.
func TestSallocRefuses(t *testing.T) {
	a := slurmtest.Accepting(t)
	s := slurmtest.Shell{T: t, Tools: Commands, Addr: a.URL}
	for args, want := range map[string]string{
		"--array=1 true":       "--array is not a known flag (SB-004)",
		"-o x true":            "-o is not a known flag",
		"--x11 true":           "--x11 is not supported (SB-009): a step has no display",
		"-n x true":            "--ntasks ",
		"-K=nothing true":      "Invalid --kill-command specification: \"=nothing\" is no signal\n",
		"--immediate=x true":   "Invalid --immediate specification: \"x\"",
		"--no-shell true":      "--no-shell and the command \"true\" exclude each other\n",
		"-N1 /nowhere/at/all":  "Unable to find command \"/nowhere/at/all\": ",
		"-M other true":        "Unable to allocate resources: 'other' can't be reached now",
		"--reservation=r true": "--reservation is not supported (SB-009)",
		"-N2 -C [a|b] true":    "--constraint ",
	} {
		code, out, said := s.Call(append([]string{"salloc"}, strings.Fields(args)...)...)
		if code != 1 || out != "" || !strings.HasPrefix(said, "salloc: error: "+want) {
			t.Errorf("salloc %s: %d %q %q, want %q", args, code, out, said, want)
		}
	}
	for _, r := range a.Requests() {
		if r.What == "POST /v1/jobs" {
			t.Errorf("a wrong command line submitted %s", r.Body)
		}
	}
}

// TestSattach: the output of a running step, its labels and its exit code.
func TestSattach(t *testing.T) {
	a := stepNode(t, "/v1/none", func(*stream.Conn, *api.StepRequest) {})
	a.Give("GET /v1/jobs/7/steps", api.StepList{Items: []api.StepStatus{{Name: "a",
		StepBegun: api.StepBegun{Job: 7, Step: 2, Nodes: []string{"n1", "n2"}, Tasks: []int{1, 1}}}, {Waits: "Busy",
		StepBegun: api.StepBegun{Job: 7, Step: 3}}}})
	watched := false
	a.On("POST /v1/jobs/7/steps/2/attach", func(w http.ResponseWriter, r *http.Request) {
		var req api.StepAttach
		readLast(t, a, &req)
		watched = req.Watch
		c, err := api.AcceptStream(r.Context(), w, r)
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		send(t, c, frame(t, stream.Stdout, 1, "two\n"), frame(t, stream.Stderr, 0, "bad\n"),
			frame(t, stream.Stdout, 0, "rest"),
			frame(t, stream.Exit, 0, api.StepTaskExit{}), frame(t, stream.Exit, 1, api.StepTaskExit{Signal: 9}),
			frame(t, stream.End, all, api.StepEnd{}))
	})
	code, out, said := run(t, a.URL, nil, "sattach", "-l", "7.2")
	if code != 128+9 || out != "1: two\n0: rest\n" || said != "0: bad\n" || !watched {
		t.Errorf("%d %q %q, watched: %t", code, out, said, watched)
	}
	a.Refuse("GET /v1/jobs/99/steps", api.Problem{Status: 404, Code: api.CodeNotFound})
	a.Refuse("GET /v1/jobs/5/steps", api.Problem{Status: 409, Code: api.CodeWrongState, Detail: "job 5 has ended"})
	a.Give("GET /v1/jobs/5", api.Job{ID: 5, Code: "CD"})
	a.Refuse("GET /v1/jobs/3/steps", api.Problem{Status: 403, Code: api.CodeDenied, Detail: "job 3 is of ann on n1"})
	for args, want := range map[string]string{
		"99.0":                  "Could not get job step info: Invalid job id specified\n",
		"5.0":                   "Could not get job step info: Job/step already completing or completed\n",
		"3.0":                   "Could not get job step info: Access/permission denied\n",
		"":                      "one step is needed: sattach JOB.STEP, such as 7.0\n",
		"7.0 7.1":               "one step is needed",
		"7":                     "Invalid job step id specified: \"7\"",
		"x.0":                   "Invalid job id specified: \"x.0\"",
		"7.batch":               "step 7.batch is the batch script: \"rota logs -f 7\" shows its output\n",
		"7.3":                   "StepId=7.3: no such step is running\n",
		"7.9":                   "StepId=7.9: no such step is running\n",
		"--output-filter=0 7.2": "unknown flag: --output-filter",
	} {
		code, out, said := run(t, a.URL, nil, append([]string{"sattach"}, strings.Fields(args)...)...)
		if code != 1 || out != "" || !strings.HasPrefix(said, "sattach: error: "+want) {
			t.Errorf("sattach %s: %d %q %q, want %q", args, code, out, said, fmt.Sprint(want))
		}
	}
}
