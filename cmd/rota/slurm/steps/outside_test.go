package steps

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/cmd/rota/slurm/slurmtest"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/stream"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/script"
)

// outside is a controller that gives an allocation after it was asked for it so many times, whose step ends in a
// way. asked gets what is asked for of the step.
func outside(t *testing.T, waits int, end api.StepEnd, asked *api.StepRequest) *rotatest.Answers {
	t.Helper()
	a := allocating(t, waits, always)
	onSteps(t, a, "/v1/jobs/7/steps", func(c *stream.Conn, r *api.StepRequest) {
		*asked = *r
		begin(t, c, []string{"n1", "n2"}, 1, 1)
		send(t, c, frame(t, stream.Stdout, 1, "out\n"), frame(t, stream.Exit, 0, end.StepTaskExit),
			frame(t, stream.Exit, 1, api.StepTaskExit{}), frame(t, stream.End, all, end))
	})
	return a
}

// TestSrunOutside: outside of a job srun asks for an allocation, runs a step on all of it, and has it end as the
// step does.
func TestSrunOutside(t *testing.T) {
	var got api.StepRequest
	a := outside(t, 2, api.StepEnd{StepTaskExit: api.StepTaskExit{Code: 3}}, &got)
	s := slurmtest.Shell{T: t, Tools: Commands, Addr: a.URL, Environ: []string{"SLURM_PARTITION=long",
		"SLURM_IMMEDIATE=50", "SLURM_TIMELIMIT=9", "ROTA_TOKEN="}}
	code, out, said := s.Call("srun", "-N2", "-n4", "-c2", "--gpus-per-task=1", "-J", "x", "-t5", "--mem=1G", "-lK", "-W9",
		"--export=ALL,A=b", "echo", "it's", "-n", "9")
	const messages = "srun: job 7 queued and waiting for resources\nsrun: job 7 has been allocated resources\n" +
		"srun: error: n1: task 0: Exited with exit code 3\n"
	if code != 3 || out != "1: out\n" || said != messages || !strings.Contains(released(a), "echo exit 3 ") {
		t.Errorf("%d %q %q, given back by %q", code, out, said, released(a))
	}
	j := slurmtest.Submitted(t, a)
	g := j.Groups[0]
	task := g.Tasks[0]
	if g.Count != 2 || task.Launch.Type != jobspec.LaunchSteps || task.Launch.Nproc != 2 || task.Resources.Cores != 4 ||
		task.Resources.GPUs != 2 || j.Name != "x" || j.Queue != "long" || j.TimeLimit != 300 || task.Log.Stdout != "" ||
		j.RequeueExit != 0 || j.Workdir != "" {
		t.Errorf("the job is %+v, its task %+v", j, task)
	}
	if !slices.Equal(got.Programs[0].Argv, []string{"echo", "it's", "-n", "9"}) || got.Name != "x" || got.Nodes != 2 ||
		got.Tasks != 4 || got.CoresPerTask != 2 || got.GPUsPerTask != 1 || !got.KillOnBad || got.Wait != 9 || got.NoWait ||
		got.TimeLimit != 0 || got.Memory != 0 || got.Workdir != "" {
		t.Errorf("the step is %+v", got)
	}
	for _, want := range []string{"A=b", "SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=n[1-2]", "SLURM_CLUSTER_NAME=dgx"} {
		if !slices.Contains(got.Env, want) {
			t.Errorf("the tasks do not have %s: %q", want, got.Env)
		}
	}
}

// TestSrunOutsideEnds: the job ends as the step does, by a signal too, and its files are here.
func TestSrunOutsideEnds(t *testing.T) {
	var got api.StepRequest
	dir := t.TempDir()
	in := filepath.Join(dir, "in")
	if err := os.WriteFile(in, []byte("in\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := outside(t, 0, api.StepEnd{StepTaskExit: api.StepTaskExit{Signal: 9}}, &got)
	s := slurmtest.Shell{T: t, Tools: Commands, Addr: a.URL}
	code, out, said := s.Call("srun", "-N2", "-o", filepath.Join(dir, "%j.%t"), "-i", in, "/bin/hostname")
	if code != 128+9 || out != "" || said != "srun: error: n1: task 0: Killed\n" ||
		!strings.Contains(released(a), "echo signal 9 ") || slurmtest.Submitted(t, a).Name != "hostname" {
		t.Errorf("%d %q %q, given back by %q", code, out, said, released(a))
	}
	if b, err := os.ReadFile(filepath.Join(dir, "7.1")); string(b) != "out\n" {
		t.Errorf("the file has %q, %v", b, err)
	}
	a = outside(t, 0, api.StepEnd{}, &got)
	s.Addr, s.Environ = a.URL, []string{"SLURM_NTASKS=2", "SRUN_CPUS_PER_TASK=3"}
	if code, _, said := s.Call("srun", "-Q", "--pty", "bash", "-l"); code != 0 || said != "" || released(a) != "URG " ||
		got.Terminal == nil || got.Tasks != 2 || got.CoresPerTask != 3 ||
		slurmtest.Submitted(t, a).Groups[0].Tasks[0].Resources.Cores != 6 {
		t.Errorf("at a terminal: %d %q, the step is %+v", code, said, got)
	}
	a = allocating(t, 0, always)
	a.Refuse("POST /v1/jobs/7/steps", api.Problem{Status: 409, Code: api.CodeWrongState, Detail: "no"})
	s.Addr, s.Environ = a.URL, nil
	if code, _, said := s.Call("srun", "true"); code != 1 ||
		said != "srun: error: Unable to create step for job 7: no\n" || !strings.Contains(released(a), "echo exit 1 ") {
		t.Errorf("refused: %d %q", code, said)
	}
}

// TestSrunOutsideGivesBack: a job ends whose worker only begins when it is to end, and one for which srun has asked
// for no step.
func TestSrunOutsideGivesBack(t *testing.T) {
	var got api.StepRequest
	a := outside(t, 0, api.StepEnd{}, &got)
	var signals atomic.Int32
	a.On("GET /v1/jobs/7", func(w http.ResponseWriter, r *http.Request) {
		j := api.Job{ID: 7, State: "CONFIGURING", Code: model.Configuring, Nodes: []string{"n1", "n2"}}
		if signals.Load() > 1 {
			j.State, j.Code = "COMPLETED", model.Completed
		}
		rotatest.WhenAsked(0, j, j)(w, r)
	})
	a.On("POST /v1/jobs/7/signal", func(w http.ResponseWriter, r *http.Request) {
		if signals.Add(1) == 1 {
			rotatest.WriteProblem(w, &api.Problem{Status: 409, Code: api.CodeWrongState, Detail: "nothing of it runs"})
			return
		}
		rotatest.WhenAsked(0, api.ControlResponse{}, api.ControlResponse{})(w, r)
	})
	s := slurmtest.Shell{T: t, Tools: Commands, Addr: a.URL}
	if code, _, said := s.Call("srun", "-N2", "true"); code != 0 || said != "" || signals.Load() != 2 || isCancelled(a) {
		t.Errorf("a worker that only begins: %d %q, asked %d times", code, said, signals.Load())
	}
	a = outside(t, 0, api.StepEnd{}, &got)
	s.Addr = a.URL
	in := filepath.Join(t.TempDir(), "in.")
	if code, _, said := s.Call("srun", "-i", in+"%j", "true"); code != 1 || !isCancelled(a) ||
		!strings.HasPrefix(said, "srun: error: Could not open stdin file: open "+in+"7: ") {
		t.Errorf("without its input: %d %q, cancelled %v", code, said, isCancelled(a))
	}
}

// TestSrunOutsideInterrupted: signals end srun while its job waits, and then its step. The job is cancelled.
func TestSrunOutsideInterrupted(t *testing.T) {
	hit := func(number syscall.Signal) {
		if err := syscall.Kill(os.Getpid(), number); err != nil {
			t.Error(err)
		}
	}
	a := allocating(t, always, 0)
	asked := 0
	a.On("GET /v1/jobs/7", func(w http.ResponseWriter, r *http.Request) {
		j := api.Job{ID: 7, State: "PENDING", Code: model.Pending}
		if asked++; asked == 3 {
			hit(syscall.SIGINT)
		}
		rotatest.WhenAsked(0, j, j)(w, r)
	})
	s := slurmtest.Shell{T: t, Tools: Commands, Addr: a.URL}
	if code, _, said := s.Call("srun", "true"); code != 1 || !isCancelled(a) ||
		said != "srun: job 7 queued and waiting for resources\nsrun: Job allocation 7 has been revoked\n"+
			"srun: Force Terminated JobId=7\n" {
		t.Errorf("while it waits: %d %q", code, said)
	}
	a = allocating(t, always, 0)
	var submitted atomic.Int32
	a.On("POST /v1/jobs", func(w http.ResponseWriter, r *http.Request) {
		if submitted.Add(1) == 1 {
			hit(syscall.SIGINT)
			<-r.Context().Done() // it has the job, and its answer is not read
			return
		}
		there := api.SubmitResponse{IDs: []model.JobID{7}}
		rotatest.WhenAsked(0, there, there)(w, r)
	})
	s.Addr = a.URL
	code, _, said := s.Call("srun", "true")
	var keys []string
	for _, r := range a.Requests() {
		if r.What == "POST /v1/jobs" {
			keys = append(keys, r.Key)
		}
	}
	if code != 1 || !isCancelled(a) || len(keys) != 2 || keys[0] != keys[1] ||
		said != "srun: Job allocation 7 has been revoked\nsrun: Force Terminated JobId=7\n" {
		t.Errorf("while it is submitted: %d %q, keys %q", code, said, keys)
	}
	a = allocating(t, 0, always)
	onSteps(t, a, "/v1/jobs/7/steps", func(c *stream.Conn, _ *api.StepRequest) {
		begin(t, c, []string{"n1"}, 1)
		if _, err := c.Read(); err != nil { // the end of its input: it knows that the step has begun
			t.Error(err)
		}
		hit(syscall.SIGTERM)
		for {
			f, err := c.Read()
			if err != nil {
				t.Error(err)
				return
			}
			if f.Kind == stream.Signal && string(f.Data) == "SIGTERM" {
				break
			}
		}
		x := api.StepTaskExit{Signal: 15}
		send(t, c, frame(t, stream.Exit, 0, x), frame(t, stream.End, all, api.StepEnd{StepTaskExit: x}))
	})
	s.Addr = a.URL
	if code, _, said := s.Call("srun", "true"); code != 128+15 || !isCancelled(a) ||
		said != "srun: error: n1: task 0: Terminated\n" {
		t.Errorf("while its step runs: %d %q", code, said)
	}
}

// TestSrunOutsideRefuses: what cannot be is refused before a job is submitted, and a refused job in Slurm's words.
func TestSrunOutsideRefuses(t *testing.T) {
	a := slurmtest.Accepting(t)
	s := slurmtest.Shell{T: t, Tools: Commands, Addr: a.URL}
	conf := filepath.Join(t.TempDir(), "conf")
	if err := os.WriteFile(conf, []byte("0 a\n2 b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"":                             "No command given to execute.\n",
		"--pty -o x bash":              "--error/--input/--output are incompatible with --pty\n",
		"--array=1 true":               "--array is not a known flag (SB-004)",
		"--het-group=1 true":           "--het-group is not supported (SB-009): ",
		"true : true":                  "outside of a job srun starts only one component",
		"-n2 -Q --multi-prog " + conf:  "Configuration file " + conf + " invalid: line 2: Invalid task id, 2 >= ntasks\n",
		"--multi-prog /nowhere/at/all": "Could not open multi_prog config file: ",
		"--mpi=pmix true":              "invalid MPI type 'pmix'",
		"-i /nowhere/at/all true":      "Could not open stdin file: open /nowhere/at/all: ",
		"-o /nowhere/at/all true":      "Could not open file for output: ",
		"-I0 true":                     "Invalid --immediate specification: \"0\"",
		"--test-only true":             "--test-only is not supported (SB-009): ",
		"--ntasks=x true":              "--ntasks ",
		"-W x true":                    "Invalid numeric value \"x\" for --wait.\n",
		"-M other true":                "Unable to allocate resources: 'other' can't be reached now",
	} {
		if code, _, said := s.Call(append([]string{"srun"}, strings.Fields(args)...)...); code != 1 ||
			!strings.HasPrefix(said, "srun: error: "+want) {
			t.Errorf("srun %s: %d %q, want %q", args, code, said, want)
		}
	}
	if code, out, _ := s.Call("srun", "--mpi=list"); code != 0 || !strings.Contains(out, "pmi2") {
		t.Errorf("--mpi=list: %d %q", code, out)
	}
	for _, r := range a.Requests() {
		if r.What == "POST /v1/jobs" {
			t.Errorf("a wrong command line submitted %s", r.Body)
		}
	}
	a.Refuse("POST /v1/jobs", api.Problem{Status: 400, Code: api.CodeInvalid, Detail: "no such queue",
		Hint: "name another"})
	if code, _, said := s.Call("srun", "true"); code != 1 ||
		said != "srun: error: Unable to allocate resources: no such queue (name another)\n" {
		t.Errorf("refused: %d %q", code, said)
	}
}

// TestSrunTakesTheSame: outside of a job srun refuses no flag that it takes in one.
func TestSrunTakesTheSame(t *testing.T) {
	outside := map[string]script.Spec{}
	for _, s := range script.SrunTable() {
		if _, twice := outside[s.Name]; twice {
			t.Errorf("--%s is there twice", s.Name)
		}
		outside[s.Name] = s
	}
	for _, f := range slices.Concat(srunFlags, srunWithout) {
		name, letter, _ := strings.Cut(f.name, "/")
		s, taken := outside[name]
		takes := map[srunTakes]script.Takes{takesNothing: script.Nothing, takesValue: script.Value,
			takesPerhaps: script.Perhaps}
		switch {
		case name == "jobid": // it is in one then
		case !taken:
			t.Errorf("outside of a job --%s is unknown", name)
		case letter != "" && letter[0] != s.Short || takes[f.takes] != s.Takes:
			t.Errorf("--%s is %+v in a job and %+v outside of one", name, f, s)
		}
	}
}
