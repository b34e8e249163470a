package noded

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/noded/container"
)

// silence has the shim of a container stop to answer, or answer again.
func (w *world) silence(id container.ID, silent, unknown bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.containers[id]
	b.silent, b.unknown = silent, unknown
	w.emit(id)
}

// TestASilentShimEndsNoJob has shims not answer while a container is about to start, while it runs,
// and over a restart of the daemon. It notices a result that is reported although the container may
// run, and a kill without a reason. It also notices a node that hides the reason of its wait.
func TestASilentShimEndsNoJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.start()
		defer w.kill()
		starting, running := wid(1), wid(2)
		w.assign(starting, false)
		w.assign(running, true)
		settle(time.Second)
		w.silence(starting, true, false)
		w.silence(running, true, false)
		w.change(func() { w.allocs[starting].Released = true })
		quiet := func(when string) {
			t.Helper()
			settle(20 * time.Minute)
			for id, want := range map[container.ID]container.State{starting: container.Created, running: container.Running} {
				if c := w.container(id); c.state != want || w.allocs[id].result != nil {
					t.Fatalf("%s, %v is %+v, reported as %+v", when, id, c, w.allocs[id].result)
				}
			}
			notice := w.lastNode().Notice
			for _, id := range []container.ID{starting, running} {
				if !strings.Contains(notice, fmt.Sprintf("container %s: its shim, process 7, has not answered since", id)) {
					t.Errorf("%s, rota nodes says %q", when, notice)
				}
			}
		}
		quiet("with the same daemon")
		w.kill()
		w.silence(starting, true, true)
		w.silence(running, true, true)
		w.start()
		quiet("with another daemon")
		w.silence(starting, false, false)
		w.silence(running, false, false)
		settle(time.Minute)
		if c := w.container(starting); c.state != container.Running || c.starts != 1 {
			t.Errorf("when its shim answers, what was to start is %+v", c)
		}
		if notice := w.lastNode().Notice; notice != "" {
			t.Errorf("rota nodes still says %q", notice)
		}
		w.silence(running, true, false)
		w.stop(running, model.CauseCancelled, 30*time.Second)
		settle(29 * time.Second)
		if c := w.container(running); c.state != container.Running {
			t.Errorf("in its grace it is %+v", c)
		}
		settle(15 * time.Second)
		if r := w.allocs[running].result; r == nil {
			t.Errorf("after its grace it is %+v", w.container(running))
		}
	})
}

// TestTheLeaseOfASilentShim cuts a node off while a shim does not answer. It notices a container that outlives
// its lease because its shim cannot end it.
func TestTheLeaseOfASilentShim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.start()
		defer w.kill()
		slow, well := wid(1), wid(2)
		w.assign(slow, true)
		w.assign(well, true)
		settle(time.Second)
		w.silence(slow, true, false)
		settle(time.Minute)
		lease := w.container(well).lease
		w.change(func() { w.down = true })
		settle(time.Until(lease))
		if c := w.container(slow); c.state != container.Running {
			t.Errorf("within its lease it is %+v", c)
		}
		settle(2 * time.Minute)
		if c := w.container(slow); c.state != container.Lost {
			t.Errorf("after its lease it is %+v", c)
		}
		if c := w.container(well); c.state != container.Running { // its own shim sees to that
			t.Errorf("the daemon has ended what answers: %+v", c)
		}
	})
}
