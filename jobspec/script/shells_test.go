package script

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/jobspec/hostlist"
	"github.com/rota-hpc/rota/jobspec/script/shell"
)

// shells returns the installed shells of those that run scripts.
func shells(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, name := range []string{"bash", "dash", "zsh", "ksh"} {
		if path, err := exec.LookPath(name); err == nil {
			found = append(found, path)
		}
	}
	if len(found) == 0 {
		t.Skip("needs bash, dash, zsh or ksh, and none is installed")
	}
	return found
}

// TestScontrol asks shells for the names of nodes, and compares with package hostlist.
func TestScontrol(t *testing.T) {
	if _, err := exec.LookPath("awk"); err != nil {
		t.Skip("needs awk, which is not installed")
	}
	script := task(read(t, "#!/bin/sh\nfirst=$(scontrol show hostnames | head -n 1)\nscontrol show hostnames \"$LIST\"\n",
		Options{})).Script
	for _, shell := range shells(t) {
		for _, list := range []string{"n1", "gpu[01-03,07]", "a[098-101],b", "n[1-2]-ib,x,y[7]", "a,b,c"} {
			cmd := exec.Command(shell, "-c", script)
			cmd.Env = append(os.Environ(), "LIST="+list, "SLURM_JOB_NODELIST="+list)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%s: %v\n%s", shell, err, out)
			}
			want, err := hostlist.Expand(list)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Fields(string(out)); strings.Join(got, " ") != strings.Join(want, " ") {
				t.Errorf("%s, %s: got %v, want %v", shell, list, got, want)
			}
		}
	}
}

// TestFrontLinesInShells runs the lines that are put in front of scripts.
func TestFrontLinesInShells(t *testing.T) {
	for _, shell := range shells(t) {
		for _, c := range []struct {
			src, env, want string
			args           []string
			code           int
		}{
			{"#!/bin/sh\necho \"$#:$1:$2:$3\"\n", "", "3:it's:a b:$HOME\n", []string{"it's", "a b", "$HOME"}, 0},
			{"#!/bin/sh\n#SBATCH -n2 --gpus-per-task=3\nsrun printenv CUDA_VISIBLE_DEVICES\n", "SLURM_LOCALID=1", "3,4,5\n",
				nil, 0},
			{"#!/bin/sh\n#SBATCH -G2 --ntasks-per-gpu=2\nsrun printenv CUDA_VISIBLE_DEVICES\n", "SLURM_LOCALID=3", "1\n", nil,
				0},
			{"#!/bin/sh\nscontrol requeue $SLURM_JOB_ID\necho no\n", "SLURM_JOB_ID=4", "", nil, 85},
			{"#!/bin/sh\nscontrol requeue $SLURM_JOB_ID\n", "SLURM_JOB_ID=", "", nil, 85},
		} {
			opts := Options{Name: "x.sh", Args: c.args, Clock: clock()}
			cmd := exec.Command(shell, "-c", task(Read([]byte(c.src), opts).Job).Script)
			cmd.Env = append(os.Environ(), c.env)
			out, _ := cmd.Output() // the code is checked below
			if got := cmd.ProcessState.ExitCode(); string(out) != c.want || got != c.code {
				t.Errorf("%s, %q with %s: got %q and code %d, want %q and %d", shell, c.src, c.env, out, got, c.want, c.code)
			}
		}
	}
}

// TestScriptsStayScripts lets bash check the syntax of every script that was changed.
func TestScriptsStayScripts(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("needs bash, which is not installed")
	}
	files, _ := filepath.Glob("testdata/scripts/*.sh") // TestScripts counts them
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r := Read(src, Options{Name: filepath.Base(file), Dir: "/home/ada", Clock: clock(), Args: []string{"a'b"}})
		if r.Job == nil || !shell.IsShell(strings.TrimPrefix(strings.SplitN(string(src), "\n", 2)[0], "#!")) {
			continue
		}
		cmd := exec.Command(bash, "-n")
		cmd.Stdin = strings.NewReader(task(r.Job).Script)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s\n%s", file, err, out, task(r.Job).Script)
		}
	}
}
