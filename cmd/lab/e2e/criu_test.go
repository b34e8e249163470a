package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/noded/requirements/criutest"
)

// criu returns the flags of a node that saves processes, or skips the test.
func criu(t *testing.T) []string {
	t.Helper()
	path, _ := criutest.Find(t, "../../../bin/criu")
	return []string{"--allow-root-jobs", "--criu", "--criu-program", path}
}

// A program that knows nothing of checkpoints moves to another node and back. It is saved as it is, goes on
// there with all that it had in memory, and never begins again.
func TestAProgramIsMovedAsItIs(t *testing.T) {
	// as root: CRIU may restore processes of other users only where this machine lets it raise limits
	w := start(t, lab.Options{Controllers: 1, Nodes: 2, Noded: criu(t),
		Controld: []string{"--root-jobs-as", "", "--allow-root-jobs"}})
	dir := w.scratch("counts")
	id := w.submit(simple("counts", fmt.Sprintf(`echo began >> %[1]s/began
      n=0
      until [ -e %[1]s/stop ]; do
        n=$((n+1))
        echo $n >> %[1]s/count
        echo counted $n
        sleep 0.02
      done
      echo stopped at $n`, dir), "checkpoint {\n    criu = true\n  }\n  preemption {\n    grace_period = \"60s\"\n  }"))
	count := filepath.Join(dir, "count")
	node, lines := w.runsOn(id, 1), 0
	for n := 1; n <= 2; n++ {
		lines = strings.Count(w.lines(count, lines+20), "\n")
		w.move(id, node)
		next := w.runsOn(id, n+1)
		if next == node {
			t.Fatalf("attempt %d is on node %s again", n+1, node.Name)
		}
		w.ok("node", "resume", node.Name)
		node = next
	}
	lines = strings.Count(w.lines(count, lines+20), "\n")
	w.must(os.WriteFile(filepath.Join(dir, "stop"), nil, 0o644))
	j := w.ends(id)
	if j.Code != "CD" || j.Attempt != 3 || j.Attempts[0].ExitCode != 85 || j.Attempts[1].ExitCode != 85 {
		t.Fatalf("it ended as %s in attempt %d: %+v", j.Code, j.Attempt, j.Attempts)
	}
	if began := w.lines(filepath.Join(dir, "began"), 1); began != "began\n" {
		t.Errorf("it began as\n%s", began)
	}
	counted := w.lines(count, lines)
	for i, line := range strings.Fields(counted) {
		if line != fmt.Sprint(i+1) {
			t.Fatalf("it counted %s after %d", line, i)
		}
	}
	total := strings.Count(counted, "\n")
	w.wants(w.ok("logs", id), fmt.Sprintf("counted %d\nstopped at %d\n", total, total))
	if out, errs, code := w.rota("check"); code != 0 {
		t.Errorf("check: exit %d\n%s%s", code, out, errs)
	}
}
