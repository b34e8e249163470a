package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/controld/api"
)

// twoGroups is a cluster that two groups of users share, with the policy of new clusters.
const twoGroups = `policy "rota" {
  min_runtime = "100ms"
}
account "vision" {
  users = ["nobody"]
}
account "speech" {
  users = ["nobody"]
}
`

// Two groups share twelve GPUs, and the jobs of one hold them all. A user of the other submits a
// hundred trial-and-error jobs of two hours. They get what the limits allow, one after another, and
// the others wait with the reason; the first group keeps the rest.
func TestAHundredTrialsLeaveTheOthersTheirRoom(t *testing.T) {
	config := filepath.Join(t.TempDir(), "cluster.hcl")
	if err := os.WriteFile(config, []byte(twoGroups), 0o644); err != nil {
		t.Fatal(err)
	}
	w := start(t, lab.Options{Controllers: 1, Nodes: 2, GPUs: 6, Cores: 32, Controld: []string{"--config", config}})
	w.policy("rota")
	dir := w.scratch("caps")
	script := fmt.Sprintf("trap 'exit 85' TERM; echo up >> %[1]s/up; while [ ! -e %[1]s/go ]; do sleep 0.1; done", dir)
	var usual []string
	for k := range 12 {
		usual = append(usual, w.submit(onGPUs(fmt.Sprintf("speech%d", k), 1,
			fmt.Sprintf("account = \"speech\"\n  checkpoint {\n path = %q\n }", dir), script)))
	}
	w.lines(filepath.Join(dir, "up"), 12)

	trial := w.file(t, "trial.sh", "#!/bin/sh\n#SBATCH -J trial -A vision --gpus=1 --mem=64M\n"+
		"while [ ! -e "+dir+"/go ]; do sleep 0.1; done\n")
	var trials []string
	for range 100 {
		trials = append(trials, strings.TrimSpace(w.ok("submit", "--parsable", "-q", "te", "-t", "2:00:00", trial)))
	}
	w.until(trials[0], "running", func(j api.Job) bool { return j.Code == "R" })
	for _, id := range []string{trials[1], trials[99]} {
		w.until(id, "over the limit", func(j api.Job) bool { return j.Reason.Code == "TELimit" })
	}
	w.wants(w.ok("why", trials[99]), "TELimit",
		"user nobody holds 1 GPUs in them, may hold 1.8 (15 % of the cluster) at once")
	if out, kept := w.putOut(usual); out != 1 || kept != 11 {
		t.Errorf("%d jobs of the other account were put out and %d run, want 1 and 11", out, kept)
	}
	w.ok("cancel", trials[0])
	w.until(trials[1], "running", func(j api.Job) bool { return j.Code == "R" })
	// The GPU that the first trial leaves goes to the second one. If a cycle runs before it has
	// left, it goes back to the job that was put out, and another job makes room.
	if out, _ := w.putOut(usual); out < 1 || out > 2 {
		t.Errorf("%d jobs of the other account were put out for two trials, want 1 or 2", out)
	}
	for _, id := range trials[1:] {
		w.ok("cancel", id)
	}
	w.must(os.WriteFile(filepath.Join(dir, "go"), nil, 0o644))
	for _, id := range usual {
		if j := w.ends(id); j.Code != "CD" {
			t.Errorf("job %s of the other account ended as %s: %s", id, j.Code, j.Reason.Text)
		}
	}
	if out, errs, code := w.rota("check"); code != 0 {
		t.Errorf("check: exit %d\n%s%s", code, out, errs)
	}
}

// putOut counts the jobs that were displaced for trial-and-error jobs, and those that run.
func (w *world) putOut(ids []string) (out, run int) {
	w.t.Helper()
	for _, id := range ids {
		j := w.status(id)
		if j.Preemptions.TE > 0 {
			out++
		}
		if j.Code == "R" {
			run++
		}
	}
	return out, run
}
