package e2e

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rota-hpc/rota/cmd/lab"
)

// script submits a batch script in a directory of its own, and returns its job and its output.
func (w *world) script(name, text string) (dir, id, out string) {
	w.t.Helper()
	dir = w.scratch(name)
	file := filepath.Join(dir, "job.sh")
	w.must(os.WriteFile(file, []byte(text), 0o755))
	out = filepath.Join(dir, "out")
	return dir, strings.TrimSpace(w.ok("submit", "--parsable", "-D", dir, "-o", out, "-t", "5", file)), out
}

// slurm runs a command under one of Slurm's names, as the user of the jobs.
func (w *world) slurm(args ...string) (stdout, stderr string, code int) {
	w.t.Helper()
	var out, errs bytes.Buffer
	cmd := w.Rota(w.ctx)
	cmd.Args, cmd.Stdout, cmd.Stderr = args, &out, &errs // the program goes by its name
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	cmd.Dir = w.shared
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		w.t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// sortedLines are the lines of a text, in order.
func sortedLines(text string) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// TestSrunOfClients runs batch scripts as Slurm's clients and manuals write them, unchanged, on two
// nodes. The output in sorted is compared line by line, in any order.
func TestSrunOfClients(t *testing.T) {
	w := start(t, lab.Options{Controllers: 1, Nodes: 2})
	const two = "#!/bin/bash\n#SBATCH -N 2 --ntasks-per-node=2 --mem=512M\n"
	for name, c := range map[string]struct {
		text, want string
		code       string
		files      map[string]string // that it leaves
	}{
		"ranks": {text: two + "echo begin\nsrun sh -c 'echo $SLURM_PROCID $SLURM_LOCALID $SLURM_NODEID $SLURM_NTASKS'\n" +
			"echo end\n",
			want: "0 0 0 4\n1 1 0 4\n2 0 1 4\n3 1 1 4\nbegin\nend"},
		"sweep": {text: two + "for i in 1 2 3 4; do srun -n1 -N1 --exact --mem=64M sh -c \"sleep 0.2; echo $i\" & done\n" +
			"wait\necho all $(ls | wc -l)\n", want: "1\n2\n3\n4\nall 2"},
		"parsl": {text: two + "cat >cmd.sh <<'E'\necho on $SLURM_NODEID\nE\nsrun --ntasks 4 -l bash cmd.sh | sort\n" +
			"for i in 1 2; do srun --exclusive --nodes 1 -l bash cmd.sh >part.$i & done\nwait\ncat part.1 part.2 | sort\n",
			want: "0: on 0\n0: on 0\n0: on 0\n1: on 0\n1: on 0\n1: on 0\n2: on 1\n3: on 1"},
		"submitit": {text: two + "srun --unbuffered --output \"$PWD/%j_%t_log.out\" --error \"$PWD/%j_%t_log.err\" " +
			"sh -c 'echo out $SLURM_PROCID; echo err $SLURM_PROCID >&2'\n" +
			"for f in ${SLURM_JOB_ID}_*; do mv $f ${f#*_}; done\n",
			files: map[string]string{"0_log.out": "out 0\n", "3_log.out": "out 3\n", "2_log.err": "err 2\n"}},
		"ray": {text: two + "nodes=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\")\narray=($nodes)\nhead=${array[0]}\n" +
			"ip=$(srun --nodes=1 --ntasks=1 -w \"$head\" hostname --ip-address)\n[ -n \"$ip\" ] && echo has an address\n" +
			"srun --nodes=1 --ntasks=1 -w \"$head\" sh -c 'echo head >>up; until [ -e done ]; do sleep 0.05; done' &\n" +
			"srun --nodes=1 --ntasks=1 -w \"${array[1]}\" sh -c 'echo worker >>up; until [ -e done ]; do sleep 0.05; done' &\n" +
			"until [ $(cat up 2>/dev/null | wc -l) = 2 ]; do sleep 0.05; done\ntouch done\nwait\nsort up\necho program\n",
			want: "has an address\nhead\nprogram\nworker"},
		"deepspeed": {text: two + "srun -n 4 --export=ALL,A=1,PYTHONPATH=/x sh -c 'echo $A $RANK $WORLD_SIZE'\n",
			want: "1 0 4\n1 1 4\n1 2 4\n1 3 4"},
		"torchrun": {text: two + "export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)\n" +
			"[ -n \"$RANK$LOCAL_RANK\" ] && echo ranks in the script\n" +
			"srun --ntasks-per-node=1 -n2 sh -c 'echo $SLURM_NODEID of $SLURM_NNODES at $MASTER_ADDR'\n",
			want: "0 of 2 at n1\n1 of 2 at n1"},
		"batchspawner": {text: "#!/bin/bash\n#SBATCH --mem=256M\ntrap 'echo SIGTERM received' TERM\nwhich sh >/dev/null\n" +
			"srun sh -c 'echo notebook'\necho \"jupyterhub-singleuser ended gracefully\"\n",
			want: "jupyterhub-singleuser ended gracefully\nnotebook"},
		"multi-prog": {text: two + "printf '0 echo first %%t\\n1-2 echo middle %%o\\n* echo rest\\n' >conf\n" +
			"srun --multi-prog conf\n", want: "first 0\nmiddle 0\nmiddle 1\nrest"},
		"exit codes": {text: two + "srun sh -c 'exit $((SLURM_PROCID + 3))' 2>errors\necho code $?\n" +
			"grep -c 'Exited with exit' errors\n" +
			"srun -n1 -N1 sh -c 'kill -SEGV $$' 2>errors\necho code $?\ncut -d: -f 2,4- errors\nfalse\n", code: "F",
			want: " error: task 0: Segmentation fault\n4\ncode 139\ncode 6"},
		"too large": {text: two + "srun -n 999 true 2>errors\necho code $?\nsed s/$SLURM_JOB_ID/7/ errors\n" +
			"srun -w elsewhere true 2>errors || sed s/$SLURM_JOB_ID/7/ errors\n",
			want: "code 1\nsrun: error: Unable to create step for job 7: More processors requested than permitted\n" +
				"srun: error: Unable to create step for job 7: Requested node configuration is not available"},
		"input": {text: two + "printf 'a\\nb\\n' | srun -n1 -N1 cat\nprintf 'x\\n' | srun -n2 -N2 -l cat | sort\n",
			want: "0: x\n1: x\na\nb"},
		"much": {text: two + "srun -n1 -N1 head -c 50000000 /dev/zero | wc -c\n" +
			"head -c 5000000 /dev/zero | srun -n1 -N1 wc -c\n", want: "5000000\n50000000"},
		"terminal": {text: two + "srun -n1 -N1 --pty sh -c 'test -t 0 && stty size' | tr -d '\\r'\n", want: "24 80"},
		"killed": {text: two + "srun -K -n2 -N2 sh -c '[ $SLURM_PROCID = 0 ] && exit 5; sleep 1000' 2>/dev/null\n" +
			"echo over $?\nsrun --wait=1 -n2 -N2 sh -c '[ $SLURM_PROCID = 0 ] && exit; sleep 1000' 2>/dev/null\n" +
			"echo waited $?\n",
			want: "over 5\nwaited 137"},
	} {
		dir, id, out := w.script(strings.ReplaceAll(name, " ", "-"), c.text)
		j := w.ends(id)
		text := w.readFile(out)
		want := "CD"
		if c.code != "" {
			want = c.code
		}
		if string(j.Code) != want || sortedLines(text) != c.want {
			t.Errorf("%s ended as %s, %s, and wrote\n%s\nwant %s, in any order\n%s", name, j.Code, exitOf(j), text, want, c.want)
		}
		for file, want := range c.files {
			if got := w.readFile(filepath.Join(dir, file)); got != want {
				t.Errorf("%s: %s has %q, want %q", name, file, got, want)
			}
		}
	}
}

// TestSrunFromOutside starts steps in a job from a user's shell, and signals one.
func TestSrunFromOutside(t *testing.T) {
	w := start(t, lab.Options{Controllers: 1, Nodes: 2})
	dir, id, out := w.script("outside", "#!/bin/bash\n#SBATCH -N 2 --mem=256M\ntouch up\nsrun -n1 -N1 sh -c "+
		"'trap \"echo told; exit 3\" USR1; echo $SLURM_STEP_ID >step; while :; do sleep 0.05; done'\necho code $?\n")
	w.lines(filepath.Join(dir, "step"), 1)
	srun := func(args ...string) string {
		w.t.Helper()
		text, errs, code := w.slurm(append([]string{"srun"}, args...)...)
		if code != 0 {
			t.Errorf("srun %q: exit %d\n%s%s", args, code, text, errs)
		}
		return text
	}
	got := srun("--jobid="+id, "--overlap", "-n1", "-N1", "sh", "-c", "echo $SLURM_JOB_ID.$SLURM_STEP_ID")
	if got != id+".1\n" {
		t.Errorf("a step from outside wrote %q", got)
	}
	got = srun("--jobid", id, "--overlap", "-N", "2", "-n", "2", "sh", "-c", "echo $SLURM_NODEID")
	if sortedLines(got) != "0\n1" {
		t.Errorf("a step on both nodes wrote %q", got)
	}
	if _, errs, code := w.slurm("srun", "--jobid=9999", "true"); code != 1 ||
		!strings.HasPrefix(errs, "srun: error: Unable to confirm allocation for job 9999: Invalid job id specified\n") {
		t.Errorf("of no job: exit %d %s", code, errs)
	}
	w.must(w.client.SignalStep(w.ctx, id, 0, "SIGUSR1"))
	j := w.ends(id)
	text := strings.Replace(w.readFile(out), "User defined signal 1\n", "", 1) // of the shell's sleep
	if j.Code != "CD" || !regexp.MustCompile(
		`^told\nsrun: error: n\d: task 0: Exited with exit code 3\ncode 3\n$`).MatchString(text) {
		t.Errorf("it ended as %s, and wrote\n%s", j.Code, text)
	}
}

// TestSrunOutlivesItsDaemon: steps go on while the daemons of their nodes are down, and srun goes on with
// all of their output. A job that is cancelled has its steps told first.
func TestSrunOutlivesItsDaemon(t *testing.T) {
	w := start(t, lab.Options{Controllers: 1, Nodes: 2})
	dir, id, out := w.script("outlives", "#!/bin/bash\n#SBATCH -N 2 --mem=256M\n"+
		"srun sh -c 'echo before; touch up.$SLURM_PROCID; until [ -e go ]; do sleep 0.05; done; echo after; exit 4'\n"+
		"echo code $?\n")
	there := func(name string) func() bool {
		return func() bool { _, err := os.Stat(filepath.Join(dir, name)); return err == nil }
	}
	w.wait("both tasks", func() bool { return there("up.0")() && there("up.1")() })
	for _, n := range w.Nodes {
		n.Kill()
	}
	w.must(os.WriteFile(filepath.Join(dir, "go"), nil, 0o644))
	for _, n := range w.Nodes {
		w.must(n.Start())
	}
	j := w.ends(id)
	text := regexp.MustCompile(`n\d: task \d`).ReplaceAllString(w.readFile(out), "one")
	// said only if the daemon is away for long
	text = regexp.MustCompile(`(?m)^srun: StepId=\S+ continues without a connection.*\n`).ReplaceAllString(text, "")
	if want := strings.Repeat("after\n", 2) + strings.Repeat("before\n", 2) + "code 4\n" +
		strings.Repeat("srun: error: one: Exited with exit code 4\n", 2); j.Code != "CD" || sortedLines(text)+"\n" != want {
		t.Errorf("it ended as %s, and wrote\n%s", j.Code, text)
	}
	dir, id, _ = w.script("saves", "#!/bin/bash\n#SBATCH -N 2 --mem=256M\n"+
		"srun bash -c 'trap \"sleep 0.5; touch saved.$SLURM_PROCID; exit\" TERM; touch up.$SLURM_PROCID; "+
		"while :; do sleep 0.05; done'\n")
	w.wait("both tasks", func() bool { return there("up.0")() && there("up.1")() })
	w.ok("cancel", id)
	if j := w.ends(id); j.Code != "CA" || !there("saved.0")() || !there("saved.1")() {
		t.Errorf("the cancelled job ended as %s; its tasks have saved: %t %t", j.Code, there("saved.0")(), there("saved.1")())
	}
}
