package command

import (
	"testing"
)

func TestNearest(t *testing.T) {
	names := []string{"queue", "cancel", "status", "nodes"}
	for word, want := range map[string]string{"quue": "queue", "cancle": "cancel", "stauts": "status", "node": "nodes",
		"xyzzy": "", "": ""} {
		if got := Nearest(word, names); got != want {
			t.Errorf("nearest to %q: %q, want %q", word, got, want)
		}
	}
}

func TestSlurmCommandsHaveHints(t *testing.T) {
	for _, name := range []string{"sbatch", "srun", "salloc", "squeue", "scancel", "scontrol", "sinfo", "sacct",
		"sshare"} {
		if slurmNames[name] == "" {
			t.Errorf("rota %s gives no hint", name)
		}
	}
}
