package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/controld/api"
)

// recoveryLease is short enough for nodes to follow another generation soon, and long enough for a job to
// go on meanwhile.
const recoveryLease = `lease {
  duration  = "45s"
  margin    = "2s"
  node_down = "5s"
}
`

// A majority of the controllers is killed with a job running. One survivor is recovered: nothing new
// starts before most nodes follow it, and the job goes on in its attempt. The others come back with
// the log from before, have a majority of their own, and get no node and no job.
func TestALostMajorityIsRecovered(t *testing.T) {
	config := configFile(t, recoveryLease)
	w := start(t, lab.Options{Controllers: 3, Nodes: 3, GPUs: 1, Namespaces: true, Controld: []string{"--config", config}})
	dir := w.scratch("recovered")
	beats := filepath.Join(dir, "beats")
	id := w.submit(simple("goes-on", "while :; do echo $ROTA_ATTEMPT >> "+beats+"; sleep 0.2; done", ""))
	w.lines(beats, 5)
	survivor := w.Controllers[1]
	lost := []*lab.Daemon{w.Controllers[0], w.Controllers[2]}
	for _, d := range w.Controllers {
		d.Kill()
	}
	cmd := exec.CommandContext(w.ctx, filepath.Join(bin, "rota-controld"), "recover", "--name", survivor.Name,
		"--data-dir", survivor.Data)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "cluster of one") ||
		!strings.Contains(string(out), "3 nodes, 1 jobs") {
		t.Fatalf("recover: %v\n%s", err, out)
	}
	w.must(survivor.Start())
	client, err := api.Dial("unix:" + survivor.Socket)
	w.must(err)
	var settled *api.Cluster
	for settled == nil || settled.Generation == nil || !settled.Generation.Settled || len(settled.Generation.Missing) > 0 {
		select {
		case <-w.ctx.Done():
			t.Fatalf("the nodes do not follow: %+v", settled)
		case <-time.After(200 * time.Millisecond):
		}
		if cl, _, err := client.Cluster(w.ctx); err == nil {
			settled = cl
		}
	}
	before := len(strings.Fields(w.lines(beats, 1)))
	w.lines(beats, before+10)
	if j := w.status(id); j.Attempt != 1 || j.Code != "R" {
		t.Errorf("the job is %s in attempt %d", j.Code, j.Attempt)
	}
	next := w.submit(simple("new", "true", ""))
	if j := w.ends(next); j.Code != "CD" {
		t.Errorf("a new job ended as %s", j.Code)
	}
	for _, d := range lost {
		w.must(d.Start())
	}
	old, err := api.Dial("unix:" + lost[0].Socket)
	w.must(err)
	refused := func() error {
		cl, _, err := old.Cluster(w.ctx)
		if err != nil || cl.Leader == "" || cl.Generation != nil {
			return errors.Join(err, fmt.Errorf("the old controllers: %+v", cl))
		}
		return nil
	}
	for refused() != nil {
		select {
		case <-w.ctx.Done():
			t.Fatal(refused())
		case <-time.After(100 * time.Millisecond):
		}
	}
	w.lines(beats, len(strings.Fields(w.lines(beats, 1)))+15)
	b, err := os.ReadFile(beats)
	w.must(err)
	if strings.Trim(string(b), "1\n") != "" {
		t.Errorf("the job ran in another attempt: %q", b)
	}
	cl, _, err := client.Cluster(w.ctx)
	w.must(err)
	if cl.Leader != survivor.Name || cl.Generation.Generation != settled.Generation.Generation {
		t.Errorf("the recovered cluster has %+v", cl)
	}
	for _, c := range cl.Controllers {
		if c.Voter && c.Name != survivor.Name {
			t.Errorf("controller %s of the generation before votes", c.Name)
		}
	}
	for _, d := range lost { // they would take the commands that follow
		d.Kill()
	}
	w.ok("cancel", id)
	w.ends(id)
}
