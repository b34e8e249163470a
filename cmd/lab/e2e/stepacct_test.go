package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/rota-hpc/rota/cmd/lab"
)

// TestStepsByTheirNames lists, measures, signals and ends the steps of a job as Slurm's commands do it.
func TestStepsByTheirNames(t *testing.T) {
	w := start(t, lab.Options{Controllers: 1, Nodes: 2})
	const loop = "while :; do sleep 0.05; done"
	dir, id, _ := w.script("steps", "#!/bin/bash\n#SBATCH -N 2 --ntasks-per-node=1 --mem=256M -J steps\n"+
		"trap 'echo script >>told' USR1\n"+
		"srun -J prepare -n1 -N1 sh -c 'for i in $(seq 20000); do :; done; exit 3'\nsrun -J spread true\n"+
		"srun -J long -n1 -N1 -w n1 --exact --mem=64M sh -c 'trap \"echo step >>told\" USR1; touch up; "+loop+"' &\n"+
		"until [ -e up ]; do sleep 0.05; done\n"+ // so that their numbers follow the lines
		"srun -J other -n1 -N1 -w n2 --exact --mem=64M sh -c 'trap \"\" USR1; touch up2; "+loop+"' &\n"+
		"until [ -e go ]; do sleep 0.05; done\n")
	w.wait("both steps", func() bool {
		_, err := os.Stat(filepath.Join(dir, "up"))
		_, err2 := os.Stat(filepath.Join(dir, "up2"))
		return err == nil && err2 == nil
	})
	run := func(want int, args ...string) string {
		t.Helper()
		out, said, code := w.slurm(args...)
		if code != want {
			t.Errorf("%q: exit %d\n%s%s", args, code, out, said)
		}
		return regexp.MustCompile(`(?m)(^|id |for )`+id+`(\D)`).ReplaceAllString(out+said, "${1}7${2}")
	}
	rows := func(more ...string) string {
		t.Helper()
		const fields = "JobID,JobName,NTasks,NNodes,NodeList,State,ExitCode"
		return run(0, append([]string{"sacct", "-n", "-P", "-o", fields}, more...)...)
	}
	const ended = "7.0|prepare|1|1|n1|FAILED|3:0\n7.1|spread|2|2|n[1-2]|COMPLETED|0:0\n"
	want := "7|steps||2|n[1-2]|RUNNING|0:0\n7.batch|batch|1|1|n1|RUNNING|0:0\n" +
		"7.extern|extern|2|2|n[1-2]|RUNNING|0:0\n" + ended +
		"7.2|long|1|1|n1|RUNNING|0:0\n7.3|other|1|1|n2|RUNNING|0:0\n"
	w.wait("rows of the steps that have ended", func() bool { return strings.Contains(rows("-j", id), ended) })
	if got := rows("-j", id); got != want {
		t.Errorf("sacct says\n%s\nwant\n%s", got, want)
	}
	if got := rows("-j", id+".2"); got != "7.2|long|1|1|n1|RUNNING|0:0\n" {
		t.Errorf("of one step\n%s", got)
	}
	got := run(0, "sstat", "-n", "-P", "-j", id+".3", "-o", "JobID,Nodelist,NTasks,MaxRSSNode,AveCPU,MaxRSS")
	if !regexp.MustCompile(`^7\.3\|n2\|1\|n2\|00:\d\d\.\d+\|[1-9]\d*[KM]\n$`).MatchString(got) {
		t.Errorf("sstat says\n%s", got)
	}

	told := filepath.Join(dir, "told")
	run(0, "scancel", "-s", "USR1", id)
	w.lines(told, 1)
	run(0, "scancel", "-b", "-s", "USR1", id)
	w.lines(told, 2)
	run(0, "scancel", "-s", "USR1", id+".2")
	w.lines(told, 3)
	run(0, "scancel", "-s", "USR1", id+".batch")
	w.lines(told, 4)
	if got := w.readFile(told); got != "step\nscript\nstep\nscript\n" {
		t.Errorf("told were\n%s", got)
	}

	var said bytes.Buffer
	other := w.Rota(w.ctx)
	other.Args, other.Stdout, other.Stderr = []string{"scancel", id + ".3"}, &said, &said
	other.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65533, Gid: 65533}}
	if err := other.Run(); err == nil || said.String() != "scancel: error: Kill job error on job step id "+id+
		".3: Access/permission denied\n" {
		t.Errorf("another user: %v, %s", err, &said)
	}
	run(0, "scancel", id+".3")
	w.wait("the end of a step", func() bool { return rows("-j", id+".3") == "7.3|other|1|1|n2|CANCELLED|0:9\n" })
	const none = "scancel: error: Kill job error on job step id 7.3: Invalid job id specified\n"
	if got := run(1, "scancel", id+".3"); got != none {
		t.Errorf("of a step that has ended: %s", got)
	}
	w.must(os.WriteFile(filepath.Join(dir, "go"), nil, 0o644))
	w.ends(id)
	if got := run(1, "scancel", "-s", "TERM", id+".3"); got != none {
		t.Errorf("of a job that has ended: %s", got)
	}
	if got := rows("-j", id); !strings.HasPrefix(got, "7|steps||2|n[1-2]|COMPLETED|0:0\n"+
		"7.batch|batch|1|1|n1|COMPLETED|0:0\n7.extern|extern|2|2|n[1-2]|COMPLETED|0:0\n"+ended+
		"7.2|long|1|1|n1|CANCELLED|0:15\n") {
		t.Errorf("in the end\n%s", got)
	}
	if got := run(0, "sacct", "-n", "-P", "-j", id+".0", "-o", "MaxRSS,AveRSS,TotalCPU"); !regexp.MustCompile(
		`^(\d+[KM])\|\d+[KM]\|00:\d\d\.\d+\n$`).MatchString(got) {
		t.Errorf("a step used %s", got)
	}
	if got := run(1, "sstat", "-n", "-j", id); got != "sstat: error: problem getting step_layout for 7: Invalid job id "+
		"specified\n" {
		t.Errorf("sstat of a job that has ended: %s", got)
	}

	dir, id, _ = w.script("array", "#!/bin/bash\n#SBATCH --array=3 --mem=256M\nsrun -J one sh -c 'touch up; "+loop+"'\n")
	w.wait("a step of a task", func() bool { _, err := os.Stat(filepath.Join(dir, "up")); return err == nil })
	w.wait("its row", func() bool {
		return run(0, "sacct", "-n", "-P", "-j", id+"_3.0", "-o", "JobID,State") == "7_3.0|RUNNING\n"
	})
	run(0, "scancel", id+"_3.0")
	w.wait("its end", func() bool {
		return run(0, "sacct", "-n", "-P", "-j", id+"_3.0", "-o", "JobID,State") == "7_3.0|CANCELLED\n"
	})

	dir, id, _ = w.script("finish", "#!/bin/bash\n#SBATCH -N 2 --mem=256M\nsrun -J finish bash -c 'trap \"sleep 0.5; "+
		"touch saved.$SLURM_PROCID; exit 3\" TERM; touch up.$SLURM_PROCID; "+loop+"' &\n"+
		"until [ -e up.0 ] && [ -e up.1 ]; do sleep 0.05; done\n")
	w.ends(id)
	if got := rows("-j", id); got != "7|job.sh||2|n[1-2]|COMPLETED|0:0\n7.batch|batch|1|1|n1|COMPLETED|0:0\n"+
		"7.extern|extern|2|2|n[1-2]|COMPLETED|0:0\n7.0|finish|2|2|n[1-2]|FAILED|3:0\n" {
		t.Errorf("of a step that outlives its script\n%s", got)
	}
	for _, name := range []string{"saved.0", "saved.1"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}
