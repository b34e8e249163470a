package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/controld/api"
)

// outageLease is so short that an outage of several leases takes seconds.
const outageLease = `lease {
  duration  = "8s"
  margin    = "1s"
  node_down = "2s"
}
`

// All controllers are gone for several leases. The witnesses keep the job, although node daemons
// restart meanwhile. Then the controller cannot reach the job's node and another one, which are a
// majority of the witnesses. The job goes on there, and starts nowhere else, until they meet again.
// Last the node is cut off from all others: its job ends there and starts elsewhere.
func TestAnOutageOfTheControllersEndsNoJob(t *testing.T) {
	config := configFile(t, outageLease)
	w := start(t, lab.Options{Controllers: 1, Nodes: 3, GPUs: 1, Namespaces: true, Controld: []string{"--config", config}})
	dir := w.scratch("outage")
	beats := filepath.Join(dir, "heartbeat")
	example, err := filepath.Abs("../../../examples/train.hcl")
	w.must(err)
	id := strings.TrimSpace(w.ok("submit", "--parsable", "-var", "dir="+dir, "-var", "steps=3000", example))
	w.lines(beats, 10)
	w.witnessed()
	home := w.node(w.status(id).Nodes[0])
	controller := w.Controllers[0]

	controller.Kill()
	for i, d := range []*lab.Daemon{home, w.other(home), home} {
		w.pause(6 * time.Second)
		d.Kill()
		w.must(d.Start())
		if i == 0 {
			w.more(beats)
		}
	}
	w.pause(6 * time.Second)
	back := time.Now()
	w.must(controller.Start())
	w.heard(back)
	w.more(beats)
	w.goesOn(id, "after an outage of three leases")

	for _, d := range []*lab.Daemon{home, w.other(home)} {
		w.must(w.Cut(w.ctx, controller, d))
		w.must(w.Cut(w.ctx, d, controller))
	}
	for why := ""; !strings.Contains(why, "witnesses"); w.pause(200 * time.Millisecond) {
		out, errs, _ := w.rota("why", id)
		if why = out + errs; w.ctx.Err() != nil {
			t.Fatalf("no word of witnesses: %s", why)
		}
	}
	if out := w.ok("cluster"); !strings.Contains(out, "1 of 3") {
		t.Errorf("rota cluster says nothing of the witnesses that are out of reach:\n%s", out)
	}
	w.more(beats)
	w.goesOn(id, "with a majority of the witnesses out of the leader's reach")
	for _, d := range []*lab.Daemon{home, w.other(home)} {
		w.must(w.Mend(w.ctx, controller, d))
		w.must(w.Mend(w.ctx, d, controller))
	}
	w.heard(time.Now())
	w.more(beats)
	w.goesOn(id, "after the controller and its node have met again")

	w.must(w.Unplug(w.ctx, home))
	j := w.until(id, "in its second attempt", func(j api.Job) bool { return j.Attempt == 2 && j.Code == "R" })
	if j.Nodes[0] == home.Name || j.Attempts[0].Cause != "node-lost" {
		t.Errorf("attempt 2 runs on %v, attempt 1 ended as %s", j.Nodes, j.Attempts[0].Cause)
	}
	w.more(beats)
	w.must(w.Plug(w.ctx, home))
	w.idle(home.Name)
	last, begin := w.beats(beats)
	if gap := time.Duration(begin-last) * time.Millisecond; last == 0 || begin == 0 || gap <= 0 {
		t.Errorf("attempt 1 beat for the last time at %d, attempt 2 began at %d: they overlap by %v", last, begin, -gap)
	}
	w.ok("cancel", id)
	w.ends(id)
}

// witnessed waits until every node has its witnesses on disk.
func (w *world) witnessed() {
	w.t.Helper()
	for _, d := range w.Cluster.Nodes {
		for {
			text, err := os.ReadFile(filepath.Join(d.Data, "witnesses"))
			if err == nil && strings.Contains(string(text), `"members":["n1","n2","n3"]`) {
				break
			}
			if w.ctx.Err() != nil {
				w.t.Fatalf("%s has witnesses %s, %v", d.Name, text, err)
			}
			w.pause(50 * time.Millisecond)
		}
	}
}

// heard waits until the leader has heard of every node after an instant.
func (w *world) heard(after time.Time) {
	w.t.Helper()
	for {
		list, _, err := w.client.Nodes(w.ctx, api.Read{})
		quiet := 0
		if err == nil {
			for _, n := range list.Items {
				if n.LastSeen == nil || n.LastSeen.Before(after) || n.State == "down" {
					quiet++
				}
			}
		}
		if err == nil && quiet == 0 {
			return
		}
		if w.ctx.Err() != nil {
			w.t.Fatalf("the leader does not hear of %d nodes: %v", quiet, err)
		}
		w.pause(50 * time.Millisecond)
	}
}

// other is the first node that is not d.
func (w *world) other(d *lab.Daemon) *lab.Daemon {
	for _, n := range w.Cluster.Nodes {
		if n != d {
			return n
		}
	}
	return nil
}

// pause waits, or until the test is over.
func (w *world) pause(d time.Duration) {
	select {
	case <-w.ctx.Done():
	case <-time.After(d):
	}
}

// more waits until a job has written some more lines to a file.
func (w *world) more(path string) {
	w.t.Helper()
	text, err := os.ReadFile(path)
	w.must(err)
	w.lines(path, strings.Count(string(text), "\n")+5)
}

// goesOn fails the test if a job is not in its first attempt.
func (w *world) goesOn(id, when string) {
	w.t.Helper()
	if j := w.status(id); j.Attempt != 1 || j.Code != "R" {
		w.t.Fatalf("%s the job is %s in attempt %d: %s", when, j.Code, j.Attempt, fmt.Sprint(j.Attempts))
	}
}
