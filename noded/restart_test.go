package noded

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/reconcile"
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
// refused: its job would be stopped in the middle of its work.
func TestARenewalThatFailsIsRepeated(t *testing.T) {
	scene(t, func(t *testing.T, w *world) {
		w.assign(wid(1), true)
		settle(time.Second)
		w.change(func() { w.containers[wid(1)].refuses = true })
		settle(85 * time.Second)
		w.change(func() { w.containers[wid(1)].refuses = false })
		settle(15 * time.Second)
		if lag := w.lag(wid(1)); lag > 30*time.Second {
			t.Errorf("its lease was last renewed %v ago", lag)
		}
	})
}

// TestALeaseCountsFromTheRequest notices a lease that counts from the answer: the controllers count
// from before, and would start the job elsewhere while it still runs here.
func TestALeaseCountsFromTheRequest(t *testing.T) {
	scene(t, func(t *testing.T, w *world) {
		settle(5 * time.Second) // into a request that waits for news
		w.assign(wid(1), true)
		settle(0)
		if lag := 10*time.Minute - w.container(wid(1)).term; lag < 5*time.Second || lag > 6*time.Second {
			t.Errorf("its lease ended %v earlier than one from its creation", lag)
		}
	})
}

// TestALeaderThatIsNotSureIsNotObeyed notices an answer that no quorum confirmed and that is carried
// out: its lease has no end, and what it orders may be old.
func TestALeaderThatIsNotSureIsNotObeyed(t *testing.T) {
	scene(t, func(t *testing.T, w *world) {
		w.assign(wid(1), true)
		settle(time.Second)
		lease := w.container(wid(1)).lease
		w.change(func() { w.unsure = true })
		w.assign(wid(2), true)
		settle(5 * time.Minute)
		if b := w.container(wid(2)); b.creates > 0 {
			t.Error("a job was started")
		}
		if b := w.container(wid(1)); !b.lease.Equal(lease) {
			t.Errorf("a lease was moved by %v", b.lease.Sub(lease))
		}
		w.change(func() { w.unsure = false })
		settle(time.Minute)
		if b := w.container(wid(2)); b.state != container.Running {
			t.Errorf("in the end it is %s", b.state)
		}
	})
}

// TestAFullJournalKeepsNoCores notices cores that stay taken after an intent that could not be written.
func TestAFullJournalKeepsNoCores(t *testing.T) {
	scene(t, func(t *testing.T, w *world) {
		w.change(func() { w.full = true })
		w.assign(wid(1), true)
		settle(time.Minute)
		if b := w.container(wid(1)); b.creates > 0 {
			t.Error("it was created without a record of it")
		}
		w.change(func() { w.full = false })
		for job := int64(2); job <= 8; job++ {
			w.assign(wid(job), true)
		}
		settle(time.Minute)
		for job := int64(1); job <= 8; job++ {
			if b := w.container(wid(job)); b.state != container.Running {
				t.Errorf("job %d is %q", job, b.state)
			}
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
		w.change(func() { w.unbuildable = errors.New(strings.Repeat("x", 3*reconcile.MessageMax)) })
		for job := int64(1); job <= 9; job++ { // more than there are cores
			w.assign(wid(job), true)
		}
		settle(time.Minute)
		for job := int64(1); job <= 9; job++ {
			if r := w.result(w.allocs[wid(job)]); r == nil || r.State != model.WorkerFailed ||
				len(r.Message) != 2000+len("…") || !w.isRetired(wid(job)) {
				t.Errorf("job %d: %.80v, retired %t", job, r, w.isRetired(wid(job)))
			}
		}
	})
}

// TestTwoAttemptsNeverRunTogether notices a second attempt that starts while the first still has
// processes here: both would write the same checkpoint.
func TestTwoAttemptsNeverRunTogether(t *testing.T) {
	scene(t, func(t *testing.T, w *world) {
		w.assign(wid(1), true)
		settle(time.Second)
		w.change(func() { w.containers[wid(1)].undying = true })
		second := container.ID{Job: 1, Attempt: 2}
		w.assign(second, true)
		w.stop(wid(1), model.CauseRequeue, time.Second)
		w.change(func() { w.containers[wid(1)].exits = func(int) *container.Exit { return nil } })
		for range 60 {
			settle(time.Second)
			if first := w.container(wid(1)); first.state == container.Running && w.container(second).creates > 0 {
				t.Fatal("both attempts run")
			}
		}
		w.change(func() { w.containers[wid(1)].undying = false })
		settle(time.Minute)
		if b := w.container(second); b.state != container.Running {
			t.Errorf("the second is %q", b.state)
		}
	})
}

// TestAnIntentThatIsForgottenFreesItsCores notices cores that stay taken by a container that never was.
func TestAnIntentThatIsForgottenFreesItsCores(t *testing.T) {
	scene(t, func(t *testing.T, w *world) {
		hangs := make(chan struct{})
		w.change(func() { w.building = hangs })
		a := w.assign(wid(1), true)
		settle(time.Second) // the intent is written, and the bundle is being made
		go func() { time.Sleep(time.Second); close(hangs) }()
		w.kill()
		w.change(func() { w.building, a.gone = nil, true })
		w.start()
		settle(time.Second)
		for job := int64(2); job <= 9; job++ {
			w.assign(wid(job), true)
		}
		settle(time.Minute)
		for job := int64(2); job <= 9; job++ {
			if b := w.container(wid(job)); b.state != container.Running {
				t.Errorf("job %d is %q", job, b.state)
			}
		}
	})
}
