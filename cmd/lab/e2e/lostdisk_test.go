package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/controld/api"
)

// The disks of controllers are hurt in the one history in which it matters. c3 is down while c1 and
// c2 acknowledge jobs; then c2 has lost them and c1 is out of reach. C2 and c3 must not lead, and
// every job must be there in the end.
func TestAControllerThatLostItsDisk(t *testing.T) {
	w := start(t, lab.Options{Controllers: 3, Namespaces: true})
	c1, c2, c3 := w.Controllers[0], w.Controllers[1], w.Controllers[2]
	var jobs []string
	submit := func(what string, count int) {
		t.Helper()
		for i := range count {
			jobs = append(jobs, w.submit(simple(fmt.Sprintf("%s-%d", what, i), "true", "hold = true")))
		}
	}
	hurt := func(how func() error) {
		t.Helper()
		w.allVote()
		c3.Kill()
		c2.Kill()
		w.must(c2.KeepDisk())
		w.must(c2.Start())
		submit("acknowledged", 10)
		c2.Kill()
		w.must(how())
	}
	whole := func() {
		t.Helper()
		submit("after", 1)
		for _, id := range jobs {
			if j := w.status(id); j.Code != "PD" {
				t.Errorf("job %s is %s", id, j.Code)
			}
		}
	}

	t.Run("empty", func(t *testing.T) {
		hurt(c2.EmptyDisk)
		w.must(w.Unplug(w.ctx, c1))
		w.must(c2.Start())
		w.must(c3.Start())
		w.noLeader(c2, c3)
		w.must(w.Plug(w.ctx, c1))
		w.allVote()
		whole()
	})
	t.Run("old", func(t *testing.T) {
		hurt(c2.OldDisk)
		w.must(w.Unplug(w.ctx, c1))
		w.must(c3.Start())
		w.must(c2.Start())
		w.refuses(c2, "its disk was rolled back", "c2.promises the log was at", "Move this directory away")
		w.noLeader(c3)
		w.must(w.Plug(w.ctx, c1))
		w.must(c2.EmptyDisk()) // as it says
		w.must(c2.Start())
		w.allVote()
		whole()
	})
	if !long() {
		return // package consensus has the other two in random histories
	}
	t.Run("old, and its machine was booted", func(t *testing.T) {
		hurt(func() error { return w.all(c2.OldDisk(), c2.Boot()) })
		w.must(c2.Start())
		w.refuses(c2, "its disk was rolled back", "c1 has seen it at entry", "Move this directory away")
		w.must(w.Unplug(w.ctx, c1))
		w.must(c3.Start())
		w.must(c2.Start())
		w.refuses(c2, "its disk was rolled back", "c1 has seen it at entry")
		w.noLeader(c3)
		w.must(w.Plug(w.ctx, c1))
		w.must(c2.EmptyDisk())
		w.must(c2.Start())
		w.allVote()
		whole()
	})
	t.Run("all others are old", func(t *testing.T) {
		w.allVote()
		for _, d := range []*lab.Daemon{c1, c3} {
			d.Kill()
			w.must(d.KeepDisk())
		}
		w.must(c1.Start())
		w.must(c3.Start())
		submit("acknowledged", 10)
		w.must(w.Unplug(w.ctx, c2))
		for _, d := range []*lab.Daemon{c1, c3} {
			d.Kill()
			w.must(w.all(d.OldDisk(), d.Boot()))
			w.must(d.Start())
		}
		for range 3 { // elections, until the term is later than that of c2
			leader := w.leads(c1, c3)
			leader.Kill()
			w.must(leader.Start())
		}
		w.leads(c1, c3)
		w.must(w.Plug(w.ctx, c2))
		w.refuses(c2, "it has committed entries that the leader's log lacks", "are committed",
			"Keep a copy of this directory")
	})
}

// all joins errors.
func (w *world) all(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// allVote waits until every controller is up and has its vote.
func (w *world) allVote() {
	w.t.Helper()
	w.wait("all controllers vote", func() bool {
		cl, _, err := w.client.Cluster(w.ctx)
		if err != nil || cl.Leader == "" {
			return false
		}
		voters := 0
		for _, c := range cl.Controllers {
			if c.Voter && c.HTTP != "" && c.State == api.ControllerVoter {
				voters++
			}
		}
		return voters == len(w.Controllers)
	})
}

// leads waits until one of some controllers leads, and returns it.
func (w *world) leads(some ...*lab.Daemon) *lab.Daemon {
	w.t.Helper()
	var leader *lab.Daemon
	w.wait("a leader", func() bool {
		for _, d := range some {
			if w.confirmed(d) {
				leader = d
			}
		}
		return leader != nil
	})
	return leader
}

// confirmed reports whether a controller answers a consistent read by itself.
func (w *world) confirmed(d *lab.Daemon) bool {
	client, err := api.Dial("unix:" + d.Socket)
	w.must(err)
	defer client.Close()
	cl, _, err := client.Cluster(w.ctx)
	return err == nil && cl.Leader == d.Name
}

// noLeader fails if one of some controllers leads within several elections.
func (w *world) noLeader(some ...*lab.Daemon) {
	w.t.Helper()
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		for _, d := range some {
			if w.confirmed(d) {
				w.t.Fatalf("%s leads without what was acknowledged\n%s", d.Name, w.logs())
			}
		}
	}
}

// refuses waits until a controller has ended by itself, with these words.
func (w *world) refuses(d *lab.Daemon, words ...string) {
	w.t.Helper()
	w.wait(d.Name+" has stopped", func() bool { return !d.Running() })
	if code := d.ExitCode(); code != 1 {
		w.t.Errorf("%s: exit code %d", d.Name, code)
	}
	tail := d.LogTail(2000)
	w.wants(tail[max(0, strings.LastIndex(tail, "rota-controld: ")):], words...)
}
