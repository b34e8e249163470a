package steps

import (
	"context"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/slurm/slurmtest"
	"github.com/rota-hpc/rota/jobspec"
)

// TestSrunOutside: outside of a job srun runs a command as a job of its own.
func TestSrunOutside(t *testing.T) {
	a := slurmtest.Accepting(t)
	var got *jobspec.Job
	s := slurmtest.Shell{T: t, Tools: Commands, Addr: a.URL, Environ: []string{"SLURM_PARTITION=long"}}
	s.Does.Attached = func(_ context.Context, _ *command.Session, j *jobspec.Job) error {
		got = j
		return exit.WithCode(3)
	}
	code, out, said := s.Call("srun", "-N2", "-n4", "-c2", "--gpus-per-task=1", "-J", "x", "-t5", "-Q", "--mem=1G", "-l",
		"echo", "it's", "-n", "9")
	if code != 3 || out != "" || said != "" || got == nil {
		t.Fatalf("%d %q %q", code, out, said)
	}
	g := got.Groups[0]
	task := g.Tasks[0]
	if g.Count != 2 || task.Launch.Nproc != 2 || task.Resources.Cores != 4 || task.Resources.GPUs != 2 ||
		got.Name != "x" || got.Queue != "long" || got.TimeLimit != 300 || task.Log.Stdout != "" || *task.Log.Join ||
		got.RequeueExit != 0 {
		t.Errorf("the job is %+v, its task %+v", got, task)
	}
	want := "#!/bin/sh\nexport CUDA_VISIBLE_DEVICES=$SLURM_LOCALID\nexec 'echo' 'it'\\''s' '-n' '9'\n"
	if task.Script != want {
		t.Errorf("runs %q, not %q", task.Script, want)
	}
	if s.Call("srun", "-o", "/l/x.out", "hostname"); got.Groups[0].Tasks[0].Log.Stdout != "/l/x.out" ||
		got.Groups[0].Tasks[0].Launch.Type != "single" {
		t.Errorf("the task is %+v", got.Groups[0].Tasks[0])
	}
	s.Does.AtTerminal, got = s.Does.Attached, nil
	s.Does.Attached = nil
	if code, _, said := s.Call("srun", "--pty", "bash", "-l"); code != 3 || got == nil ||
		!strings.HasSuffix(got.Groups[0].Tasks[0].Script, "exec 'bash' '-l'\n") {
		t.Errorf("at a terminal: %d %q, the job is %+v", code, said, got)
	}
	got = nil
	for args, want := range map[string]string{
		"":                "srun: error: No command given to execute.\n",
		"--pty -Qn2 bash": "srun: error: --pty: a terminal is for one task",
		"--pty -o x bash": "srun: error: --pty excludes --output",
		"-r1 true":        "srun: error: -r is not supported (SB-009): a job of its own starts on its first node\n",
		"--array=1 true":  "srun: error: --array is not a known flag (SB-004)",
		"-I true":         "srun: error: -I is not supported (SB-009): ",
		"--multi-prog x":  "srun: error: --multi-prog",
		"--hold true":     "srun: error: --hold is not supported (SB-009): ",
		"--ntasks=x true": "srun: error: --ntasks ",
	} {
		if code, _, said := s.Call(append([]string{"srun"}, strings.Fields(args)...)...); code != 1 ||
			!strings.HasPrefix(said, want) || got != nil {
			t.Errorf("srun %s: %d %q, want %q", args, code, said, want)
		}
	}
}
