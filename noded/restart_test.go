package noded

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/noded/container"
)

// TestCoresOfRunningJobsStayTaken notices the planted bug "the cores of running jobs are handed out
// again after a node daemon restarts".
func TestCoresOfRunningJobsStayTaken(t *testing.T) {
	scene(t, func(t *testing.T, w *world) {
		for job := int64(1); job <= 5; job++ {
			w.assign(wid(job), true)
		}
		settle(time.Second)
		w.leave(wid(5), container.Exit{}) // its core is free again, and stays so
		settle(time.Second)
		w.kill()
		w.start()
		settle(time.Second)
		for job := int64(6); job <= 10; job++ { // one more than there are cores
			w.assign(wid(job), true)
		}
		settle(time.Minute)
		used, running := map[int]int64{}, 0
		for job := int64(1); job <= 10; job++ {
			b := w.container(wid(job))
			if b.state != container.Running {
				continue
			}
			running++
			if len(b.cores) != 1 {
				t.Errorf("job %d has cores %v", job, b.cores)
			}
			for _, core := range b.cores {
				if used[core] != 0 {
					t.Errorf("core %d is used by jobs %d and %d", core, used[core], job)
				}
				used[core] = job
			}
		}
		if running != 8 {
			t.Errorf("%d jobs run on 8 cores", running)
		}
	})
}

// TestARenewalThatFailsIsRepeated notices a lease that is taken for renewed although its shim has
// not heard of it: its job would be stopped in the middle of its work.
func TestARenewalThatFailsIsRepeated(t *testing.T) {
	scene(t, func(t *testing.T, w *world) {
		w.assign(wid(1), true)
		settle(time.Second)
		w.change(func() { w.containers[wid(1)].deaf = true })
		settle(3 * time.Minute)
		w.change(func() { w.containers[wid(1)].deaf = false })
		settle(4 * time.Minute)
		if lag := w.lag(wid(1)); lag > 3*time.Minute {
			t.Errorf("its lease was last renewed %v ago", lag)
		}
	})
}

// TestTheKillComesAtTheDeadline notices a kill that comes before the grace has passed, or long after.
func TestTheKillComesAtTheDeadline(t *testing.T) {
	scene(t, func(t *testing.T, w *world) {
		a := w.assign(wid(1), true)
		settle(time.Second)
		w.change(func() { w.containers[wid(1)].exits = func(int) *container.Exit { return nil } })
		w.stop(wid(1), model.CauseCancelled, 30*time.Second)
		settle(29 * time.Second)
		if b := w.container(wid(1)); b.state != container.Running || len(b.signals) != 1 || b.signals[0] != 15 {
			t.Errorf("within its grace it is %s, signals %v", b.state, b.signals)
		}
		settle(2 * time.Second)
		if r := w.result(a); r == nil || r.Signal != 9 || r.State != model.WorkerExited {
			t.Errorf("after its grace: %+v", r)
		}
	})
}

// TestAContainerThatDisappears notices one that is gone while the daemon runs and is never reported.
func TestAContainerThatDisappears(t *testing.T) {
	scene(t, func(t *testing.T, w *world) {
		a := w.assign(wid(1), true)
		settle(time.Second)
		w.change(func() { delete(w.containers, wid(1)) })
		settle(time.Minute)
		if r := w.result(a); r == nil || r.State != model.WorkerFailed || !r.Began ||
			!strings.Contains(r.Message, "disappeared") {
			t.Errorf("got %+v", r)
		}
	})
}

// TestAFailedLaunchLeavesNothing notices a bundle that stays on the disk, cores that stay taken, and
// a message that fills the log.
func TestAFailedLaunchLeavesNothing(t *testing.T) {
	scene(t, func(t *testing.T, w *world) {
		w.change(func() { w.unbuildable = errors.New(strings.Repeat("x", 3*messageMax)) })
		for job := int64(1); job <= 9; job++ { // more than there are cores
			w.assign(wid(job), true)
		}
		settle(time.Minute)
		for job := int64(1); job <= 9; job++ {
			if r := w.result(w.allocs[wid(job)]); r == nil || r.State != model.WorkerFailed ||
				len(r.Message) != messageMax+len("…") || !w.isRetired(wid(job)) {
				t.Errorf("job %d: %.80v, retired %t", job, r, w.isRetired(wid(job)))
			}
		}
	})
}
