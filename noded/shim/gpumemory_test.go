package shim

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/gpu/cuda/cudatest"
)

// endAfterAnswers is end for a worker whose last answers have not been read.
func (w *liveWorker) endAfterAnswers() container.Exit {
	w.t.Helper()
	for a := w.answer(); !a.Exited; a = w.answer() {
		if a.Switch.Problem != "" {
			w.t.Errorf("a problem of a worker that ends: %q", a.Switch.Problem)
		}
	}
	return w.exit()
}

// heldMemory is why a worker with GPU memory must not be frozen.
const heldMemory = "process 1 cannot give up its memory on GPU 0"

var outWithMemory = container.SwitchOrder{Number: 1, WithinMS: patient, NoFreeze: heldMemory}

// twoSleep is a program with two processes that the tests find by their names. It exits as one that
// was asked to stop, and has saved, when it has read two signals.
const twoSleep = `sleep 1001 & sleep 1002 &
read first <&3; echo stopping; read second <&3; echo '{"code":85,"asked":true}' >&3`

// processCalled finds a process of the worker by its command line.
func (w *liveWorker) processCalled(command string) int {
	w.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		for _, pid := range w.processes() {
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // it may have ended
			if strings.TrimRight(strings.ReplaceAll(string(line), "\x00", " "), " ") == command {
				return pid
			}
		}
	}
	w.t.Fatalf("no process %q", command)
	return 0
}

// processes returns the ids of the worker's processes, by their cgroups.
func (w *liveWorker) processes() (list []int) {
	w.t.Helper()
	entries, err := os.ReadDir("/proc")
	check(w.t, err)
	for _, e := range entries {
		groups, err := os.ReadFile("/proc/" + e.Name() + "/cgroup")
		var pid int
		if _, no := fmt.Sscan(e.Name(), &pid); err == nil && no == nil && strings.Contains(string(groups), ":"+w.cgroup) {
			list = append(list, pid)
		}
	}
	return list
}

// holder is a worker of which two processes hold GPU memory, as far as the driver knows.
func holder(t *testing.T, list ...program) (w *liveWorker, gpu *cudatest.World, a, b int) {
	t.Helper()
	gpu = cudatest.Install(t, false)
	if len(list) == 0 {
		list = []program{script(twoSleep)}
	}
	w = live(t, func(s *container.Settings) { s.LeaseGrace = patient }, list...).start()
	a, b = w.processCalled("sleep 1001"), w.processCalled("sleep 1002")
	gpu.Use(a, cudatest.Running)
	gpu.Use(b, cudatest.Running)
	return w, gpu, a, b
}

func wantStates(t *testing.T, gpu *cudatest.World, want string, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		if got := gpu.State(pid); got != want {
			t.Errorf("process %d is in state %s, not %s", pid, got, want)
		}
	}
}

// stands reports whether the worker is frozen.
func (w *liveWorker) stands() bool {
	for _, pattern := range []string{"/sys/fs/cgroup/freezer" + w.cgroup + "/freezer.state",
		"/sys/fs/cgroup" + w.cgroup + "/cgroup.freeze"} {
		if b, err := os.ReadFile(pattern); err == nil {
			return string(b) == "FROZEN\n" || string(b) == "1\n"
		}
	}
	w.t.Fatal("the worker has no freezer")
	return false
}

// TestTheDriverMovesGPUMemory: a worker that must not be frozen with its GPU memory is frozen
// without, and gets it back before it goes on. The stand-in fails for a frozen process.
func TestTheDriverMovesGPUMemory(t *testing.T) {
	w, gpu, a, b := holder(t)
	for number := 1; number <= 4; number += 2 {
		o := outWithMemory
		o.Number = number
		w.switchTo(o)
		if s := w.done(number); s.Means != container.DriverCheckpoint || s.Problem != "" || !w.stands() {
			t.Fatalf("%+v", s)
		}
		wantStates(t, gpu, cudatest.Checkpointed, a, b)
		w.switchTo(container.SwitchOrder{Number: number + 1})
		if s := w.done(number + 1); s.Problem != "" || w.stands() {
			t.Fatalf("%+v", s)
		}
		wantStates(t, gpu, cudatest.Running, a, b)
	}
	w.switching(container.Order{Op: container.OpKill})
	w.end()
}

// TestTasksGiveTheirGPUMemory: the processes of all tasks count.
func TestTasksGiveTheirGPUMemory(t *testing.T) {
	w, gpu, a, b := holder(t, hooked("one", "", false, "exec sleep 1001"), hooked("two", "", false, "exec sleep 1002"))
	w.switchTo(outWithMemory)
	if s := w.done(1); s.Means != container.DriverCheckpoint {
		t.Fatalf("%+v", s)
	}
	wantStates(t, gpu, cudatest.Checkpointed, a, b)
	w.switching(container.Order{Op: container.OpKill})
	if e := w.end(); e.Signal != 9 || e.Why != "" && strings.Contains(e.Why, "GPU memory") {
		t.Errorf("a worker that is killed needs no memory: %+v", e)
	}
}

// TestAStopBringsGPUMemoryBack: a worker that is to leave saves with its GPU memory, after a stop
// and after the end of its lease.
func TestAStopBringsGPUMemoryBack(t *testing.T) {
	for name, stop := range map[string]func(*liveWorker){
		"stop":  func(w *liveWorker) { w.switching(container.Order{Op: container.OpSignal, Signal: int(unix.SIGTERM)}) },
		"lease": func(w *liveWorker) { w.renew(50 * time.Millisecond) },
	} {
		t.Run(name, func(t *testing.T) {
			w, gpu, a, b := holder(t)
			w.switchTo(outWithMemory)
			w.done(1)
			gpu.Calls()
			stop(w)
			w.says("", "stopping")
			calls := fmt.Sprintf("restore %d, unlock %d, restore %d, unlock %d", a, a, b, b)
			for deadline := time.Now().Add(20 * time.Second); gpu.State(b) != cudatest.Running; {
				if time.Now().After(deadline) {
					t.Fatal("the memory does not come back")
				}
				time.Sleep(time.Millisecond)
			}
			if got := gpu.Calls(); got != calls {
				t.Errorf("calls %q, not %q", got, calls)
			}
			wantStates(t, gpu, cudatest.Running, a, b)
			w.switching(container.Order{Op: container.OpSignal, Signal: int(unix.SIGTERM)}) // the program reads it, and ends
			if e := w.end(); e.Code != 85 || e.Why != "" || e.Lease != (name == "lease") {
				t.Errorf("exit %+v", e)
			}
		})
	}
}

// TestGPUMemoryThatStays: what cannot be moved is told, and the worker goes on with all that it
// has.
func TestGPUMemoryThatStays(t *testing.T) {
	w, gpu, a, b := holder(t)
	gpu.Plan(fmt.Sprintf("fail checkpoint %d", b))
	w.switchTo(outWithMemory)
	s := w.done(1)
	for _, text := range []string{"announced pause points", heldMemory, "was not moved to the host",
		fmt.Sprintf("checkpoint process %d", b)} {
		if s.Done != 0 || !strings.Contains(s.Problem, text) {
			t.Errorf("%q lacks %q, or is no problem: %+v", s.Problem, text, s)
		}
	}
	wantStates(t, gpu, cudatest.Running, a, b)
	if w.stands() {
		t.Error("it is frozen")
	}
	w.switchTo(container.SwitchOrder{Number: 2})
	w.done(2)
	gpu.Plan()
	o := outWithMemory
	o.Number = 3
	w.switchTo(o)
	if s := w.done(3); s.Means != container.DriverCheckpoint || s.Problem != "" {
		t.Errorf("%+v", s)
	}
	// memory that is lost ends the worker
	gpu.Plan(fmt.Sprintf("fail restore %d", a))
	check(t, json.NewEncoder(w.conn).Encode(container.Order{Op: container.OpSwitch,
		Switch: &container.SwitchOrder{Number: 4}}))
	e := w.endAfterAnswers()
	if e.Signal != 9 || !strings.Contains(e.Why, fmt.Sprintf("restore process %d", a)) {
		t.Errorf("exit %+v", e)
	}
}

// TestOrdersWhileMemoryMoves: what is ordered during a move counts when that is over, and a kill at
// once.
func TestOrdersWhileMemoryMoves(t *testing.T) {
	w, gpu, a, b := holder(t)
	gpu.Block("checkpoint")
	w.switchTo(outWithMemory)
	gpu.AwaitBlocked()
	w.switchTo(container.SwitchOrder{Number: 2})
	gpu.Unblock()
	if s := w.done(2); s.Problem != "" || w.stands() {
		t.Errorf("%+v", s)
	}
	wantStates(t, gpu, cudatest.Running, a, b)

	o := outWithMemory
	o.Number = 3
	w.switchTo(o)
	w.done(3)
	gpu.Block("restore")
	w.switchTo(container.SwitchOrder{Number: 4})
	gpu.AwaitBlocked()
	w.switchTo(container.SwitchOrder{Number: 5, WithinMS: patient}) // on the way back it must not be frozen
	gpu.Unblock()
	if s := w.done(5); s.Means != container.DriverCheckpoint || !w.stands() {
		t.Errorf("%+v", s)
	}
	wantStates(t, gpu, cudatest.Checkpointed, a, b)
	w.switchTo(container.SwitchOrder{Number: 7, WithinMS: patient}) // 6 was lost
	if s := w.done(7); s.Means != container.DriverCheckpoint || !w.stands() {
		t.Errorf("%+v", s)
	}
	w.switchTo(container.SwitchOrder{Number: 8})
	w.done(8)

	gpu.Plan("hang checkpoint 0")
	o.Number = 9
	w.switchTo(o)
	gpu.AwaitBlocked()
	check(t, json.NewEncoder(w.conn).Encode(container.Order{Op: container.OpKill}))
	if e := w.endAfterAnswers(); e.Signal != 9 || e.Why != "" {
		t.Errorf("exit %+v", e)
	}
}

// TestAPausePointBeforeTheDriver: a process that pauses by itself is left to do so.
func TestAPausePointBeforeTheDriver(t *testing.T) {
	w, gpu, a, b := holder(t)
	p := w.process()
	p.ready()
	w.switchTo(outWithMemory)
	p.hears(`{"do":"pause","number":1}`)
	p.says(`{"say":"paused","number":1}`)
	if s := w.done(1); s.Means != container.Cooperative {
		t.Errorf("%+v", s)
	}
	w.switchTo(container.SwitchOrder{Number: 2})
	p.hears(`{"do":"resume","number":2}`)
	p.says(`{"say":"resumed","number":2}`)
	w.done(2)
	if calls := gpu.Calls(); calls != "" {
		t.Errorf("the driver was asked: %s", calls)
	}
	o := outWithMemory
	o.Number, o.WithinMS = 3, 50 // it does not come by in time
	w.switchTo(o)
	if s := w.done(3); s.Means != container.DriverCheckpoint {
		t.Errorf("%+v", s)
	}
	wantStates(t, gpu, cudatest.Checkpointed, a, b)
	p.hears(`{"do":"pause","number":3}`)
	w.switchTo(container.SwitchOrder{Number: 4})
	p.hears(`{"do":"resume","number":4}`)
	p.says(`{"say":"resumed","number":4}`)
	if s := w.done(4); s.Problem != "" {
		t.Errorf("%+v", s)
	}
	wantStates(t, gpu, cudatest.Running, a, b)
	w.switching(container.Order{Op: container.OpKill})
	w.end()
}

// TestProcessesThatStartMeanwhile: those that have taken GPU memory during a move are moved too, or
// all stay.
func TestProcessesThatStartMeanwhile(t *testing.T) {
	for _, fails := range []bool{false, true} {
		w, gpu, a, b := holder(t, script(`sleep 1001 & sleep 1002 &
while ! test -e /tmp/go; do sleep 0.01; done; sleep 1003 & read order <&3`))
		gpu.Block("checkpoint")
		w.switchTo(outWithMemory)
		gpu.AwaitBlocked()
		check(t, os.WriteFile(fmt.Sprintf("/proc/%d/root/tmp/go", a), nil, 0o600))
		c := w.processCalled("sleep 1003")
		gpu.Use(c, cudatest.Running)
		if fails {
			gpu.Plan(fmt.Sprintf("fail lock %d", c)) // which also ends the block
			if s := w.done(1); s.Done != 0 || !strings.Contains(s.Problem, fmt.Sprintf("lock process %d", c)) {
				t.Errorf("%+v", s)
			}
			wantStates(t, gpu, cudatest.Running, a, b, c)
		} else {
			gpu.Unblock()
			if s := w.done(1); s.Means != container.DriverCheckpoint {
				t.Errorf("%+v", s)
			}
			wantStates(t, gpu, cudatest.Checkpointed, a, b, c)
		}
		w.switching(container.Order{Op: container.OpKill})
		w.end()
	}
}
