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

// onNodes is a job whose checkpoint is on the disk of its node.
func onNodes(name, script string) string {
	return simple(name, script,
		"checkpoint {\n    node_local = true\n  }\n  preemption {\n    grace_period = \"10s\"\n  }")
}

// folder returns where the files of an attempt are on a node.
func folder(d *lab.Daemon, id string, attempt int) string {
	return filepath.Join(d.Data, "checkpoints", fmt.Sprintf("%s.%d.0", id, attempt), "files")
}

// runsOn waits until an attempt of a job runs, and returns its node.
func (w *world) runsOn(id string, attempt int) *lab.Daemon {
	w.t.Helper()
	j := w.until(id, fmt.Sprintf("running in attempt %d", attempt), func(j api.Job) bool {
		return j.Code == "R" && j.Attempt == attempt
	})
	return w.node(nodesOf(j.Attempts[len(j.Attempts)-1])[0])
}

func nodesOf(a api.Attempt) []string { return strings.Fields(strings.Trim(fmt.Sprint(a.Nodes), "[]")) }

// move has a job leave its node for another one.
func (w *world) move(id string, from *lab.Daemon) {
	w.t.Helper()
	w.ok("node", "drain", from.Name, "--reason", "test")
	w.ok("requeue", id)
}

// A training that saves to the disk of its node moves to and fro three times, and goes on each time
// from there. It ends with the loss of a training that was left alone. Its folder follows it, and
// goes with it.
func TestACheckpointFollowsItsJob(t *testing.T) {
	w := start(t, lab.Options{Controllers: 1, Nodes: 2, Namespaces: true})
	const steps, moves = 400, 3
	id := w.submit(onNodes("train", fmt.Sprintf(
		"exec bin/trainer -steps %d -pause 20ms -every 0 -log 1 -dir $ROTA_CHECKPOINT_FILE", steps)))
	node := w.runsOn(id, 1)
	for n := 1; n <= moves; n++ {
		w.lines(filepath.Join(folder(node, id, n), "heartbeat"), 8*n)
		w.move(id, node)
		next := w.runsOn(id, n+1)
		if next == node {
			t.Fatalf("attempt %d is on node %s again", n+1, node.Name)
		}
		w.ok("node", "resume", node.Name)
		node = next
	}
	j := w.ends(id)
	if j.Code != "CD" || j.Attempt != moves+1 {
		t.Fatalf("it ended as %s in attempt %d: %s", j.Code, j.Attempt, j.Reason.Text)
	}
	if got, want := lastLoss(t, w.ok("logs", id)), lastLoss(t, w.alone(steps)); got != want {
		t.Errorf("last loss is %s, a run left alone has %s", got, want)
	}
	taken := 0
	for n := 1; n <= moves+1; n++ {
		taken += len(stepLine.FindAllString(w.ok("logs", id, "--attempt", fmt.Sprint(n)), -1))
	}
	if taken != steps {
		t.Errorf("%d steps were taken for %d", taken, steps)
	}
	for _, d := range w.Cluster.Nodes {
		d.Kill()
		w.must(d.Start()) // at its start it asks what is needed, and not only a minute later
	}
	for _, d := range w.Cluster.Nodes {
		w.wait("no folder is left on "+d.Name, func() bool {
			left, err := os.ReadDir(filepath.Join(d.Data, "checkpoints"))
			w.must(err)
			return len(left) == 0
		})
	}
	if out, errs, code := w.rota("check"); code != 0 {
		t.Errorf("check: exit %d\n%s%s", code, out, errs)
	}
}

// A job is to move to a node whose disk is too small for its checkpoint. It is told so, and goes on
// where it was, with all that it had saved.
func TestACheckpointThatFindsNoRoom(t *testing.T) {
	w := start(t, lab.Options{Controllers: 1, Nodes: 2, Namespaces: true})
	small := w.Cluster.Nodes[1]
	small.Term()
	w.smallData(small.Data, "24m")
	w.must(small.Start())
	large := w.Cluster.Nodes[0]
	w.must(w.Ready(w.ctx))
	w.ok("node", "drain", small.Name, "--reason", "test")
	id := w.submit(onNodes("saves", `cd $ROTA_CHECKPOINT_FILE
      echo $ROTA_ATTEMPT $ROTA_NODE >> ran
      if [ $ROTA_ATTEMPT = 1 ]; then
        trap 'exit 85' TERM
        head -c 40M /dev/urandom > model
        sha256sum model > sum
        echo saved >> ran
        while :; do sleep 0.05; done
      fi
      sha256sum -c sum && cat ran`))
	node := w.runsOn(id, 1)
	w.lines(filepath.Join(folder(large, id, 1), "ran"), 2)
	w.ok("node", "resume", small.Name)
	w.move(id, node)
	w.until(id, "refused by the small node", func(j api.Job) bool { return j.Attempt == 2 && j.Code == "PD" })
	if left, err := os.ReadDir(filepath.Join(small.Data, "checkpoints")); err != nil || len(left) != 0 {
		t.Errorf("left on the small node: %v, %v", left, err)
	}
	if full := w.full(small.Data); full {
		t.Error("the disk of the small node is full")
	}
	w.wants(w.ok("status", id), "the disk of node "+small.Name+" is full", "from node "+large.Name)
	w.ok("node", "resume", large.Name)
	j := w.ends(id)
	if j.Code != "CD" || j.Attempt != 3 || nodesOf(j.Attempts[1])[0] != small.Name ||
		nodesOf(j.Attempts[2])[0] != large.Name {
		t.Fatalf("it ended as %s in attempt %d: %+v", j.Code, j.Attempt, j.Attempts)
	}
	w.wants(w.ok("logs", id), "model: OK", "1 "+large.Name+"\nsaved\n3 "+large.Name)
}
