package noded

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/gpu"
	"github.com/rota-hpc/rota/noded/gpus"
	"github.com/rota-hpc/rota/noded/measure"
)

const gib = int64(1) << 30

// sharing runs a story on a node with one GPU of 80 GiB. Jobs 1 and 2 have a half each. Job 1 has
// declared 10 GiB of its memory, and job 2 its half. Their processes are 1 and 2.
func sharing(t *testing.T, seed uint64, story func(w *world, a, b *assigned)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, seed)
		w.gpus = []gpu.Device{{GPU: model.GPU{UUID: "GPU-0", Memory: 80 * jobspec.GiB, Healthy: true}}}
		w.owners = map[int]container.ID{1: wid(1), 2: wid(2)}
		w.used = map[int]int64{1: 10 * gib, 2: 40 * gib}
		w.onGPU["GPU-0"] = []int{1, 2}
		w.start()
		defer w.kill()
		synctest.Wait()
		assign := func(id container.ID, memory jobspec.Bytes) *assigned {
			a := w.assign(id, true)
			w.change(func() {
				a.GPUs = []int{0}
				a.Spec = &jobspec.Job{Groups: []jobspec.Group{{Tasks: []jobspec.Task{{}, {Resources: jobspec.Resources{GPUs: 1,
					GPU: &jobspec.GPU{Share: 500, MaxMemory: memory}}}}}}}
			})
			return a
		}
		a, b := assign(wid(1), 10*jobspec.GiB), assign(wid(2), jobspec.PartOfMemory)
		settle(30 * time.Second)
		if w.state(wid(1)) != model.WorkerRunning || w.state(wid(2)) != model.WorkerRunning {
			t.Fatalf("jobs within their memory: %s and %s", w.state(wid(1)), w.state(wid(2)))
		}
		story(w, a, b)
	})
}

// uses has a process use so much from now on.
func (w *world) uses(pid int, bytes int64) { w.change(func() { w.used[pid] = bytes }) }

// leavesGPU leaves only these processes on the GPU, as the kernel does when a container has ended.
func (w *world) leavesGPU(pids ...int) { w.change(func() { w.onGPU["GPU-0"] = pids }) }

func (w *world) hasNotice(id container.ID) bool { return w.notice(id) != container.Notice{} }

// TestAJobOverItsGPUMemory notices a job that gets no notice, and one that is stopped although it
// has freed memory. It also notices a job that is not stopped, and a neighbour that suffers.
func TestAJobOverItsGPUMemory(t *testing.T) {
	sharing(t, 1, func(w *world, a, b *assigned) {
		w.uses(1, 10*gib+1)
		settle(measure.SlowSamples)
		n := w.notice(wid(1))
		if n.Reason != "gpu_memory" || n.Attempt != 1 || n.Signal != "" ||
			n.Message != "it uses 10241 MiB of the memory of GPU 0, but declared 10240 MiB" {
			w.t.Fatalf("notice %+v", n)
		}
		if until, err := time.Parse(time.RFC3339Nano, n.Deadline); err != nil || time.Until(until) != measure.MemoryGrace {
			w.t.Errorf("%s to free memory, want %v; %v", n.Deadline, measure.MemoryGrace, err)
		}
		settle(measure.MemoryGrace - 2*measure.SlowSamples)
		w.uses(1, 10*gib)
		settle(time.Minute)
		if w.hasNotice(wid(1)) || w.state(wid(1)) != model.WorkerRunning {
			w.t.Fatalf("it has freed memory, and has notice %+v and is %s", w.notice(wid(1)), w.state(wid(1)))
		}
		w.uses(1, 90*gib)
		settle(measure.SlowSamples + measure.MemoryGrace - time.Millisecond)
		if r := w.container(wid(1)); r.state != container.Running {
			w.t.Fatalf("stopped before its grace was over: %+v", r)
		}
		w.uses(1, 70*gib) // still too much, and the deadline stands
		settle(measure.SlowSamples)
		if r := w.container(wid(1)); r.state != container.Exited || r.exit.Signal != 9 || len(r.signals) > 0 {
			w.t.Fatalf("it runs on: %+v", r)
		}
		w.leavesGPU(2)
		settle(time.Second)
		r := w.result(a)
		if r == nil || !r.OOM || r.Signal != 9 || r.State != model.WorkerExited ||
			!strings.HasPrefix(r.Why, "stopped: it uses ") || !strings.HasSuffix(r.Why, "declared 10240 MiB") {
			w.t.Fatalf("result %+v", r)
		}
		settle(time.Minute)
		if w.state(wid(2)) != model.WorkerRunning || w.hasNotice(wid(2)) || w.result(b) != nil {
			w.t.Errorf("its neighbour: %s, %+v", w.state(wid(2)), w.notice(wid(2)))
		}
		if last := w.lastNode(); !last.GPUs[0].Healthy {
			w.t.Errorf("the GPU is out of use although only the other job is on it: %+v", last.GPUs)
		}
	})
}

// TestNeighboursKeepTheirGPU notices a job whose end waits for the processes of another one. It
// also notices leftovers of it that are overlooked because others share the GPU.
func TestNeighboursKeepTheirGPU(t *testing.T) {
	sharing(t, 1, func(w *world, a, b *assigned) {
		w.leave(wid(1), container.Exit{})
		settle(gpus.Patience - time.Second)
		if w.result(a) != nil {
			w.t.Fatal("its process is still on the GPU, and its end is reported")
		}
		settle(2 * time.Second)
		if last := w.lastNode(); w.result(a) == nil || last.GPUs[0].Healthy ||
			!strings.Contains(last.GPUs[0].Problem, "process 1 of an ended job") {
			w.t.Fatalf("a rest was overlooked: %+v, %+v", w.result(a), last.GPUs)
		}
		w.leavesGPU(2)
		settle(time.Minute)
		if last := w.lastNode(); !last.GPUs[0].Healthy || w.state(wid(2)) != model.WorkerRunning {
			w.t.Fatalf("the rest is gone: %+v, and the other job is %s", last.GPUs, w.state(wid(2)))
		}
		w.leave(wid(2), container.Exit{})
		w.leavesGPU()
		settle(time.Second)
		if w.result(b) == nil {
			w.t.Error("the GPU is empty, and the end of the last job is not reported")
		}
	})
}

// TestGPUMemoryThatIsNotKnown notices jobs that are stopped for what the driver does not tell, or
// that other processes use.
func TestGPUMemoryThatIsNotKnown(t *testing.T) {
	sharing(t, 1, func(w *world, _, _ *assigned) {
		w.change(func() {
			delete(w.used, 1)                 // the driver does not know
			w.used[2] = 40 * gib              // its half
			w.onGPU["GPU-0"] = []int{1, 2, 3} // 3 is no job's
			w.used[3] = 79 * gib
		})
		settle(time.Minute)
		for _, id := range []container.ID{wid(1), wid(2)} {
			if w.state(id) != model.WorkerRunning || w.hasNotice(id) {
				w.t.Errorf("%v is %s and has notice %+v", id, w.state(id), w.notice(id))
			}
		}
	})
}

// TestTheNoticeOfAStopStays notices a notice of memory in place of the one that the job must act
// on.
func TestTheNoticeOfAStopStays(t *testing.T) {
	sharing(t, 1, func(w *world, _, _ *assigned) {
		w.change(func() { w.containers[wid(1)].exits = func(int) *container.Exit { return nil } })
		w.stop(wid(1), model.CauseTE, time.Hour)
		settle(time.Second)
		w.uses(1, 50*gib)
		settle(5 * time.Second)
		if n := w.notice(wid(1)); n.Reason != "preempt" {
			w.t.Errorf("notice %+v", n)
		}
		w.uses(1, 1)
		settle(5 * time.Second)
		if n := w.notice(wid(1)); n.Reason != "preempt" {
			w.t.Errorf("notice %+v", n)
		}
		w.uses(1, 50*gib)
		settle(time.Minute)
		if r := w.container(wid(1)); r.state != container.Exited {
			w.t.Errorf("a job that is stopping may take its neighbours' memory: %+v", r)
		}
	})
}

// TestExcessAcrossRestarts kills the daemon at every call while a job uses too much. The job is
// stopped once, its end says why, and a notice does not outlive its reason.
func TestExcessAcrossRestarts(t *testing.T) {
	seen := 0
	for calls := 1; calls <= 12; calls++ {
		sharing(t, uint64(calls), func(w *world, a, _ *assigned) {
			w.change(func() { w.crashIn = calls; w.used[1] = 11 * gib })
			select {
			case <-w.crashed:
				seen++
				w.kill()
				w.start()
			case <-time.After(2 * measure.MemoryGrace):
				w.change(func() { w.crashIn = 0 })
			}
			for range 60 {
				settle(time.Second)
				if w.container(wid(1)).state == container.Exited {
					w.leavesGPU(2)
				}
			}
			if r := w.result(a); r == nil || !r.OOM || !strings.Contains(r.Why, "declared") {
				w.t.Fatalf("seed %d, killed at call %d: %+v", calls, calls, r)
			}
			if w.state(wid(2)) != model.WorkerRunning {
				w.t.Fatalf("seed %d: the neighbour is %s", calls, w.state(wid(2)))
			}
		})
	}
	if seen < 5 {
		t.Errorf("the daemon was killed %d times", seen)
	}
	sharing(t, 1, func(w *world, _, _ *assigned) {
		w.uses(1, 11*gib)
		settle(2 * time.Second)
		w.kill()
		w.uses(1, 0)
		w.start()
		settle(5 * time.Second)
		if w.hasNotice(wid(1)) || w.state(wid(1)) != model.WorkerRunning {
			w.t.Errorf("it has freed memory while no daemon ran: %s, notice %+v", w.state(wid(1)), w.notice(wid(1)))
		}
	})
}
