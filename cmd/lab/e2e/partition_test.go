package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/controld/api"
)

// shortLease lets a test wait for a lease to end, also in a small cluster.
const shortLease = `queue "default" {
  on_node_lost = "requeue"
}
lease {
  duration  = "6s"
  margin    = "2s"
  node_down = "2s"
}
`

// A node is cut off for longer than its lease. Its job stops there, by itself, before it starts
// elsewhere; then the node comes back.
func TestACutOffNodeStopsItsJobBeforeAnotherStartsIt(t *testing.T) {
	config := configFile(t, shortLease)
	w := start(t, lab.Options{Controllers: 1, Nodes: 3, GPUs: 1, Namespaces: true, Controld: []string{"--config", config}})
	dir := w.scratch("cut")
	example, err := filepath.Abs("../../../examples/train.hcl")
	w.must(err)
	id := strings.TrimSpace(w.ok("submit", "--parsable", "-var", "dir="+dir, "-var", "steps=500", example))
	w.lines(filepath.Join(dir, "heartbeat"), 10)
	first := w.status(id).Nodes[0]
	lost := w.node(first)
	w.must(w.Unplug(w.ctx, lost))
	j := w.until(id, "in its second attempt", func(j api.Job) bool { return j.Attempt == 2 && j.Code == "R" })
	if j.Nodes[0] == first || j.Attempts[0].Cause != "node-lost" {
		t.Errorf("attempt 2 runs on %v, attempt 1 on %s ended as %s", j.Nodes, first, j.Attempts[0].Cause)
	}
	w.must(w.Plug(w.ctx, lost))
	w.idle(first)
	if j := w.ends(id); j.Code != "CD" || j.Attempt != 2 {
		t.Errorf("ended as %s in attempt %d", j.Code, j.Attempt)
	}
	last, begin := w.beats(filepath.Join(dir, "heartbeat"))
	if gap := time.Duration(begin-last) * time.Millisecond; last == 0 || begin == 0 || gap <= 0 {
		t.Errorf("attempt 1 beat for the last time at %d, attempt 2 began at %d: they overlap by %v", last, begin, -gap)
	}
	if out, errs, code := w.rota("check"); code != 0 {
		t.Errorf("check: exit %d\n%s%s", code, out, errs)
	}
}

// node is the daemon of a node.
func (w *world) node(name string) *lab.Daemon {
	w.t.Helper()
	for _, d := range w.Cluster.Nodes {
		if d.Name == name {
			return d
		}
	}
	w.t.Fatalf("no node %s", name)
	return nil
}

// idle waits until a node is up and runs nothing.
func (w *world) idle(name string) {
	w.t.Helper()
	for {
		list, _, err := w.client.Nodes(w.ctx, api.Read{})
		w.must(err)
		for _, n := range list.Items {
			if n.Name == name && n.State == "idle" {
				return
			}
		}
		select {
		case <-w.ctx.Done():
			w.t.Fatalf("node %s does not come back: %+v", name, list.Items)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// beats returns when attempt 1 beat for the last time and attempt 2 for the first, in milliseconds
// since 1970; 0 for never. No beat may be of another attempt.
func (w *world) beats(path string) (last, begin int64) {
	w.t.Helper()
	b, err := os.ReadFile(path)
	w.must(err)
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		at, err := strconv.ParseInt(f[3], 10, 64)
		w.must(err)
		switch {
		case f[0] == "1":
			last = max(last, at)
		case f[0] == "2" && begin == 0:
			begin = at
		case f[0] != "2":
			w.t.Errorf("a beat of attempt %s", f[0])
		}
	}
	return last, begin
}
