package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/lab"
)

// TestHeterogeneousJob runs scripts of two components on two nodes: one without GPUs and one with them, and
// two on one node. Steps run in either of them, and in both.
func TestHeterogeneousJob(t *testing.T) {
	w := start(t, lab.Options{Controllers: 1, Nodes: 2, GPUs: 2})
	_, id, out := w.script("components", `#!/bin/bash
#SBATCH -n1 --mem=256M -w n1 -J coupled
#SBATCH hetjob
#SBATCH -N1 --ntasks-per-node=2 --mincpus=3 --gpus-per-node=2 --mem=256M -w n2
echo script on $SLURMD_NODENAME of $SLURM_JOB_NODELIST, $SLURM_HET_SIZE: $SLURM_JOB_NODELIST_HET_GROUP_0 \
	$SLURM_JOB_NODELIST_HET_GROUP_1, $SLURM_NTASKS_HET_GROUP_1 tasks
srun sh -c 'echo 1 $SLURMD_NODENAME $SLURM_NTASKS [$CUDA_VISIBLE_DEVICES]'
srun --het-group=1 -l sh -c 'echo 2 $SLURMD_NODENAME $SLURM_JOB_NODELIST [$CUDA_VISIBLE_DEVICES]' | sort
srun --het-group=0,1 -l sh -c 'echo 3 $SLURMD_NODENAME $SLURM_JOB_NODELIST $SLURM_NODEID of $SLURM_NTASKS' | sort
srun -l sh -c 'echo 4 $SLURMD_NODENAME $SLURM_PROCID' : -n1 sh -c 'echo 4 $SLURMD_NODENAME $SLURM_PROCID' | sort
srun sh -c 'exit 3' : sh -c 'exit 4' 2>errors
echo code $?
srun --het-group=2 true 2>errors
echo code $?, $(sed s/$SLURM_JOB_ID/7/ errors)
`)
	j := w.ends(id)
	const want = `script on n1 of n1, 2: n1 n2, 2 tasks
1 n1 1 []
0: 2 n2 n2 [0,1]
1: 2 n2 n2 [0,1]
0: 3 n1 n[1-2] 0 of 3
1: 3 n2 n[1-2] 1 of 3
2: 3 n2 n[1-2] 1 of 3
0: 4 n1 0
1: 4 n2 1
code 4
code 1, srun: error: Unable to create step for job 7: Attempt to run a job step with het group value of 2, but the ` +
		"job allocation has maximum value of 1\n"
	if got := w.readFile(out); string(j.Code) != "CD" || got != want {
		t.Errorf("it ended as %s, %s, and wrote\n%s\nwant\n%s", j.Code, exitOf(j), got, want)
	}
	rows, said, code := w.slurm("sacct", "-n", "-P", "-j", id, "-o", "JobID,AllocCPUS,NTasks,NNodes,NodeList,"+
		"State,ExitCode")
	const wantRows = "7|4||2|n[1-2]|COMPLETED|0:0\n7.batch|1|1|1|n1|COMPLETED|0:0\n" +
		"7.extern|4|2|2|n[1-2]|COMPLETED|0:0\n7.0|1|1|1|n1|COMPLETED|0:0\n" +
		"7.1|3|2|1|n2|COMPLETED|0:0\n7.2|4|3|2|n[1-2]|COMPLETED|0:0\n7.3|4|2|2|n[1-2]|COMPLETED|0:0\n" +
		"7.4|4|3|2|n[1-2]|FAILED|4:0\n"
	if got := strings.ReplaceAll("\n"+rows, "\n"+id, "\n7"); code != 0 || got != "\n"+wantRows {
		t.Errorf("sacct: %d %s%s\nwant\n%s", code, said, got, wantRows)
	}

	dir := w.scratch("one-node")
	text := "srun --het-group=0,1 -l sh -c 'echo $SLURMD_NODENAME $SLURM_PROCID $SLURM_NODEID' | sort; " +
		"srun : sleep 1000"
	id = strings.TrimSpace(w.ok("submit", "--parsable", "-t5", "-D", dir, "-o", "out", "--mem=64M", "-w", "n2",
		"--wrap", text, ":", "-n2", "--mem=64M", "-w", "n2"))
	w.lines(filepath.Join(dir, "out"), 3)
	if got := w.readFile(filepath.Join(dir, "out")); got != "0: n2 0 0\n1: n2 1 1\n2: n2 2 1\n" {
		t.Errorf("on one node: %s", got)
	}
	if out, said, code := w.slurm("scancel", id); code != 0 {
		t.Errorf("scancel: %d %s%s", code, out, said)
	}
	if j := w.ends(id); string(j.Code) != "CA" {
		t.Errorf("it has ended as %s", j.Code)
	}
}
