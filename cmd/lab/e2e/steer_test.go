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

// Orders of operators to the scheduler, and the configuration that an admin has applied, outlive
// the leader. The next leader's file says something else.
func TestSteeringOutlivesItsLeader(t *testing.T) {
	files := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(files, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	policy := func(bypass int) string { return fmt.Sprintf("policy \"rota\" {\n  max_bypass = %d\n}\n", bypass) }
	config := write("cluster.hcl", policy(7))
	w := start(t, lab.Options{Controllers: 3, Nodes: 1, GPUs: 2, Controld: []string{"--config", config}})
	w.policy("rota")
	victim := w.submit(onGPUs("victim", 2, "", "sleep 600"))
	w.until(victim, "running", func(j api.Job) bool { return j.Code == "R" })

	w.ok("sched", "pause", "preemption", "--reason", "a demonstration")
	applied := w.ok("config", "apply", write("applied.hcl", policy(9)), "--comment", "for the demonstration")
	w.wants(applied, "is in force", "policy.max_bypass: 7 -> 9")
	leader, err := w.Leader(w.ctx)
	w.must(err)
	leader.Kill()
	_, err = w.Leader(w.ctx)
	w.must(err)

	trial := w.submit(onGPUs("trial", 1, `class = "te"`, "true"))
	w.until(trial, "spared", func(j api.Job) bool { return j.Reason.Code == "NoVictim" })
	w.wants(w.ok("why", trial), "preemption was paused by root at", "a demonstration")
	w.must(leader.Start())
	history := w.ok("config", "history")
	w.wants(history, "by root  for the demonstration", "from its file")
	if first, _, _ := strings.Cut(history, "\n"); !strings.HasSuffix(first, "for the demonstration") {
		t.Errorf("another version came after the one that was applied:\n%s", history)
	}
	w.ok("config", "diff", filepath.Join(files, "applied.hcl"))
	if j := w.status(victim); j.Code != "R" || j.Attempt != 1 {
		t.Errorf("the victim is %s in attempt %d", j.Code, j.Attempt)
	}

	w.wants(w.ok("sched", "resume"), "nothing is paused")
	w.ends(trial)
	w.ok("cancel", victim)
	w.until(victim, "gone", func(j api.Job) bool { return j.Code == "CA" })
	if out, errs, code := w.rota("check"); code != 0 {
		t.Errorf("check: exit %d\n%s%s", code, out, errs)
	}
}
