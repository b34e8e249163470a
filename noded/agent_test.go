package noded

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/gpu"
	"github.com/rota-hpc/rota/noded/run"
)

var (
	seedFlag = flag.Uint64("seed", 0, "run one random history: this one")
	runsFlag = flag.Int("runs", 60, "random histories to run")
)

// wid returns the id of the only worker of the first attempt of a job.
func wid(job int64) container.ID { return container.ID{Job: job, Attempt: 1} }

// scene runs a story in a bubble, with a fresh world and a running agent.
func scene(t *testing.T, story func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.start()
		defer w.kill()
		synctest.Wait()
		story(t, w)
	})
}

// settle lets time pass until all steps before the end of d are done.
func settle(d time.Duration) {
	time.Sleep(d) // the bubble's time
	synctest.Wait()
}

func (w *world) state(id container.ID) model.WorkerState {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.allocs[id].state
}

func (w *world) container(id container.ID) fakeContainer {
	w.mu.Lock()
	defer w.mu.Unlock()
	if b := w.containers[id]; b != nil {
		return *b
	}
	return fakeContainer{removed: true}
}

func (w *world) result(a *assigned) *model.WorkerReport {
	w.mu.Lock()
	defer w.mu.Unlock()
	return a.result
}

func (w *world) history(a *assigned) []model.WorkerState {
	w.mu.Lock()
	defer w.mu.Unlock()
	return a.history
}

func (w *world) lastNode() model.Node {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.nodes[len(w.nodes)-1]
}

func (w *world) notice(id container.ID) container.Notice {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.notices[id]
}

func (w *world) isRetired(id container.ID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.retired[id]
}

func TestSingleWorkerRunsAtOnce(t *testing.T) {
	scene(t, func(t *testing.T, w *world) {
		before := time.Now()
		a := w.assign(wid(1), true)
		synctest.Wait()
		if got := w.state(wid(1)); got != model.WorkerRunning || !time.Now().Equal(before) {
			t.Fatalf("got %s after %v", got, time.Since(before))
		}
		w.leave(wid(1), container.Exit{Code: 3, OOM: true})
		synctest.Wait()
		if w.result(a) == nil || w.result(a).ExitCode != 3 || !w.result(a).OOM ||
			!reflect.DeepEqual(w.history(a), []model.WorkerState{model.WorkerRunning, model.WorkerExited}) {
			t.Fatalf("got %+v, %v", w.result(a), w.history(a))
		}
		if !w.container(wid(1)).removed || !w.isRetired(wid(1)) {
			t.Fatal("the container is still there")
		}
	})
}

func TestGangWaitsForRelease(t *testing.T) {
	scene(t, func(t *testing.T, w *world) {
		a := w.assign(wid(1), false)
		settle(time.Minute)
		if w.container(wid(1)).starts != 0 || w.state(wid(1)) != model.WorkerCreated {
			t.Fatalf("started before its gang was there, or not reported: %s", w.state(wid(1)))
		}
		w.change(func() { a.Released = true })
		synctest.Wait()
		if w.state(wid(1)) != model.WorkerRunning {
			t.Fatalf("got %s", w.state(wid(1)))
		}
	})
}

func TestStopHasNoticeSignalAndGrace(t *testing.T) {
	scene(t, func(t *testing.T, w *world) {
		a := w.assign(wid(1), true)
		synctest.Wait()
		w.mu.Lock()
		w.containers[wid(1)].exits = func(int) *container.Exit { return nil } // it ignores the signal
		w.mu.Unlock()
		began := time.Now()
		w.stop(wid(1), model.CauseTE, 30*time.Second)
		settle(29 * time.Second)
		n := w.notice(wid(1))
		deadline, err := time.Parse(time.RFC3339, n.Deadline)
		if err != nil || n.Reason != "preempt" || n.Signal != "SIGTERM" || n.Attempt != 1 ||
			deadline.Sub(began).Round(time.Second) != 30*time.Second {
			t.Fatalf("got notice %+v (%v)", n, err)
		}
		if b := w.container(wid(1)); b.state != container.Running || !reflect.DeepEqual(b.signals, []int{15}) {
			t.Fatalf("got %s, signals %v", b.state, b.signals)
		}
		w.kill()
		w.start() // a new daemon neither signals again nor starts the clock again
		settle(2 * time.Second)
		if w.result(a) == nil || w.result(a).Signal != 9 {
			t.Fatalf("not killed at the end of its grace: %+v", w.result(a))
		}
		if b := w.container(wid(1)); len(b.signals) != 1 {
			t.Fatalf("signalled %d times", len(b.signals))
		}
	})
}

// TestStrongerStop shows that a job that saves its work for a preemption gets the notice and the
// signal of a cancellation, once, whatever daemon runs.
func TestStrongerStop(t *testing.T) {
	scene(t, func(t *testing.T, w *world) {
		a := w.assign(wid(1), true)
		synctest.Wait()
		w.mu.Lock()
		w.containers[wid(1)].exits = func(int) *container.Exit { return nil } // it ignores the signal
		w.mu.Unlock()
		w.stop(wid(1), model.CauseShrink, 10*time.Minute)
		settle(time.Second)
		w.change(func() {
			stop := *a.Stop
			stop.Cause, a.Stop = model.CauseTE, &stop
		})
		settle(time.Second)
		if b, n := w.container(wid(1)), w.notice(wid(1)); !reflect.DeepEqual(b.signals, []int{15}) ||
			n.Reason != "preempt" {
			t.Fatalf("the same signal again: got %v, notice %+v", b.signals, n)
		}
		began := time.Now()
		w.change(func() {
			a.Stop = &model.Stop{Cause: model.CauseCancelled, At: a.Stop.At, KillAt: clockNow() + 30_000,
				Signal: "SIGINT"}
		})
		settle(time.Second)
		w.kill()
		w.start()
		settle(28 * time.Second)
		n := w.notice(wid(1))
		deadline, err := time.Parse(time.RFC3339, n.Deadline)
		if err != nil || n.Reason != "cancel" || n.Signal != "SIGINT" ||
			deadline.Sub(began).Round(time.Second) != 30*time.Second {
			t.Fatalf("got notice %+v (%v)", n, err)
		}
		if b := w.container(wid(1)); !reflect.DeepEqual(b.signals, []int{15, 2}) || b.state != container.Running {
			t.Fatalf("got signals %v, %s", b.signals, b.state)
		}
		settle(2 * time.Second)
		if w.result(a) == nil || w.result(a).Signal != 9 {
			t.Fatalf("not killed at the end of its grace: %+v", w.result(a))
		}
	})
}

// TestStopIsNeverSilent shows that the job gets its signal before it is killed, wherever the daemon
// is killed meanwhile.
func TestStopIsNeverSilent(t *testing.T) {
	for calls := 1; calls <= 8; calls++ {
		for seed := range uint64(4) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, seed)
				w.start()
				defer func() { w.kill() }()
				a := w.assign(wid(1), true)
				settle(time.Minute)
				w.mu.Lock()
				w.containers[wid(1)].exits, w.crashIn = func(int) *container.Exit { return nil }, calls
				w.mu.Unlock()
				w.stop(wid(1), model.CauseTE, time.Minute)
				<-w.crashed
				w.kill()
				w.start()
				settle(2 * time.Minute)
				if b := w.container(wid(1)); len(b.signals) == 0 || w.result(a) == nil {
					t.Errorf("killed at call %d, seed %d: signals %v, result %+v", calls, seed, b.signals, w.result(a))
				}
			})
		}
	}
}

func TestStopBeforeStart(t *testing.T) {
	scene(t, func(t *testing.T, w *world) {
		a := w.assign(wid(1), false)
		synctest.Wait()
		w.stop(wid(1), model.CauseCancelled, 30*time.Second)
		settle(time.Second)
		if w.result(a) == nil || w.result(a).State != model.WorkerExited || w.result(a).Signal != 9 ||
			w.container(wid(1)).starts != 0 {
			t.Fatalf("got %+v", w.result(a))
		}
	})
}

func TestLostShimIsReported(t *testing.T) {
	scene(t, func(t *testing.T, w *world) {
		a := w.assign(wid(1), true)
		synctest.Wait()
		w.loseShim(wid(1))
		settle(time.Second)
		if w.result(a) == nil || w.result(a).State != model.WorkerFailed ||
			!strings.Contains(w.result(a).Message, "shim") {
			t.Fatalf("got %+v", w.result(a))
		}
	})
}

// TestContainerThatIsGone shows that a container without a trace, as after a crash of the machine,
// is reported, and that its bundle is removed.
func TestContainerThatIsGone(t *testing.T) {
	scene(t, func(t *testing.T, w *world) {
		a := w.assign(wid(1), true)
		synctest.Wait()
		w.kill()
		w.change(func() { delete(w.containers, wid(1)) })
		w.start()
		settle(time.Second)
		if r := w.result(a); r == nil || r.State != model.WorkerFailed || !r.Began || !w.isRetired(wid(1)) {
			t.Fatalf("got %+v, retired: %v", r, w.isRetired(wid(1)))
		}
	})
}

func TestExitWhileAway(t *testing.T) {
	scene(t, func(t *testing.T, w *world) {
		a := w.assign(wid(1), true)
		synctest.Wait()
		w.kill()
		w.leave(wid(1), container.Exit{Code: 7})
		w.change(func() { w.down = true })
		w.start()
		settle(time.Minute)
		w.kill() // a second time, with the result written and not reported
		w.start()
		settle(time.Minute)
		w.change(func() { w.down = false })
		settle(time.Minute)
		if w.result(a) == nil || w.result(a).ExitCode != 7 || !w.container(wid(1)).removed {
			t.Fatalf("got %+v", w.result(a))
		}
	})
}

// TestAWorkerThatWaitsHasNoLease: neither when its container is made, nor after its daemon was restarted. Its
// shim is told so as often as others get a lease, since its answers say what processes beside it use.
func TestAWorkerThatWaitsHasNoLease(t *testing.T) {
	scene(t, func(t *testing.T, w *world) {
		a := w.assign(wid(1), true)
		w.change(func() { a.NoLease = true })
		b := w.assign(wid(2), true)
		settle(time.Minute)
		if lease := w.container(wid(1)).lease; !lease.IsZero() {
			t.Errorf("its lease ends at %v", lease)
		}
		w.kill()
		w.change(func() { w.containers[wid(1)].lease = time.Now().Add(time.Hour) }) // of an older daemon
		w.start()
		settle(time.Minute)
		if lease := w.container(wid(1)).lease; !lease.IsZero() {
			t.Errorf("after a restart its lease ends at %v", lease)
		}
		w.change(func() { w.containers[wid(1)].lease = time.Now().Add(time.Hour) }) // as if it had never been told
		settle(3 * time.Minute)
		if lease := w.container(wid(1)).lease; !lease.IsZero() {
			t.Errorf("it is not told again: its lease ends at %v", lease)
		}
		w.change(func() { w.down = true })
		settle(time.Hour)
		if s := w.container(wid(1)).state; s != container.Running {
			t.Errorf("without controllers it is %s", s)
		}
		if b.gone || w.container(wid(2)).lease.IsZero() {
			t.Error("a worker that does not wait has no lease")
		}
	})
}

func TestNoWordFromControllers(t *testing.T) {
	scene(t, func(t *testing.T, w *world) {
		w.assign(wid(1), true)
		settle(5 * time.Minute)
		renewed := w.container(wid(1)).lease
		if left := time.Until(renewed); left < 8*time.Minute || left > 10*time.Minute {
			t.Fatalf("lease has %v left after steady renewal", left)
		}
		w.change(func() { w.down = true })
		settle(9 * time.Minute)
		if b := w.container(wid(1)); b.state != container.Running || b.lease.After(renewed.Add(time.Minute)) {
			t.Fatalf("got %s, lease moved by %v", b.state, b.lease.Sub(renewed))
		}
	})
}

func TestFinishedIsNotRunAgain(t *testing.T) {
	scene(t, func(t *testing.T, w *world) {
		a := w.assign(wid(1), true)
		synctest.Wait()
		w.leave(wid(1), container.Exit{Code: 7})
		settle(time.Second)
		w.change(func() { a.gone, a.result = false, nil }) // as if the controllers had never received it
		settle(time.Minute)
		if w.result(a) == nil || w.result(a).ExitCode != 7 || w.container(wid(1)).starts != 1 {
			t.Fatalf("got %+v after %d starts", w.result(a), w.container(wid(1)).starts)
		}
		w.kill()
		w.change(func() { a.result = nil })
		w.start()
		settle(time.Minute)
		if w.result(a) == nil || w.result(a).ExitCode != 7 || w.container(wid(1)).starts != 1 {
			t.Fatalf("after a restart: got %+v after %d starts", w.result(a), w.container(wid(1)).starts)
		}
	})
}

func TestNextAttemptWaitsForTheLast(t *testing.T) {
	scene(t, func(t *testing.T, w *world) {
		first, second := wid(1), container.ID{Job: 1, Attempt: 2}
		a := w.assign(first, true)
		synctest.Wait()
		w.change(func() { a.gone = true })
		w.assign(second, true)
		settle(time.Minute)
		if w.container(first).state != container.Exited || w.state(second) != model.WorkerRunning {
			t.Fatalf("got %s and %s", w.container(first).state, w.state(second))
		}
	})
}

// coresInUse returns the containers that run, and fails if two of them share a core.
func (w *world) coresInUse(jobs int64) (running []container.ID) {
	w.t.Helper()
	used := map[int]container.ID{}
	for n := range jobs {
		id := wid(n + 1)
		b := w.container(id)
		if b.state != container.Running {
			continue
		}
		running = append(running, id)
		for _, c := range b.cores {
			if first, taken := used[c]; taken {
				w.t.Errorf("%v and %v run on core %d", first, id, c)
			}
			used[c] = id
		}
	}
	if len(used) != len(running) {
		w.t.Errorf("%d containers of one core each run on %d cores", len(running), len(used))
	}
	return running
}

// TestCoresAreExclusive notices cores of running jobs that are handed out again after a restart of
// the node daemon. It also notices cores of ended jobs that stay taken.
func TestCoresAreExclusive(t *testing.T) {
	scene(t, func(t *testing.T, w *world) {
		const jobs = 10 // on eight cores
		for n := range int64(jobs) {
			w.assign(wid(n+1), true)
		}
		settle(time.Minute)
		running := w.coresInUse(jobs)
		if len(running) != 8 {
			t.Fatalf("%d run", len(running))
		}
		for range 2 {
			w.kill()
			w.start()
			settle(time.Minute)
			if now := w.coresInUse(jobs); !reflect.DeepEqual(now, running) {
				t.Fatalf("after a restart %v run, before it %v", now, running)
			}
		}
		for _, id := range running[:2] {
			w.leave(id, container.Exit{})
		}
		settle(time.Minute)
		if now := w.coresInUse(jobs); len(now) != 8 {
			t.Errorf("when two have ended, %v run", now)
		}
		for n := range int64(jobs) {
			if s := w.state(wid(n + 1)); s != model.WorkerRunning && s != model.WorkerExited {
				t.Fatalf("job %d: got %s", n+1, s)
			}
		}
	})
}

func TestGPUWithLeftoversIsQuarantined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		for n := range 2 {
			w.gpus = append(w.gpus, gpu.Device{GPU: model.GPU{UUID: fmt.Sprintf("GPU-%d", n), Healthy: true}})
		}
		w.start()
		defer w.kill()
		synctest.Wait()
		a := w.assign(wid(1), true)
		w.change(func() { a.GPUs = []int{0, 1}; w.onGPU["GPU-1"] = []int{4711} })
		settle(time.Second)
		w.leave(wid(1), container.Exit{})
		settle(4 * time.Second)
		if w.result(a) != nil {
			t.Fatal("the end was reported while a process was on the GPU")
		}
		settle(2 * time.Second)
		last := w.lastNode()
		if w.result(a) == nil || !last.GPUs[0].Healthy || last.GPUs[1].Healthy ||
			!strings.Contains(last.GPUs[1].Problem, "4711") {
			t.Fatalf("got %+v, GPUs %+v", w.result(a), last.GPUs)
		}
		w.change(func() { delete(w.onGPU, "GPU-1") })
		settle(time.Minute)
		if last := w.lastNode(); !last.GPUs[1].Healthy {
			t.Fatalf("not given back: %+v", last.GPUs)
		}
		w.change(func() { w.gpus = w.gpus[1:] })
		settle(time.Minute)
		if last := w.lastNode(); len(last.GPUs) != 2 || last.GPUs[0].Healthy || last.GPUs[1].UUID != "GPU-1" {
			t.Fatalf("a lost GPU moves the others: %+v", last.GPUs)
		}
	})
}

// TestNoStartOnAnUnhealthyGPU shows that no container starts on such a GPU, even if the controllers
// do not know its health yet.
func TestNoStartOnAnUnhealthyGPU(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.gpus = []gpu.Device{{GPU: model.GPU{UUID: "GPU-0", Healthy: true}},
			{GPU: model.GPU{UUID: "GPU-1", Problem: "XID 79"}}}
		w.start()
		defer w.kill()
		fits, refused := w.assign(wid(1), true), w.assign(wid(2), true)
		w.change(func() { fits.GPUs, refused.GPUs = []int{0}, []int{1} })
		settle(time.Second)
		if r := w.result(refused); r == nil || r.State != model.WorkerFailed || r.Began || r.Final ||
			!strings.Contains(r.Message, "XID 79") {
			t.Errorf("got %+v", r)
		}
		if w.state(wid(1)) != model.WorkerRunning || w.container(wid(2)).starts > 0 {
			t.Errorf("got %q on the other", w.state(wid(1)))
		}
	})
}

// TestNewerHealthIsNotOvertaken shows that a slow registration does not bring back a GPU that is
// still in use.
func TestNewerHealthIsNotOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.gpus = []gpu.Device{{GPU: model.GPU{UUID: "GPU-0", Healthy: true}},
			{GPU: model.GPU{UUID: "GPU-1", Healthy: true}}}
		w.start()
		defer w.kill()
		a := w.assign(wid(1), true)
		slow := make(chan struct{})
		w.change(func() { a.GPUs = []int{1}; w.onGPU["GPU-1"] = []int{4711} })
		settle(time.Second)
		w.change(func() { w.held, w.gpus = slow, []gpu.Device{{GPU: model.GPU{UUID: "GPU-0"}}, w.gpus[1]} })
		settle(time.Minute)
		w.leave(wid(1), container.Exit{})
		settle(10 * time.Second)
		close(slow)
		settle(5 * time.Second)
		if got := w.lastNode().GPUs; got[0].Healthy || got[1].Healthy || w.result(a) == nil {
			t.Fatalf("got %+v, %+v", got, w.result(a))
		}
	})
}

// TestGPUsKeepTheirPlaces shows that GPUs keep their index from daemon to daemon: controllers
// refuse an inventory in which the GPU of a job has another index.
func TestGPUsKeepTheirPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		both := []gpu.Device{{GPU: model.GPU{UUID: "GPU-0", Healthy: true}},
			{GPU: model.GPU{UUID: "GPU-1", Healthy: true}}}
		w.gpus = both
		w.start()
		defer func() { w.kill() }()
		a := w.assign(wid(1), true)
		w.change(func() { a.GPUs = []int{1} })
		settle(time.Second)
		for _, now := range []struct {
			gpus    []gpu.Device
			hung    error
			healthy []bool
			problem string // of the first
		}{
			{both[1:], nil, []bool{false, true}, "missing"},
			{nil, errors.New("the driver hangs"), []bool{false, false}, "the driver hangs"},
			{both, nil, []bool{true, true}, ""},
		} {
			w.kill()
			w.change(func() { w.gpus, w.hung = now.gpus, now.hung })
			w.start()
			settle(time.Minute)
			got := w.lastNode().GPUs
			if len(got) != 2 || got[0].UUID != "GPU-0" || got[0].Healthy != now.healthy[0] || got[1].UUID != "GPU-1" ||
				got[1].Healthy != now.healthy[1] {
				t.Fatalf("got %+v", got)
			}
			if !strings.Contains(got[0].Problem, now.problem) {
				t.Fatalf("got %q", got[0].Problem)
			}
			if b := w.container(wid(1)); b.state != container.Running || time.Until(b.lease) < 8*time.Minute {
				t.Fatalf("got %s, a lease of %v", b.state, time.Until(b.lease))
			}
		}
	})
}

// TestUnwritableGPUFile shows that a full disk does not keep a daemon from starting.
func TestUnwritableGPUFile(t *testing.T) {
	a := NewAgent(Parts{
		GPUs:    gpu.Sim{Node: "n1", N: 2},
		GPUFile: gpu.InventoryFile{Path: filepath.Join(t.TempDir(), "none", "gpus.json")},
		Log:     slog.New(slog.DiscardHandler),
	})
	if err := a.gpus.Load(t.Context()); err != nil || len(a.gpus.All()) != 2 {
		t.Errorf("got %v, %d GPUs", err, len(a.gpus.All()))
	}
}

// TestDriverThatIsLoadedLate is for a machine whose node daemon starts before the driver.
func TestDriverThatIsLoadedLate(t *testing.T) {
	scene(t, func(t *testing.T, w *world) {
		settle(time.Minute)
		w.change(func() { w.gpus = []gpu.Device{{GPU: model.GPU{UUID: "GPU-0", Healthy: true}}} })
		settle(time.Minute)
		if got := w.lastNode().GPUs; len(got) != 1 || !got[0].Healthy {
			t.Fatalf("got %+v", got)
		}
	})
}

// TestBundlesThatHang shows that images on a server that does not answer delay no stop and no
// report.
func TestBundlesThatHang(t *testing.T) {
	scene(t, func(t *testing.T, w *world) {
		w.life.agent.workers.Cores, w.life.agent.run.Cores = nil, nil
		stopped, ended := w.assign(wid(1), true), w.assign(wid(2), true)
		settle(time.Second)
		hangs := make(chan struct{})
		w.change(func() { w.building = hangs })
		for n := range int64(2 * run.Parallel) {
			w.assign(wid(10+n), true)
		}
		settle(time.Second)
		w.stop(wid(1), model.CauseCancelled, 30*time.Second)
		w.leave(wid(2), container.Exit{})
		settle(time.Minute)
		if w.result(stopped) == nil || w.result(ended) == nil {
			t.Errorf("got %+v and %+v", w.result(stopped), w.result(ended))
		}
		close(hangs)
		settle(time.Minute)
		for n := range int64(2 * run.Parallel) { // too late for those that have started
			if got := w.state(wid(10 + n)); got != model.WorkerRunning && got != model.WorkerFailed {
				t.Errorf("job %d in the end: got %q", 10+n, got)
			}
		}
	})
}

// TestFinalFailures shows that failures that stay are distinguished from those that another try may
// avoid.
func TestFinalFailures(t *testing.T) {
	for _, final := range []bool{false, true} {
		scene(t, func(t *testing.T, w *world) {
			w.unbuildable = errors.New("image /x cannot be read")
			if final {
				w.unbuildable = fmt.Errorf("task t: %w", container.Final(w.unbuildable))
			}
			a := w.assign(wid(1), true)
			settle(time.Second)
			r := w.result(a)
			if r == nil || r.State != model.WorkerFailed || r.Final != final || r.Began ||
				!strings.Contains(r.Message, "image /x cannot be read") {
				t.Errorf("got %+v", r)
			}
		})
	}
}

// TestALaunchWaitsForTheUserDatabase: while the user database of the node does not answer, a worker is
// neither launched nor failed. It starts once the database is back.
func TestALaunchWaitsForTheUserDatabase(t *testing.T) {
	scene(t, func(t *testing.T, w *world) {
		w.noUsers = errors.New("sssd does not answer")
		a := w.assign(wid(1), true)
		settle(10 * time.Minute)
		if got := w.state(wid(1)); got != model.WorkerAssigned && got != "" {
			t.Errorf("without the database the worker is %q", got)
		}
		if r := w.result(a); r != nil {
			t.Fatalf("without the database it has ended: %+v", r)
		}
		w.change(func() { w.noUsers = nil })
		settle(time.Minute)
		if got := w.state(wid(1)); got != model.WorkerRunning {
			t.Errorf("with the database the worker is %q", got)
		}
	})
}

// TestHistories runs random histories with faults and kills: every worker that was assigned is
// reported to have ended exactly once, or was withdrawn. None is started twice, and all are
// removed.
func TestHistories(t *testing.T) {
	seeds := []uint64{*seedFlag}
	if *seedFlag == 0 {
		seeds = seeds[:0]
		for n := range uint64(*runsFlag) {
			seeds = append(seeds, n+1)
		}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { history(t, seed) })
		})
	}
}

func history(t *testing.T, seed uint64) {
	w := newWorld(t, seed)
	dice := rand.New(rand.NewPCG(seed, 2))
	w.faults = dice.IntN(4) * 10
	w.start()
	defer func() { w.kill() }()
	attempts := map[int64]int{}
	for range 60 {
		w.step(dice, attempts)
		if dice.IntN(4) == 0 {
			w.mu.Lock()
			w.crashIn = 1 + dice.IntN(12)
			w.mu.Unlock()
		}
		time.Sleep(time.Duration(dice.IntN(3000)) * time.Millisecond)
		select {
		case <-w.crashed:
			w.kill()
			w.start()
		default:
		}
	}
	w.quiesce()
	w.check()
	if t.Failed() {
		t.Logf("seed=%d; repeat with -run TestHistories -seed %d", seed, seed)
	}
}

// step makes a random event happen in the world.
func (w *world) step(dice *rand.Rand, attempts map[int64]int) {
	job := 1 + dice.Int64N(6)
	last := container.ID{Job: job, Attempt: attempts[job]}
	w.mu.Lock()
	a := w.allocs[last]
	over := a == nil || a.gone
	w.mu.Unlock()
	switch n := dice.IntN(14); {
	case over:
		attempts[job]++
		last.Attempt++
		w.assign(last, dice.IntN(2) == 0)
	case n < 2:
		w.change(func() { a.Released = true })
	case n < 5:
		w.leave(last, container.Exit{Code: dice.IntN(3)})
	case n < 6:
		w.stop(last, model.CauseCancelled, time.Duration(dice.IntN(20))*time.Second)
	case n < 7:
		w.loseShim(last)
	case n < 8:
		w.change(func() { a.gone = true })
	case n < 12:
		if w.state(last) == model.WorkerRunning { // to pause, to go on, or not to pause after all
			w.turn(last)
		}
	default:
		w.change(func() { w.down = !w.down })
	}
}

// quiesce ends the faults, ends all containers, and waits until that is done.
func (w *world) quiesce() {
	w.mu.Lock()
	w.faults, w.crashIn = 0, 0
	w.mu.Unlock()
	select {
	case <-w.crashed:
		w.kill()
		w.start()
	default:
	}
	w.change(func() {
		w.down = false
		for _, a := range w.allocs {
			a.Released = true
		}
	})
	settle(time.Minute)
	w.mu.Lock()
	for id, b := range w.containers {
		if a := w.allocs[id]; b.state == container.Running && !a.gone && a.Stop == nil && a.Switch != nil &&
			a.switched != a.Switch.Number {
			w.t.Errorf("%v has reported switch %d of %d", id, a.switched, a.Switch.Number)
		}
		w.end(id, &container.Exit{})
	}
	w.mu.Unlock()
	settle(2 * time.Minute)
	w.mu.Lock()
	for id := range w.containers {
		w.end(id, &container.Exit{}) // those that waited for cores or for an earlier attempt
	}
	w.mu.Unlock()
	settle(2 * time.Minute)
}

func (w *world) check() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, a := range w.allocs {
		if a.result == nil && !a.gone {
			w.t.Errorf("%v has no result and is %s", id, a.state)
		}
	}
	for id, b := range w.containers {
		if b.starts > 1 {
			w.t.Errorf("%v was started %d times", id, b.starts)
		}
		if !b.removed {
			w.t.Errorf("%v is still there, %s", id, b.state)
		}
	}
}

// lag returns how much earlier the lease of a container ends than that of an answer that came just
// now.
func (w *world) lag(id container.ID) time.Duration {
	return 10*time.Minute - time.Until(w.container(id).lease)
}

func TestAShimThatHangsCostsNoOtherItsLease(t *testing.T) {
	scene(t, func(t *testing.T, w *world) {
		for job := int64(1); job <= 8; job++ {
			w.assign(wid(job), true)
		}
		settle(time.Second)
		w.change(func() { w.containers[wid(5)].deaf = true })
		settle(9 * time.Minute)
		for job := int64(1); job <= 8; job++ {
			if lag := w.lag(wid(job)); job != 5 && lag > 3*time.Minute {
				t.Errorf("the lease of job %d was last renewed %v ago", job, lag)
			}
		}
	})
}

func TestWhatIsNotListedIsNotRenewed(t *testing.T) {
	scene(t, func(t *testing.T, w *world) {
		a := w.assign(wid(1), true)
		w.assign(wid(2), true)
		settle(time.Second)
		w.change(func() { a.gone = true; w.containers[wid(1)].undying = true }) // its lease is the last resort
		before := w.container(wid(1)).lease
		settle(5 * time.Minute)
		if got := w.container(wid(1)).lease; got.After(before) {
			t.Errorf("its lease was moved by %v", got.Sub(before))
		}
		if lag := w.lag(wid(2)); lag > 3*time.Minute {
			t.Errorf("that of the other was last renewed %v ago", lag)
		}
	})
}
