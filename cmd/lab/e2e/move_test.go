package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/controld/api"
)

// brisk lets jobs move that have run for a second. Whose turn it is, and which job moves, is
// checked once a minute all the same.
const brisk = "policy \"rota\" {\n  min_turn = \"1s\"\n  min_runtime = \"1s\"\n}\n"

// On each of two nodes a small job holds one GPU of four. A job that needs four waits although six
// are free. Then the one small job that can save its state moves to the other's node and goes on
// there.
func TestASmallJobMovesForALargeOne(t *testing.T) {
	config := configFile(t, brisk)
	w := start(t, lab.Options{Controllers: 1, Nodes: 2, GPUs: 4, Controld: []string{"--config", config}})
	w.policy("rota")
	dir := w.scratch("move")
	const stays = "until [ -e %[1]s/go ]; do sleep 0.05; done"
	up := 0
	run := func(name string, gpus int, more, script string) string {
		id := w.submit(onGPUs(name, gpus, more, fmt.Sprintf("echo up >> %[1]s/up; "+script, dir)))
		up++
		w.lines(filepath.Join(dir, "up"), up)
		return id
	}
	fillers := []string{run("filler", 3, "", "until [ -e %[1]s/filled ]; do sleep 0.05; done")}
	moves := run("moves", 1, fmt.Sprintf("checkpoint {\n path = %q\n }\n preemption {\n grace_period = \"2s\"\n }", dir),
		`trap 'cp $ROTA_NOTICE_FILE %[1]s/notice.$ROTA_ATTEMPT; exit 85' TERM; `+stays)
	fillers = append(fillers, run("filler", 3, "", "until [ -e %[1]s/filled ]; do sleep 0.05; done"))
	still := run("still", 1, "", stays)
	w.must(os.WriteFile(filepath.Join(dir, "filled"), nil, 0o644))
	for _, id := range fillers {
		w.ends(id)
	}
	large := w.ends(w.submit(onGPUs("large", 4, "", "true")))
	w.lines(filepath.Join(dir, "up"), up+1) // it is back
	w.must(os.WriteFile(filepath.Join(dir, "go"), nil, 0o644))
	w.moved(w.ends(moves), w.ends(still), large, filepath.Join(dir, "notice.1"))
	if out, errs, code := w.rota("check"); code != 0 {
		t.Errorf("check: exit %d\n%s%s", code, out, errs)
	}
}

// moved checks that one job moved to where another ran on, undisturbed, and that a third had the
// node that it left. A move is no displacement.
func (w *world) moved(j, still, large api.Job, notice string) {
	w.t.Helper()
	if len(j.Attempts) != 2 || len(still.Attempts) != 1 || len(large.Attempts) != 1 || j.Code != "CD" ||
		still.Code != "CD" || large.Code != "CD" {
		w.t.Fatalf("the jobs ended as\n%+v\n%+v\n%+v", j, still, large)
	}
	first, second := j.Attempts[0], j.Attempts[1]
	if first.Cause != "migrate" || first.ExitCode != 85 || j.Preemptions != (api.Preemptions{}) || j.Migrations != 1 {
		w.t.Errorf("it moved %d times, was displaced %+v, and its first attempt was %+v", j.Migrations, j.Preemptions, first)
	}
	from, to := fmt.Sprint(first.Nodes), fmt.Sprint(second.Nodes)
	if there := fmt.Sprint(still.Attempts[0].Nodes); from == to || to != there ||
		fmt.Sprint(large.Attempts[0].Nodes) != from {
		w.t.Errorf("it moved from %s to %s, while another ran on %s and the large one got %v", from, to, there,
			large.Attempts[0].Nodes)
	}
	b, err := os.ReadFile(notice)
	w.must(err)
	var n struct {
		Reason, Signal string
		Attempt        int
	}
	if err := json.Unmarshal(b, &n); err != nil || n.Reason != "migrate" || n.Signal != "SIGTERM" || n.Attempt != 1 {
		w.t.Errorf("the notice is %s: %v", b, err)
	}
}
