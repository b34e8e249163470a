package steps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	"github.com/rota-hpc/rota/cmd/rota/input"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/cmd/rota/slurm/slurmtest"
	"github.com/rota-hpc/rota/cmd/rota/slurm/tool"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/stream"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/script/slurm"
)

// inJob is the environment of a batch script on two nodes, with two tasks on each.
var inJob = []string{"ROTA_JOB_ID=7", "SLURM_JOB_ID=7", "SLURM_JOB_NUM_NODES=2", "SLURM_NTASKS=4",
	"SLURM_NTASKS_PER_NODE=2", "SLURM_JOB_NAME=train", "USER=ann", "SLURM_PROCID=0", "RANK=3", "X=y"}

// stepNode answers for a node's daemon: script says what a step does, after what was asked for.
func stepNode(t *testing.T, path string, script func(c *stream.Conn, r *api.StepRequest)) *rotatest.Answers {
	t.Helper()
	a := rotatest.NewAnswers(t)
	onSteps(t, a, path, script)
	return a
}

// onSteps has a controller answer requests for steps by a script.
func onSteps(t *testing.T, a *rotatest.Answers, path string, script func(c *stream.Conn, r *api.StepRequest)) {
	t.Helper()
	a.On("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		var req api.StepRequest
		readLast(t, a, &req)
		c, err := api.AcceptStream(r.Context(), w, r)
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		script(c, &req)
	})
}

// readLast reads what was asked for last.
func readLast(t *testing.T, a *rotatest.Answers, to any) {
	t.Helper()
	asked := a.Requests()
	if err := json.Unmarshal([]byte(asked[len(asked)-1].Body), to); err != nil {
		t.Error(err)
	}
}

// send sends frames to srun.
func send(t *testing.T, c *stream.Conn, frames ...stream.Frame) {
	t.Helper()
	for _, f := range frames {
		if err := c.Write(f); err != nil {
			t.Error(err)
		}
	}
}

func frame(t *testing.T, kind stream.Kind, task int, value any) stream.Frame {
	t.Helper()
	if text, is := value.(string); is {
		return stream.Frame{Kind: kind, Task: uint32(task), Data: []byte(text)}
	}
	f, err := stream.JSON(kind, uint32(task), value)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

const all = stream.AllTasks

// begin tells srun that a step has begun, and that none of its input was taken.
func begin(t *testing.T, c *stream.Conn, nodes []string, tasks ...int) {
	t.Helper()
	send(t, c, frame(t, stream.Begun, all, api.StepBegun{Job: 7, Step: 2, Nodes: nodes, Tasks: tasks}), stream.Number(0))
}

// TestSrunAsks has command lines of Slurm's clients and manual, and what they ask the node for.
func TestSrunAsks(t *testing.T) {
	var got *api.StepRequest
	end := func(c *stream.Conn, r *api.StepRequest) {
		got = r
		begin(t, c, []string{"n1"}, 1)
		send(t, c, frame(t, stream.End, all, api.StepEnd{}))
	}
	a := stepNode(t, "/v1/steps", end)
	a.Give("GET /v1/jobs/7", api.Job{ID: 7, Spec: &jobspec.Job{Groups: []jobspec.Group{{Tasks: []jobspec.Task{{
		Mounts: []jobspec.Mount{{Source: "/p", Target: "/w"}}}}}}}})
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	hosts := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(hosts, []byte("n1\nn1\nn2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	const prog = `"programs":[{"argv":["./a"]}]`
	for args, want := range map[string]string{
		"./a":                            `{"name":"a",` + prog + `,"nodes":2,"tasks":4,"tasks_per_node":2}`,
		"-N1 -n1 ./a -n 3":               `{"name":"a","programs":[{"argv":["./a","-n","3"]}],"nodes":1,"tasks":1}`,
		"--nodes=1 --ntasks=1 -w n2 ./a": `{"name":"a",` + prog + `,"nodes":1,"node_list":["n2"],"tasks":1}`,
		"-r 1 -N1 -n 1 ./a":              `{"name":"a",` + prog + `,"nodes":1,"relative":1,"tasks":1}`,
		"-x n2 -n2 ./a":                  `{"name":"a",` + prog + `,"exclude":["n2"],"tasks":2,"tasks_per_node":2}`,
		"-w " + hosts + " ./a": `{"name":"a",` + prog +
			`,"nodes":2,"node_list":["n1","n2"],"tasks":4,"tasks_per_node":2}`,
		"-N 1-8 -n2 ./a": `{"name":"a",` + prog + `,"nodes":2,"tasks":2}`,
		"-n 4 --exclusive -c 2 --mem=1G --gres=gpu:a100:2 ./a": `{"name":"a",` + prog +
			`,"nodes":2,"tasks":4,"tasks_per_node":2,"cores_per_task":2,"memory":1073741824,"gpus_per_node":2,"exact":true}`,
		"--overlap --mem-per-cpu 512 -G 0 -m cyclic ./a": `{"name":"a",` + prog +
			`,"nodes":2,"tasks":4,"tasks_per_node":2,"cyclic":true,"memory_per_core":536870912,"gpus":-1,"overlap":true}`,
		"--gpus-per-task=1 --exact -K -W 60 -t 1:00 -J x -D /tmp ./a": `{"name":"x",` + prog +
			`,"workdir":"/tmp","nodes":2,"tasks":4,"tasks_per_node":2,"gpus_per_task":1,"exact":true,` +
			`"kill_on_bad_exit":true,"wait":60,"time_limit":60}`,
		"-O -n 9 ./a": `{"name":"a",` + prog + `,"nodes":2,"tasks":9,"overcommit":true}`,
		"--cpus-per-gpu=4 --gpus-per-node=2 ./a": `{"name":"a",` + prog +
			`,"nodes":2,"tasks":4,"tasks_per_node":2,"gpus_per_node":2,"cores_per_gpu":4,"exact":true}`,
		"--ntasks-per-gpu=2 --gpus-per-node=2 ./a": `{"name":"a",` + prog +
			`,"nodes":2,"tasks_per_node":4,"gpus_per_node":2}`,
		"--ntasks-per-gpu=1 -G 4 ./a": `{"name":"a",` + prog + `,"nodes":2,"tasks":4,"gpus_per_task":1}`,
		"--ntasks-per-gpu=2 -n 4 ./a": `{"name":"a",` + prog + `,"nodes":2,"tasks":4,"gpus":2}`,
		"-K0 -I ./a":                  `{"name":"a",` + prog + `,"nodes":2,"tasks":4,"tasks_per_node":2,"no_wait":true}`,
		"-K1 ./a -K1": `{"name":"a","programs":[{"argv":["./a","-K1"]}],"nodes":2,"tasks":4,"tasks_per_node":2,` +
			`"kill_on_bad_exit":true}`,
		// submitit, parsl, DeepSpeed, and the mpirun of OpenMPI
		"--unbuffered --output /dev/null --error /dev/null ./a": `{"name":"a",` + prog +
			`,"nodes":2,"tasks":4,"tasks_per_node":2}`,
		"--ntasks 4 -l bash ./a": `{"name":"bash","programs":[{"argv":["bash","./a"]}],"nodes":2,"tasks":4,` +
			`"tasks_per_node":2}`,
		"--exclusive --nodes 1 -l ./a": `{"name":"a",` + prog + `,"nodes":1,"tasks_per_node":2,"exact":true}`,
		"-N1 -w n[1-2] ./a":            `{"name":"a",` + prog + `,"nodes":1,"node_list":["n1"],"tasks_per_node":2}`,
		"-n 4 --export=ALL,A=1 ./a":    `{"name":"a",` + prog + `,"nodes":2,"tasks":4,"tasks_per_node":2}`,
		"--ntasks-per-node=1 --kill-on-bad-exit --mpi=none --cpu_bind=none --ntasks=1 --nodelist=n2 ./a": `{"name":"a",` +
			prog + `,"nodes":1,"node_list":["n2"],"tasks":1,"tasks_per_node":1,"kill_on_bad_exit":true}`,
		"--jobid 7 --overl ./a": `{"name":"a",` + prog + `,"nodes":2,"tasks":4,"tasks_per_node":2,"overlap":true}`,
		"-i none ./a":           `{"name":"a",` + prog + `,"nodes":2,"tasks":4,"tasks_per_node":2,"stdin":"none"}`,
		"--pty -n1 -N1 ./a":     `{"name":"a",` + prog + `,"nodes":1,"tasks":1,"terminal":{"rows":24,"columns":80}}`,
		"-i 3 ./a":              `{"name":"a",` + prog + `,"nodes":2,"tasks":4,"tasks_per_node":2,"stdin":"3"}`,
	} {
		got = nil
		code, out, said := run(t, a.URL, inJob, append([]string{"srun"}, strings.Fields(args)...)...)
		if got == nil {
			t.Errorf("srun %s: %d %s%s, and nothing was asked for", args, code, out, said)
			continue
		}
		if !slices.Contains(got.Env, "X=y") || slices.Contains(got.Env, "SLURM_PROCID=0") ||
			!slices.Contains(got.Env, "RANK=3") {
			t.Errorf("srun %s: environment %q", args, got.Env)
		}
		if got.Umask != input.Umask() {
			t.Errorf("srun %s: umask %q, and this process has %q", args, got.Umask, input.Umask())
		}
		if len(got.Key) != 32 || !got.Acks || !got.Losses {
			t.Errorf("srun %s: a lost connection would lose output, or start the step twice: %+v", args, got)
		}
		got.Env, got.Key, got.Acks, got.Losses, got.Umask = nil, "", false, false, 0
		if got.Workdir == here {
			got.Workdir = ""
		}
		b, err := json.Marshal(got)
		if text := strings.Replace(string(b), `,"env":null`, "", 1); err != nil || text != want || code != 0 || out != "" {
			t.Errorf("srun %s: %d %s%s, asked for\n%s, want\n%s", args, code, out, said, text, want)
		}
	}
	for args, want := range map[string]string{
		"":                           "srun: error: No command given to execute.\n",
		"-N 0 a":                     "srun: error: Invalid node count: \"0\"\n",
		"-n x a":                     "srun: error: Invalid numeric value \"x\" for --ntasks.\n",
		"-r 1 -w n1 a":               "srun: error: -r,--relative not allowed with",
		"--exact --whole a":          "srun: error: --exact and --whole are mutually exclusive.\n",
		"--mem=1G --mem-per-cpu=1 a": "srun: error: --mem and --mem-per-cpu are mutually exclusive.\n",
		"--gres=craynetwork:1 a": "srun: error: --gres=craynetwork:1: only GPUs can be requested: write " +
			"gpu:N\n",
		"-G x a":           "srun: error: Invalid --gpus specification: \"x\"\n",
		"-m plane=2 a":     "srun: error: --distribution=plane=2 is not supported: use block or",
		"--mpi=pmix a":     "srun: error: invalid MPI type 'pmix', --mpi=list for acceptable types: ",
		"--bcast=/tmp/x a": "srun: error: unknown flag: --bcast",
		"--het-group=x a":  "srun: error: Invalid --het-group specification: \"x\": write 0,2-3",
		"a : --overlap b":  "srun: error: --overlap=true applies to the whole step, not",
		"a : --het-group=0 b": "srun: error: a step has one part in each component, but component 0 is " +
			"named twice",
		"a : --multi-prog b":                     "srun: error: --multi-prog cannot be used with more than one",
		"a :":                                    "srun: error: No command given to execute.",
		"a : -N x b":                             "srun: error: Invalid node count: \"x\"",
		"-o %q a":                                "srun: error: the pattern \"%q\" has an unknown letter: %q\n",
		"--open-mode=x a":                        "srun: error: Invalid --open-mode specification",
		"--pty -o x a":                           "srun: error: --error/--input/--output are incompatible with --pty\n",
		"-i /nowhere/at/all a":                   "srun: error: Could not open stdin file: ",
		"-o /nowhere/at/all a":                   "srun: error: Could not open file for output: open /nowhere/at/all: no",
		"-e /dev/null/%t a":                      "srun: error: Could not open file for output: open /dev/null/0: perm",
		"-I60 a":                                 "srun: error: --immediate=60: write --immediate without",
		"-C a100 a":                              "srun: error: --constraint=a100 is not supported in a step: ",
		"--reservation=r a":                      "srun: error: --reservation=r is not supported in a step: ",
		"-t x a":                                 "srun: error: Invalid --time specification: \"x\"\n",
		"--jobid x a":                            "srun: error: Invalid job id specified\n",
		"--multi-prog /nowhere":                  "srun: error: Could not open multi_prog config file: ",
		"--ntasks-per-gpu=2 a":                   "srun: error: --ntasks-per-gpu needs --gpus, --gpus-per-node,",
		"--ntasks-per-gpu=2 -n3 a":               "srun: error: --ntasks-per-gpu=2 does not match 3 tasks",
		"--ntasks-per-gpu=2 --gpus-per-task=1 a": "srun: error: --ntasks-per-gpu is mutually",
		"--cpus-per-gpu=2 -c2 a":                 "srun: error: --cpus-per-gpu is mutually exclusive with --cpus-per-task.\n",
		"--container-mounts=/a:/b a":             "srun: error: --container-mounts=/a:/b: in the job nothing is",
		"--container-mounts=/o:/w a":             "srun: error: --container-mounts=/o:/w: in the job /p is",
		"--container-mounts=/p:/w:ro a":          "srun: error: --container-mounts=/p:/w:ro: in the job /p is mounted read-w",
		"--container-mounts=/p:/w:x a":           "srun: error: --container-mounts=/p:/w:x: ",
	} {
		if code, out, said := run(t, a.URL, inJob, append([]string{"srun"}, strings.Fields(args)...)...); code != 1 ||
			out != "" || !strings.HasPrefix(said, want) {
			t.Errorf("srun %s: %d %s%s, want %s", args, code, out, said, want)
		}
	}
	if code, _, said := run(t, a.URL, inJob, "srun", "-n1", "./a"); code != 0 ||
		said != "srun: Warning: can't run 1 processes on 2 nodes, setting nnodes to 1\n" {
		t.Errorf("one task on two nodes: %d %s", code, said)
	}
	if code, _, said := run(t, a.URL, inJob, "srun", "--tmp=1G", "--hint=compute_bound", "./a"); code != 0 ||
		said != "srun: warning: --tmp has no effect on a step\n" {
		t.Errorf("without effect: %d %s", code, said)
	}
	if code, _, said := run(t, a.URL, append(inJob, "SLURM_OVERLAP=x"), "srun", "./a"); code != 1 ||
		said != "srun: error: Unrecognized SLURM_OVERLAP value: x: write yes or no\n" {
		t.Errorf("a variable: %d %s", code, said)
	}
	if code, out, _ := run(t, a.URL, inJob, "srun", "--mpi=list"); code != 0 || !strings.Contains(out, "\tnone\n") {
		t.Errorf("--mpi=list: %d %s", code, out)
	}
	image := append(slices.Clone(inJob), slurm.ImageVariable+"=/images/nemo")
	args := []string{"srun", "--container-image=/images/nemo", "--container-mounts=/p/:/w,/proc:/proc",
		"--container-workdir=/w", "./a"}
	if code, _, said := run(t, a.URL, image, args...); code != 0 || got.Workdir != "/w" {
		t.Errorf("the job's image: %d %s %s", code, said, got.Workdir)
	}
	if code, _, said := run(t, a.URL, inJob, args...); code != 1 ||
		!strings.Contains(said, "a step runs in the image of its job") {
		t.Errorf("another image: %d %s", code, said)
	}
}

// TestSrunVariables: variables say what the command line does not.
func TestSrunVariables(t *testing.T) {
	var got *api.StepRequest
	a := stepNode(t, "/v1/steps", func(c *stream.Conn, r *api.StepRequest) {
		got = r
		begin(t, c, []string{"n1"}, 1)
		send(t, c, frame(t, stream.Stdout, 0, "x\n"), frame(t, stream.End, all, api.StepEnd{}))
	})
	env := append(slices.Clone(inJob), "SRUN_CPUS_PER_TASK=3", "SLURM_CPUS_PER_TASK=5", "SLURM_OVERLAP=1",
		"SLURM_LABELIO=1", "SLURM_KILL_BAD_EXIT=0", "SLURM_EXPORT_ENV=X,Z=1", "HOME=/home/ann",
		"SLURM_GPUS_PER_TASK=1", "SLURM_EXACT=no")
	code, out, said := run(t, a.URL, env, "srun", "-n1", "-N1", "a")
	if code != 0 || out != "0: x\n" || got.CoresPerTask != 3 || !got.Overlap || !got.Exact || got.KillOnBad ||
		got.GPUsPerTask != 1 {
		t.Errorf("%d %s%s %+v", code, out, said, got)
	}
	if !slices.Contains(got.Env, "X=y") || !slices.Contains(got.Env, "Z=1") ||
		slices.Contains(got.Env, "HOME=/home/ann") || !slices.Contains(got.Env, "SLURM_JOB_ID=7") {
		t.Errorf("chosen variables: %q", got.Env)
	}
	run(t, a.URL, env, "srun", "-n1", "-N1", "-G2", "--export", "NONE", "a")
	if got.GPUs != 2 || got.GPUsPerTask != 0 || slices.Contains(got.Env, "X=y") {
		t.Errorf("the command line outweighs variables: %+v", got)
	}
	run(t, a.URL, append(env, "SLURM_STEP_ID=1"), "srun", "--export=ALL,L='a,b'", "a")
	if slices.Contains(got.Env, "RANK=3") || !slices.Contains(got.Env, "L=a,b") {
		t.Errorf("in a step: %q", got.Env)
	}
}

// TestSrunOutput: labels, whole lines, files of tasks and nodes, messages, and the highest exit code.
func TestSrunOutput(t *testing.T) {
	script := func(c *stream.Conn, r *api.StepRequest) {
		send(t, c, frame(t, stream.Message, all, "Job 7 step creation temporarily disabled, retrying"))
		begin(t, c, []string{"n1", "n2.example.org"}, 1, 2)
		send(t, c, frame(t, stream.Stdout, 0, "on"), frame(t, stream.Stdout, 2, "two\nthree"),
			frame(t, stream.Stdout, 0, "e\n"), frame(t, stream.Stderr, 1, "bad\n"),
			frame(t, stream.Exit, 2, api.StepTaskExit{Code: 3}),
			frame(t, stream.Exit, 1, api.StepTaskExit{Signal: 9}), frame(t, stream.Exit, 0, api.StepTaskExit{}),
			frame(t, stream.End, all, api.StepEnd{StepTaskExit: api.StepTaskExit{Signal: 9}}))
	}
	a := stepNode(t, "/v1/steps", script)
	const messages = "srun: Job 7 step creation temporarily disabled, retrying\nsrun: Step created for StepId=7.2\n"
	const errs = "srun: error: n2.example.org: task 2: Exited with exit code 3\n" +
		"srun: error: n2.example.org: task 1: Killed\n"
	dir := t.TempDir()
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		}
		return string(b)
	}
	code, out, said := run(t, a.URL, inJob, "srun", "-l", "a")
	if code != 137 || out != "2: two\n0: one\n2: three\n" || said != messages+"1: bad\n"+errs {
		t.Errorf("labels: %d\n%s%s", code, out, said)
	}
	if code, out, said = run(t, a.URL, inJob, "srun", "-Q", "a"); out != "two\none\nthree" || said != "bad\n"+errs {
		t.Errorf("whole lines: %d\n%q%s", code, out, said)
	}
	if _, out, _ = run(t, a.URL, inJob, "srun", "-u", "a"); out != "ontwo\nthreee\n" {
		t.Errorf("unbuffered: %q", out)
	}
	if _, out, said = run(t, a.URL, inJob, "srun", "-o", "2", "-e", "none", "a"); out != "two\nthree" ||
		said != messages+errs {
		t.Errorf("output of one task: %q, %q", out, said)
	}
	_, out, said = run(t, a.URL, append(inJob, "SLURM_ARRAY_JOB_ID=5"), "srun", "-D", dir, "-o", "%j_%t_log.out", "-e",
		dir+"/%J_%3n_%N_%s_%x_%u_%A.err", "-l", "a")
	if out != "" || said != messages+errs || read("7_0_log.out") != "one\n" || read("7_2_log.out") != "two\nthree" ||
		read("7_1_log.out") != "" || read("7.2_001_n2_2_train_ann_5.err") != "1: bad\n" ||
		read("7.2_000_n1_2_train_ann_5.err") != "" {
		t.Errorf("files: %q %q", out, said)
	}
	for range 2 {
		run(t, a.URL, inJob, "srun", "-o", dir+"/all", "--open-mode=append", "a")
	}
	if got := read("all"); got != strings.Repeat("two\none\nbad\nthree", 2) {
		t.Errorf("one file, which goes on: %q", got)
	}
	run(t, a.URL, append(inJob, "SLURM_RESTART_COUNT=1"), "srun", "-o", dir+"/all", "-e", "none", "a")
	if got := read("all"); !strings.HasSuffix(got, "threetwo\none\nthree") {
		t.Errorf("a job that was requeued writes on: %q", got)
	}
	run(t, a.URL, inJob, "srun", "-o", dir+"/all", "-e", "none", "a")
	if got := read("all"); got != "two\none\nthree" {
		t.Errorf("otherwise it begins anew: %q", got)
	}
}

// TestSrunRefused: what the node refuses, and what ends without having begun.
func TestSrunRefused(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.Refuse("POST /v1/steps", api.Problem{Status: 422, Code: api.CodeInvalid,
		Detail: "More processors requested than permitted"})
	a.Refuse("POST /v1/jobs/9/steps", api.Problem{Status: 404, Code: api.CodeNotFound, Detail: "Invalid job id specified"})
	code, out, said := run(t, a.URL, inJob, "srun", "-n", "999", "a")
	if code != 1 || out != "" ||
		said != "srun: error: Unable to create step for job 7: More processors requested than permitted\n" {
		t.Errorf("too large: %d %s%s", code, out, said)
	}
	code, _, said = run(t, a.URL, nil, "srun", "--jobid=9", "--overlap", "a")
	if code != 1 || said != "srun: error: Unable to confirm allocation for job 9: Invalid job id specified\n"+
		"srun: Check SLURM_JOB_ID environment variable. Expired or invalid job 9\n" {
		t.Errorf("another job: %d %s", code, said)
	}
	a.Refuse("POST /v1/jobs/3/steps", api.Problem{Status: 403, Code: api.CodeDenied, Detail: "job 3 is of ann on n1"})
	a.Give("GET /v1/jobs/3", api.Job{ID: 3, Code: "R"})
	for _, flags := range []string{"--overlap", "--container-mounts=/a:/b"} {
		code, _, said = run(t, a.URL, nil, "srun", "--jobid=3", flags, "a")
		if code != 1 || said != "srun: error: Unable to confirm allocation for job 3: Access/permission denied\n"+
			"srun: Check SLURM_JOB_ID environment variable. Expired or invalid job 3\n" {
			t.Errorf("a job of another user, %s: %d %s", flags, code, said)
		}
	}
	a.Refuse("POST /v1/jobs/5/steps", api.Problem{Status: 409, Code: api.CodeWrongState, Detail: "job 5 has ended"})
	a.Give("GET /v1/jobs/5", api.Job{ID: 5, Code: "CD"})
	code, _, said = run(t, a.URL, nil, "srun", "--jobid=5", "--overlap", "a")
	if code != 1 || said != "srun: error: Slurm job 5 has expired\n"+
		"srun: Check SLURM_JOB_ID environment variable. Expired or invalid job 5\n" {
		t.Errorf("a job that has ended: %d %s", code, said)
	}
	b := stepNode(t, "/v1/steps", func(c *stream.Conn, _ *api.StepRequest) {
		send(t, c, frame(t, stream.End, all, api.StepEnd{Why: "Requested nodes are busy"}))
	})
	code, _, said = run(t, b.URL, inJob, "srun", "-I", "a")
	if code != 1 || said != "srun: error: Unable to create step for job 7: Requested nodes are busy\n" {
		t.Errorf("busy: %d %s", code, said)
	}
	c := stepNode(t, "/v1/steps", func(c *stream.Conn, _ *api.StepRequest) {
		begin(t, c, []string{"n1"}, 1)
		send(t, c, frame(t, stream.Exit, 0, api.StepTaskExit{OOM: true, Signal: 9}),
			frame(t, stream.End, all, api.StepEnd{Why: "its time limit of 1m was reached"}))
	})
	code, _, said = run(t, c.URL, inJob, "srun", "a")
	if code != 253 || said != "srun: error: n1: task 0: Out Of Memory\n"+
		"srun: error: Job step aborted: its time limit of 1m was reached\n" {
		t.Errorf("aborted: %d %s", code, said)
	}
	killed := make(chan error, 1)
	d := stepNode(t, "/v1/steps", func(c *stream.Conn, _ *api.StepRequest) {
		begin(t, c, []string{"n1"}, 1)
		for {
			f, err := c.Read()
			if err == nil && f.Kind != stream.Signal {
				continue
			}
			for range 64 { // one that does not wait for the end takes no more
				err = errors.Join(err, c.Write(stream.Frame{Kind: stream.Message, Data: make([]byte, stream.MaxData)}))
			}
			killed <- errors.Join(err, c.WriteJSON(stream.End, all, api.StepEnd{}))
			return
		}
	})
	code, _, said = run(t, d.URL, inJob, "srun", "-o", "/nowhere/%s/all", "a")
	if err := <-killed; err != nil || code != 1 ||
		!strings.HasPrefix(said, "srun: error: Could not open file for output: ") {
		t.Errorf("no file: %d %s, and the step is not killed and waited for: %v", code, said, err)
	}
}

// TestSrunIntoAJob: without a job there is no step, and --jobid goes to a controller.
func TestSrunIntoAJob(t *testing.T) {
	a := stepNode(t, "/v1/jobs/9/steps", func(c *stream.Conn, r *api.StepRequest) {
		begin(t, c, []string{"n1"}, 1)
		send(t, c, frame(t, stream.Stdout, 0, r.Workdir+"|\n"), frame(t, stream.End, all, api.StepEnd{}))
	})
	for _, args := range [][]string{{"--jobid=9"}, {"--jobid", "9", "--overlap"}, {"-N", "1", "--jobid", "9"}} {
		code, out, said := run(t, a.URL, nil, append(append([]string{"srun"}, args...), "hostname")...)
		if code != 0 || out != "|\n" || said != "" {
			t.Errorf("%q: %d %q %q", args, code, out, said)
		}
	}
	code, out, said := run(t, a.URL, []string{"SLURM_JOB_ID=9"}, "srun", "hostname") // a shell of salloc
	if code != 0 || out != "|\n" || said != "" {
		t.Errorf("salloc: %d %q %q", code, out, said)
	}
	if call := newTool(nil); startsStep(call, []string{"python", "--jobid=9"}) || startsStep(call, []string{"-N1", "a"}) {
		t.Error("an argument of the command is taken for one of srun's")
	}
}

// TestSrunInput: the tasks get srun's standard input, as fast as they take it.
func TestSrunInput(t *testing.T) {
	a := stepNode(t, "/v1/steps", func(c *stream.Conn, _ *api.StepRequest) {
		begin(t, c, []string{"n1"}, 1)
		taken := int64(0)
		for {
			f, err := c.Read()
			if err != nil || f.Kind == stream.StdinEnd {
				break
			}
			if f.Kind == stream.Stdin {
				taken += int64(len(f.Data))
				send(t, c, stream.Frame{Kind: stream.Stdout, Data: f.Data}, stream.Number(taken))
			}
		}
		send(t, c, frame(t, stream.End, all, api.StepEnd{}))
	})
	text := strings.Repeat("0123456789abcdef", 100_000)
	code, out, said := slurmtest.RunWith(t, Commands, a.URL, inJob, strings.NewReader(text), "srun", "cat")
	if code != 0 || out != text || said != "" {
		t.Errorf("%d, %d bytes, %s", code, len(out), said)
	}
}

// TestSrunInputOfANamedPipe: srun asks for its step before its input has a writer.
func TestSrunInputOfANamedPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	a := stepNode(t, "/v1/steps", func(c *stream.Conn, _ *api.StepRequest) {
		begin(t, c, []string{"n1"}, 1)
		if err := os.WriteFile(path, []byte("in\n"), 0); err != nil {
			t.Error(err)
		}
		send(t, c, stream.Number(0))
		for {
			f, err := c.Read()
			if err != nil || f.Kind == stream.StdinEnd {
				break
			}
			if f.Kind == stream.Stdin {
				send(t, c, stream.Frame{Kind: stream.Stdout, Data: f.Data}, stream.Number(int64(len(f.Data))))
			}
		}
		send(t, c, frame(t, stream.End, all, api.StepEnd{}))
	})
	if code, out, said := run(t, a.URL, inJob, "srun", "-i", path, "cat"); code != 0 || out != "in\n" || said != "" {
		t.Errorf("%d %q %q", code, out, said)
	}
}

// TestSrunGoesOn: a connection that is lost is made again, and the output goes on where it was.
func TestSrunGoesOn(t *testing.T) {
	var from [][]int64
	var away atomic.Bool
	a := stepNode(t, "/v1/steps", func(c *stream.Conn, _ *api.StepRequest) {
		begin(t, c, []string{"n1", "n2"}, 1, 1)
		send(t, c, frame(t, stream.Stdout, 0, "one\n"), frame(t, stream.Stdout, 1, "two\n"), frame(t, stream.Stdout, 1, "x"))
	})
	a.On("POST /v1/steps/2/attach", func(w http.ResponseWriter, r *http.Request) {
		var req api.StepAttach
		readLast(t, a, &req)
		if away.CompareAndSwap(true, false) { // its node's daemon is restarted
			api.WriteProblem(w, http.StatusBadGateway, api.CodeInternal, "job 7 is on node n1, which does not answer")
			return
		}
		from = append(from, req.From)
		c, err := api.AcceptStream(r.Context(), w, r)
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		begin(t, c, []string{"n1", "n2"}, 1, 1)
		if len(from) == 1 {
			send(t, c, frame(t, stream.Exit, 0, api.StepTaskExit{}))
			away.Store(true)
			return
		}
		send(t, c, frame(t, stream.Stdout, 1, "yz\n"), frame(t, stream.Exit, 1, api.StepTaskExit{Code: 2}),
			frame(t, stream.End, all, api.StepEnd{StepTaskExit: api.StepTaskExit{Code: 2}}))
	})
	code, out, said := run(t, a.URL, inJob, "srun", "-n2", "-i", "none", "a") // no input that is lost with it
	if code != 2 || out != "one\ntwo\nxyz\n" || said != "srun: StepId=7.2 continues without a connection; "+
		"srun tries to reconnect\nsrun: error: n2: task 1: Exited with exit code 2\n" {
		t.Errorf("%d %q %q", code, out, said)
	}
	if got, want := fmt.Sprint(from), "[[13 23] [32 23]]"; got != want {
		t.Errorf("it asked for what comes behind %s, want %s", got, want)
	}
	b := stepNode(t, "/v1/steps", func(c *stream.Conn, _ *api.StepRequest) { begin(t, c, []string{"n1"}, 1) })
	b.Refuse("POST /v1/steps/2/attach", api.Problem{Status: 404, Code: api.CodeNotFound, Detail: "there is no step 7.2"})
	code, _, said = run(t, b.URL, inJob, "srun", "a")
	if code != 1 || said != "srun: error: StepId=7.2 was lost: there is no step 7.2\n" {
		t.Errorf("%d %q", code, said)
	}
}

// TestSrunAsksAgain: a connection that is lost before the step begins is made again, for the same request.
func TestSrunAsksAgain(t *testing.T) {
	var keys []string
	a := stepNode(t, "/v1/steps", func(c *stream.Conn, r *api.StepRequest) {
		if keys = append(keys, r.Key); len(keys) == 1 {
			send(t, c, frame(t, stream.Message, all, "Job 7 step creation temporarily disabled"))
			return // and the connection is closed
		}
		begin(t, c, []string{"n1"}, 1)
		send(t, c, frame(t, stream.Stdout, 0, "one\n"), frame(t, stream.End, all, api.StepEnd{}))
	})
	code, out, said := run(t, a.URL, inJob, "srun", "-n1", "-Q", "a")
	if code != 0 || out != "one\n" || said != "" || len(keys) != 2 || keys[0] == "" || keys[0] != keys[1] {
		t.Errorf("%d %q %q, keys %q", code, out, said, keys)
	}
	tries := 0
	b := rotatest.NewAnswers(t)
	b.On("POST /v1/steps", func(w http.ResponseWriter, r *http.Request) {
		if tries++; tries > 1 {
			api.WriteProblem(w, http.StatusConflict, api.CodeWrongState,
				"step 7.0 ended while no program was reading its output")
		} else if c, err := api.AcceptStream(r.Context(), w, r); err == nil {
			c.Close()
		}
	})
	code, _, said = run(t, b.URL, inJob, "srun", "-n1", "-Q", "a")
	if code != 1 || tries != 2 || !strings.HasPrefix(said, "srun: error: Unable to create step for job 7: ") ||
		!strings.Contains(said, "ended while no program was reading its output") {
		t.Errorf("%d %q after %d tries", code, said, tries)
	}
}

// TestSrunAcknowledges: what it has written of the output of a node is not kept there any more.
func TestSrunAcknowledges(t *testing.T) {
	acked := make([]int64, 2)
	a := stepNode(t, "/v1/steps", func(c *stream.Conn, _ *api.StepRequest) {
		begin(t, c, []string{"n1", "n1"}, 1, 1) // as with two workers of a job on a node
		piece := strings.Repeat("x", 30_000)
		for range 10 {
			send(t, c, frame(t, stream.Stdout, 0, "y"), frame(t, stream.Stdout, 1, piece))
		}
		for acked[1] < 8*30_000 {
			f, err := c.Read()
			if err != nil {
				t.Errorf("only %v are acknowledged: %v", acked, err)
				break
			}
			if n, err := f.Offset(); err == nil {
				acked[f.Task] = n
			}
		}
		send(t, c, frame(t, stream.End, all, api.StepEnd{}))
	})
	code, out, said := run(t, a.URL, inJob, "srun", "-i", "none", "a")
	if code != 0 || len(out) != 300_010 || said != "" || acked[0] != 0 || acked[1]%(9+30_000) != 0 {
		t.Errorf("%d, %d bytes, %s, acknowledged %v", code, len(out), said, acked)
	}
}

// TestSrunSignals: the first Ctrl-C tells what runs, one that follows goes to the tasks, a third one
// kills them, and other signals are passed on.
func TestSrunSignals(t *testing.T) {
	got := make(chan string, 10)
	call, stderr := newTool(nil), &strings.Builder{}
	call.Name, call.Stderr = "srun", stderr
	now := time.Unix(1000, 0)
	call.Now = func() time.Time { return now }
	near, far := pipes()
	defer near.Close()
	line := &srunLine{values: map[string]string{}}
	s := &stepRun{Tool: call, line: line, job: "7", begun: true, running: map[uint32]bool{1: true}, conn: stream.New(near),
		output: &stepOutput{line: line, nodes: []int{0, 0, 1}, begun: api.StepBegun{Job: 7, Step: 2}}}
	go func() {
		c := stream.New(far)
		for {
			f, err := c.Read()
			if err != nil {
				close(got)
				return
			}
			got <- string(f.Data)
		}
	}()
	var in interrupts
	press := func(sig syscall.Signal) {
		if err := s.signalled(&in, sig); err != nil {
			t.Error(err)
		}
	}
	press(syscall.SIGUSR1)
	press(syscall.SIGINT)
	now = now.Add(2 * time.Second)
	press(syscall.SIGINT)
	now = now.Add(500 * time.Millisecond)
	press(syscall.SIGINT)
	press(syscall.SIGINT)
	for _, want := range []string{"SIGUSR1", "SIGINT", "SIGKILL"} {
		if sig := <-got; sig != want {
			t.Errorf("the tasks got %s, want %s", sig, want)
		}
	}
	const told = "srun: interrupt (one more within 1 sec to abort)\nsrun: StepId=7.2 task 1: running, tasks 0,2: exited\n"
	want := told + told + "srun: sending Ctrl-C to StepId=7.2\nsrun: forcing job termination\n"
	if stderr.String() != want {
		t.Errorf("it said\n%s, want\n%s", stderr, want)
	}
	s.base = "/v1/steps"
	signals := make(chan os.Signal, 2)
	signals <- syscall.SIGUSR1
	signals <- syscall.SIGTERM
	silent := rotatest.NewAnswers(t)
	silent.On("POST /v1/steps/2/attach", func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
	})
	call.Getenv = func(name string) string { return map[string]string{"ROTA_ADDR": silent.URL}[name] }
	var err error
	if s.session, err = call.Connect(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var code *exit.CodeError
	if _, err := s.again(ctx, io.EOF, signals); !errors.As(err, &code) || code.Code != 143 ||
		!strings.HasSuffix(stderr.String(), "srun: error: StepId=7.2 did not get SIGUSR1: the connection to it is "+
			"lost\nsrun: StepId=7.2 continues without srun, which could not reconnect: scancel ends it\n") {
		t.Errorf("without a connection: %v %s", err, stderr)
	}
	stop()
	s.begun = false
	if err := s.signalled(&in, syscall.SIGTERM); err == nil || !strings.HasSuffix(stderr.String(),
		"srun: Cancelled pending step for job 7\n") {
		t.Errorf("before it began: %v %s", err, stderr)
	}
}

// TestFailuresOfSeveralTasks: those of a node that fail alike are on one line.
func TestFailuresOfSeveralTasks(t *testing.T) {
	a := stepNode(t, "/v1/steps", func(c *stream.Conn, _ *api.StepRequest) {
		begin(t, c, []string{"n1", "n2"}, 3, 2)
		for task, x := range []api.StepTaskExit{{Code: 3}, {Signal: 9}, {Code: 3}, {Code: 3}, {}} {
			send(t, c, frame(t, stream.Exit, task, x))
		}
		send(t, c, frame(t, stream.End, all, api.StepEnd{StepTaskExit: api.StepTaskExit{Code: 3}}))
	})
	const want = "srun: error: n1: tasks 0,2: Exited with exit code 3\n" +
		"srun: error: n1: task 1: Killed\n" +
		"srun: error: n2: task 3: Exited with exit code 3\n"
	if code, out, said := run(t, a.URL, inJob, "srun", "a"); code != 137 || out != "" || said != want {
		t.Errorf("%d %s%s", code, out, said)
	}
}

// TestMultiProg reads configuration files of the manual's form.
func TestMultiProg(t *testing.T) {
	for _, c := range []struct {
		text  string
		tasks int
		want  string
	}{
		{"# comment\n4-6 hostname\n1,7 echo task:%t\n0,2-3 echo 'off set':%o\n", 8,
			"[{[4 5 6] [hostname]} {[1] [echo task:1]} {[7] [echo task:7]} {[0] [echo off set:0]} {[2] [echo off set:1]} " +
				"{[3] [echo off set:2]}]"},
		{"0 a \\\n  b\n* c\n", 0, "[{[0] [a b]} {[] [c]}]"},
		{"0 a\n* c %t\n", 3, "[{[0] [a]} {[1] [c 1]} {[2] [c 2]}]"},
		{"0 a\n0 b\n", 1, "line 2: task 0 is named twice"},
		{"0 a\n", 2, "no record for task id 1"},
		{"0-1 a\n\n2 b\n", 2, "line 3: Invalid task id, 2 >= ntasks"},
		{"* a\n0 b\n", 2, "line 2: * stands for all remaining tasks, and must be last"},
		{"* a %t\n", 0, "line 1: %t and %o in the line for * need the number of tasks: give it with -n"},
		{"x a\n", 1, "line 1: \"x\" is no list of tasks: write 0-3,7"},
		{"0\n", 1, "line 1: a program is missing"},
		{"0 'a\n", 1, "line 1: the quote ' is not closed"},
		{"0-99999999 a\n", 1, "line 1: \"0-99999999\" is no list of tasks: write 0-3,7"},
		{"", 0, "the line has no program"},
	} {
		list, err := readMultiProg(c.text, c.tasks)
		got := fmt.Sprint(list)
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%q: %s, want %s", c.text, got, c.want)
		}
	}
}

// TestSrunInComponents notices a step that has no part in a component which it names, or that asks there for
// what another component has.
func TestSrunInComponents(t *testing.T) {
	var got *api.StepRequest
	a := stepNode(t, "/v1/steps", func(c *stream.Conn, r *api.StepRequest) {
		got = r
		begin(t, c, []string{"n1"}, 1)
		send(t, c, frame(t, stream.End, all, api.StepEnd{}))
	})
	env := slices.Concat(inJob, []string{"SLURM_HET_SIZE=3", "SLURM_JOB_NUM_NODES_HET_GROUP_1=3",
		"SLURM_NTASKS_HET_GROUP_1=7", "SLURM_GPUS_PER_TASK_HET_GROUP_2=2", "SLURM_DISTRIBUTION_HET_GROUP_2=cyclic"})
	const first = `"nodes":2,"tasks":4,"tasks_per_node":2`
	program := func(name string) string { return `"programs":[{"argv":["` + name + `"]}]` }
	for args, want := range map[string]string{
		"a":                   `{"name":"a",` + program("a") + `,` + first + `}`,
		"--het-group=0 a":     `{"name":"a",` + program("a") + `,` + first + `}`,
		"--het-group=1 a":     `{"name":"a",` + program("a") + `,"group":1,"nodes":3,"tasks":7}`,
		"--het-group=1 -N1 a": `{"name":"a",` + program("a") + `,"group":1,"nodes":1,"tasks":1}`,
		"--het-group=2,0 --exact a": `{"name":"a",` + program("a") + `,"more":[{` + program("a") +
			`,"group":2,"cyclic":true,"gpus_per_task":2,"exact":true}],` + first + `,"exact":true}`,
		"-l -n1 a : b": `{"name":"a",` + program("a") + `,"more":[{` + program("b") +
			`,"group":1,"nodes":3,"tasks":7}],"nodes":1,"tasks":1}`,
		"-n1 : -n2 : c": `{"name":"c",` + program("c") + `,"more":[{` + program("c") + `,"group":1,"nodes":2,"tasks":2},{` +
			program("c") + `,"group":2,"cyclic":true,"gpus_per_task":2}],"nodes":1,"tasks":1}`,
		"-J x --het-group=1 -x n3 a : --het-group=0 -J x b": `{"name":"x",` + program("a") + `,"group":1,"more":[{` +
			program("b") + `,"exclude":["n3"],"tasks":4,"tasks_per_node":2}],"exclude":["n3"],"tasks":7}`,
	} {
		got = nil
		code, out, said := run(t, a.URL, env, append([]string{"srun"}, strings.Fields(args)...)...)
		if got == nil {
			t.Errorf("srun %s: %d %s%s, and nothing was asked for", args, code, out, said)
			continue
		}
		if got.Key == "" || !got.Acks {
			t.Errorf("srun %s: key %q, acknowledges %v", args, got.Key, got.Acks)
		}
		got.Env, got.Workdir, got.Key, got.Acks, got.Losses, got.Umask = nil, "", "", false, false, 0
		for i := range got.More {
			if got.More[i].Env != nil || got.More[i].Workdir == "" {
				t.Errorf("srun %s: environment %v, directory %q", args, got.More[i].Env, got.More[i].Workdir)
			}
			got.More[i].Workdir = ""
		}
		b, err := json.Marshal(got)
		if text := strings.ReplaceAll(string(b), `,"env":null`, ""); err != nil || text != want || code != 0 || out != "" {
			t.Errorf("srun %s: %d %s%s, asked for\n%s, want\n%s", args, code, out, said, text, want)
		}
	}
	got = nil
	run(t, a.URL, env, "srun", "a", ":", "--export=Z=1", "b")
	if got == nil || !slices.Contains(got.Env, "X=y") || slices.Contains(got.Env, "Z=1") || len(got.More) != 1 ||
		!slices.Contains(got.More[0].Env, "Z=1") || slices.Contains(got.More[0].Env, "X=y") {
		t.Errorf("asked for %+v", got)
	}
}

// pipes returns both ends of a connection.
func pipes() (near, far io.ReadWriteCloser) {
	r1, w1 := io.Pipe()
	r2, w2 := io.Pipe()
	return pipeEnd{r1, w2}, pipeEnd{r2, w1}
}

type pipeEnd struct {
	io.ReadCloser
	io.Writer
}

// run runs a command line before a controller, and returns exit code, output and errors.
func run(t testing.TB, addr string, environ []string, args ...string) (int, string, string) {
	t.Helper()
	return slurmtest.Run(t, Commands, addr, environ, args...)
}

func newTool(environ []string) *tool.Tool { return &tool.Tool{Env: slurmtest.Env(environ)} }
