package e2e

import (
	"syscall"
	"testing"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/controld/api"
)

// The owner of a job that runs shortens its time limit and cannot raise it again; an admin can.
func TestAnOwnerOnlyShortensTheLimitOfARunningJob(t *testing.T) {
	w := start(t, lab.Options{Controllers: 1, Nodes: 1})
	id := w.submit("job \"long\" {\n  time_limit = \"2h\"\n  task \"t\" {\n    command = [\"sleep\", \"600\"]\n" +
		"    resources {\n      memory = \"64MiB\"\n    }\n  }\n}\n")
	w.until(id, "running", func(j api.Job) bool { return j.Code == "R" })
	const nobody = 65534
	asOwner := func(change string) (string, bool) {
		cmd := w.Rota(w.ctx, "update", id, "--time", change)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		cmd.Dir = w.shared
		out, err := cmd.CombinedOutput()
		return string(out), err == nil
	}
	if out, ok := asOwner("-30m"); !ok {
		t.Fatalf("the owner shortens it: %s", out)
	}
	out, ok := asOwner("+1m")
	if ok {
		t.Errorf("the owner raises it: %s", out)
	}
	w.wants(out, "only an operator may raise the time limit")
	w.ok("update", id, "--time", "+1m")
	w.wants(w.ok("queue", "-j", id, "--no-header", "--columns", "limit"), "1:31:00")
	w.ok("cancel", id)
	w.until(id, "cancelled", func(j api.Job) bool { return j.Code.Final() })
}
