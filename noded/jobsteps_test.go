package noded

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/gpu"
	"github.com/rota-hpc/rota/noded/jobsteps"
	"github.com/rota-hpc/rota/noded/jobsteps/choose"
	"github.com/rota-hpc/rota/noded/journal"
	"github.com/rota-hpc/rota/noded/oci"
	"github.com/rota-hpc/rota/noded/run"
)

// withStep gives a worker a launch type for steps, and a part of one that runs beside it.
func (w *world) withStep(id container.ID, to string) container.ID {
	part := id.OfStep(0)
	w.change(func() {
		w.allocs[id].Spec = &jobspec.Job{Preemption: &jobspec.Preemption{SignalTo: to},
			Groups: []jobspec.Group{{Tasks: []jobspec.Task{{Launch: &jobspec.Launch{Type: jobspec.LaunchSteps}}}}}}
		w.containers[part] = &fakeContainer{state: container.Running}
		w.emit(part)
	})
	settle(time.Second)
	return part
}

// TestStepsAreStoppedWithTheirJob notices steps that are not asked to stop, and a signal that the
// job has excluded steps from. It also notices a worker that leaves before the steps that use its
// room.
func TestStepsAreStoppedWithTheirJob(t *testing.T) {
	for _, c := range []struct {
		to      string
		cause   model.Cause
		worker  int
		program bool // is signalled
		steps   bool // are signalled
	}{
		{"", model.CauseCancelled, 0, true, true}, {"", model.CauseTE, 0, true, true},
		{jobspec.SignalScript, model.CauseTE, 0, true, false}, {jobspec.SignalScript, model.CauseTimeout, 0, true, true},
		{"", model.CauseCancelled, 1, false, true},
	} {
		scene(t, func(t *testing.T, w *world) {
			id := container.ID{Job: 1, Attempt: 1, Worker: c.worker}
			w.assign(id, true)
			settle(time.Second)
			part := w.withStep(id, c.to)
			w.change(func() {
				w.containers[id].exits = func(int) *container.Exit { return nil }
				w.containers[part].exits = func(int) *container.Exit { return nil }
			})
			w.stop(id, c.cause, 30*time.Second)
			settle(5 * time.Second)
			if got := len(w.container(id).stops) > 0; got != c.program {
				t.Errorf("%+v: the worker got %v", c, w.container(id).stops)
			}
			if got := len(w.container(part).stops) > 0; got != c.steps {
				t.Errorf("%+v: the step got %v", c, w.container(part).stops)
			}
			if c.worker == 0 {
				return
			}
			w.change(func() { w.containers[id].exits = nil })
			w.leave(part, container.Exit{})
			settle(time.Second)
			if b := w.container(id); b.state != container.Exited || len(b.stops) == 0 || b.stops[0].Number != int(unix.SIGTERM) {
				t.Errorf("the worker without steps is %s, stopped by %v", b.state, b.stops)
			}
		})
	}
}

// TestTheEarlySignalOfSteps notices an early signal that goes to the commands that have started the
// steps, or to steps although it is for the script.
func TestTheEarlySignalOfSteps(t *testing.T) {
	for to, want := range map[string][2]int{"": {1, 1}, jobspec.SignalScript: {1, 0}, jobspec.SignalPrograms: {0, 1}} {
		scene(t, func(t *testing.T, w *world) {
			w.assign(wid(1), true)
			settle(time.Second)
			part := w.withStep(wid(1), to)
			w.change(func() {
				w.allocs[wid(1)].Early = &api.Early{Limit: clockNow() + 60_000, Signal: "SIGUSR1"}
				w.containers[wid(1)].exits = func(int) *container.Exit { return nil }
				w.containers[part].exits = func(int) *container.Exit { return nil }
			})
			settle(time.Second)
			if got := [2]int{len(w.container(wid(1)).early), len(w.container(part).early)}; got != want {
				t.Errorf("to %q: the script and the step got %v, not %v", to, got, want)
			}
		})
	}
}

// TestPlainSignalsOfSteps notices a user's signal for the programs that also reaches the script,
// and a signal for the script that also reaches the steps. It also notices a signal for all that
// misses some.
func TestPlainSignalsOfSteps(t *testing.T) {
	for to, want := range map[string][2]int{"": {1, 1}, jobspec.SignalScript: {1, 0}, jobspec.SignalPrograms: {0, 1}} {
		scene(t, func(t *testing.T, w *world) {
			w.assign(wid(1), true)
			settle(time.Second)
			part := w.withStep(wid(1), "")
			s := container.Signal{Number: int(unix.SIGUSR1), To: to, Plain: true}
			a := w.life.agent
			if err := a.run.SignalWithSteps(t.Context(), wid(1), a.workers.Desired(wid(1)), s); err != nil {
				t.Fatal(err)
			}
			if got := [2]int{len(w.container(wid(1)).plain), len(w.container(part).plain)}; got != want {
				t.Errorf("to %q: the script and the step got %v, not %v", to, got, want)
			}
		})
	}
}

// TestTheHolderOfAStepThatIsLeft notices a job that never ends because its shim once failed to
// answer the end. It also notices one that has ended and is still tried.
func TestTheHolderOfAStepThatIsLeft(t *testing.T) {
	scene(t, func(t *testing.T, w *world) {
		w.assign(wid(1), true)
		settle(time.Second)
		w.change(func() { w.containers[wid(1)].deaf = true })
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.life.agent.endHolder(t.Context(), wid(1))
		}()
		settle(run.Timeout + time.Second/2)
		w.change(func() { w.containers[wid(1)].deaf = false })
		settle(2 * time.Second)
		got := w.container(wid(1)).plain
		if len(got) != 1 || got[0].Number != int(unix.SIGKILL) || got[0].To != jobspec.SignalScript {
			t.Errorf("its script got %+v", got)
		}
		<-done
		w.leave(wid(1), container.Exit{})
		settle(time.Second)
		w.life.agent.endHolder(t.Context(), wid(1))
		if n := len(w.container(wid(1)).plain); n != 1 {
			t.Errorf("its script got %d signals", n)
		}
	})
}

// TestWhichWorkersTakeSteps notices a step that begins before the namespaces of its worker are known, and
// a pause that steps do not know of.
func TestWhichWorkersTakeSteps(t *testing.T) {
	scene(t, func(t *testing.T, w *world) {
		w.assign(wid(1), true)
		settle(time.Second)
		a := w.life.agent
		for _, c := range []struct {
			pid     int
			s       container.Switching
			refused bool
			paused  bool
		}{
			{refused: true}, {pid: 7}, {pid: 7, s: container.Switching{Ordered: 1}, paused: true},
			{pid: 7, s: container.Switching{Ordered: 1, Problem: "it may not"}},
			{pid: 7, s: container.Switching{Ordered: 2, Done: 2}},
		} {
			w.becomes(wid(1), c.pid, c.s)
			got, err := a.workers.ForSteps(wid(1))
			if err != nil {
				t.Fatal(err)
			}
			var p *api.Problem
			refused := errors.As(got.Refuse, &p) && p.Code == api.CodeNoLeader
			if refused != c.refused || got.Paused != c.paused {
				t.Errorf("%+v: refused by %v, paused %v", c, got.Refuse, got.Paused)
			}
		}
	})
}

// TestUsageOfSteps notices a step that runs and is missing in what its worker uses.
func TestUsageOfSteps(t *testing.T) {
	scene(t, func(t *testing.T, w *world) {
		w.assign(wid(1), true)
		settle(time.Second)
		part := w.withStep(wid(1), "")
		w.change(func() {
			w.life.cpu = func(id container.ID) time.Duration {
				if id == part {
					return 2 * time.Second
				}
				return 3 * time.Second
			}
		})
		u, runs := w.life.agent.measure.UsageNow(wid(1))
		want := model.Usage{CPUMS: 2000, SystemMS: 200, PeakMemory: 2 << 20}
		if !runs || u.CPUMS != 3000 || len(u.Steps) != 1 || u.Steps[0].Step != 0 || u.Steps[0].Usage != want {
			t.Errorf("%v, %+v", runs, u)
		}
	})
}

// TestUsageBesideAWorker notices unreported usage of processes beside a worker: while it runs, when
// it has ended, and when its shim was lost.
func TestUsageBesideAWorker(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(*world)
		want model.Usage
	}{
		"ends": {func(w *world) {
			w.leave(wid(1), container.Exit{UserMS: 4000, SystemMS: 2000,
				Extern: container.Spent{UserMS: 3000, SystemMS: 1500, PeakMem: 7 << 20}})
		}, model.Usage{CPUMS: 6000, SystemMS: 2000, ExternCPUMS: 4500, ExternSystemMS: 1500, ExternMemory: 7 << 20}},
		"is lost": {func(w *world) { w.loseShim(wid(1)) },
			model.Usage{CPUMS: 900, SystemMS: 100, ExternCPUMS: 900, ExternSystemMS: 100, ExternMemory: 1 << 20}},
	} {
		scene(t, func(t *testing.T, w *world) {
			a := w.assign(wid(1), true)
			settle(time.Second)
			w.change(func() {
				w.life.cpu = func(container.ID) time.Duration { return 500 * time.Millisecond }
				w.containers[wid(1)].extern = container.Spent{UserMS: 800, SystemMS: 100, PeakMem: 1 << 20}
				w.emit(wid(1))
			})
			settle(time.Second)
			u, runs := w.life.agent.measure.UsageNow(wid(1))
			want := model.Usage{CPUMS: 900, SystemMS: 100, PeakMemory: u.PeakMemory, ExternCPUMS: 900, ExternSystemMS: 100,
				ExternMemory: 1 << 20} // the whole was read before the part
			if !runs || u.Usage != want {
				t.Errorf("%s: by now %v, %+v", name, runs, u)
			}
			w.change(func() { w.life.cpu = nil })
			c.end(w)
			settle(time.Minute)
			if a.result == nil {
				t.Fatal("it has no result")
			}
			got := a.result.Usage
			if got.PeakCores = 0; got != c.want || !got.Possible() {
				t.Errorf("%s: %+v", name, got)
			}
		})
	}
}

// TestAStepEndsWithItsWorker notices a step that goes on when its worker has ended, and one whose lease is
// not renewed while its worker runs.
func TestAStepEndsWithItsWorker(t *testing.T) {
	scene(t, func(t *testing.T, w *world) {
		w.assign(wid(1), true)
		settle(time.Second)
		part := w.withStep(wid(1), "")
		settle(2 * time.Minute)
		if lease := w.container(part).lease; time.Until(lease) <= 0 {
			t.Errorf("its lease ends at %v", lease)
		}
		w.leave(wid(1), container.Exit{})
		settle(time.Minute)
		if b := w.container(part); b.state != container.Exited || b.exit.Signal != 9 {
			t.Errorf("it is %s, %+v", b.state, b.exit)
		}
	})
}

// TestStepsMayFinishAfterTheirScript notices steps that are killed at once when the script of their
// job has ended. It also notices steps that outlive the stop time of their task, a stop, or their
// lease.
func TestStepsMayFinishAfterTheirScript(t *testing.T) {
	for name, c := range map[string]struct {
		timeout jobspec.Seconds
		stop    time.Duration // grace of a stop before the script ends; 0: there is none
		lease   bool          // its end is that of its lease
		lives   time.Duration
	}{
		"the default": {lives: 30 * time.Second}, "its kill_timeout": {timeout: 900, lives: 15 * time.Minute},
		"a stop": {timeout: 5, stop: time.Minute, lives: time.Minute}, "no lease": {lease: true},
	} {
		t.Run(name, func(t *testing.T) {
			scene(t, func(t *testing.T, w *world) {
				id := wid(1)
				worker := w.assign(id, true)
				settle(time.Second)
				part := w.withStep(id, "")
				w.change(func() {
					w.allocs[id].Spec.Groups[0].Tasks[0].KillTimeout = c.timeout
					w.containers[id].exits = func(int) *container.Exit { return nil }
					w.containers[part].exits = func(int) *container.Exit { return nil }
					w.containers[part].lease = time.Now().Add(10 * time.Minute)
				})
				settle(time.Second)
				at := time.Now()
				if c.stop > 0 {
					w.stop(id, model.CauseCancelled, c.stop)
					settle(time.Second)
				}
				w.leave(id, container.Exit{Ended: time.Now().UnixMilli(), Lease: c.lease})
				if c.lives > 0 {
					time.Sleep(time.Until(at.Add(c.lives - 2*time.Second)))
					settle(time.Second)
					if b := w.container(part); b.state != container.Running || time.Until(b.lease) <= 0 {
						t.Errorf("after %v it is %s, and its lease ends in %v", time.Since(at), b.state, time.Until(b.lease))
					}
					if r := w.result(worker); r != nil {
						t.Errorf("its worker is reported as ended: %+v", r)
					}
				}
				settle(20 * time.Second)
				if b := w.container(part); b.state != container.Exited || b.exit.Signal != 9 {
					t.Errorf("at last it is %s, %+v", b.state, b.exit)
				}
				if r := w.result(worker); r == nil || r.State != model.WorkerExited || r.ExitCode != 0 {
					t.Errorf("its worker is reported as %+v", r)
				}
			})
		})
	}
}

// TestStepsOfOtherNodesMayFinishToo notices a script whose end is reported while a step still runs
// that only the journal knows. The daemon was restarted, and the step runs on other nodes.
func TestStepsOfOtherNodesMayFinishToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.start()
		worker := w.assign(wid(1), true)
		settle(time.Second)
		w.withStep(wid(1), "")
		if err := w.life.journal.Append(journal.Record{Op: journal.StepBegun, ID: wid(1).String(),
			Step: &journal.Step{N: 3, State: []byte("0")}}); err != nil {
			t.Fatal(err)
		}
		w.kill()
		w.leave(wid(1), container.Exit{Ended: time.Now().UnixMilli()})
		w.leave(wid(1).OfStep(0), container.Exit{})
		w.start()
		defer func() { w.kill() }()
		settle(20 * time.Second)
		if r := w.result(worker); r != nil {
			t.Errorf("it is reported as ended: %+v", r)
		}
		settle(20 * time.Second)
		if w.result(worker) == nil {
			t.Error("it is not reported as ended")
		}
	})
}

// TestTheEndOfTheLastStepEndsItsJob notices a job that is not over as soon as its last step has ended.
func TestTheEndOfTheLastStepEndsItsJob(t *testing.T) {
	scene(t, func(t *testing.T, w *world) {
		worker := w.assign(wid(1), true)
		settle(time.Second)
		part := w.withStep(wid(1), "")
		w.leave(wid(1), container.Exit{Ended: time.Now().UnixMilli()})
		settle(5 * time.Second)
		w.leave(part, container.Exit{Code: 7})
		settle(time.Second)
		if r := w.result(worker); r == nil || r.State != model.WorkerExited {
			t.Errorf("its worker is reported as %+v", r)
		}
	})
}

// TestRowsSurviveTheDaemon notices an unconfirmed step row that the next daemon does not report,
// and one that is reported for ever.
func TestRowsSurviveTheDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.start()
		w.assign(container.ID{Job: 1, Attempt: 1}, true)
		settle(time.Second)
		w.change(func() { w.down = true })
		row := model.StepReport{Job: 1, Attempt: 1, Step: model.Step{Row: 1, Name: "x"}}
		if err := w.life.journal.Append(journal.Record{Op: journal.StepEnded, ID: "1.1.0",
			Step: &journal.Step{Report: &row}}); err != nil {
			t.Fatal(err)
		}
		w.kill()
		w.start()
		defer func() { w.kill() }()
		settle(time.Minute)
		if len(w.rows) != 0 {
			t.Errorf("reported without a controller: %+v", w.rows)
		}
		w.change(func() { w.down = false })
		settle(time.Minute)
		if e, _ := w.life.journal.Entry("1.1.0"); len(w.rows) != 1 || w.rows[0].Name != "x" || len(e.Steps) != 0 {
			t.Errorf("rows %+v, journal %+v", w.rows, e)
		}
	})
}

// TestUsageOfGPUsOfSteps notices a step that has what others do on its GPUs, or that is missing in what its
// job does on them.
func TestUsageOfGPUsOfSteps(t *testing.T) {
	gpuScene(t, func(t *testing.T, w *world) {
		a := w.assign(wid(1), true)
		w.change(func() {
			a.GPUs, a.Nodes = []int{0, 1}, []string{"n1"}
			a.Request.Active.GPUs = 2 * model.WholeGPU
			a.Spec = &jobspec.Job{Groups: []jobspec.Group{{Count: 1, Tasks: []jobspec.Task{{
				Launch: &jobspec.Launch{Type: jobspec.LaunchSteps}}}}}}
			w.cpu = func(container.ID) time.Duration { return time.Second }
			w.usage = func(uuid string) gpu.Use {
				if uuid == "GPU-a" { // of whose processes the driver tells the memory alone
					return gpu.Use{Utilisation: 900, Memory: 9 << 30, Processes: []gpu.Process{
						{PID: 71, Memory: 2 << 30, Utilisation: gpu.Unknown}}}
				}
				return gpu.Use{Utilisation: 950, Memory: 9 << 30, Processes: []gpu.Process{
					{PID: 71, Memory: 1 << 30, Utilisation: 300}, {PID: 72, Memory: 3 << 30, Utilisation: 600},
					{PID: 73, Memory: 1 << 30, Utilisation: 600}}} // each over a time of its own
			}
			w.owners = map[int]container.ID{71: wid(1).OfStep(0), 72: wid(1).OfStep(1), 73: wid(1).OfStep(1)}
		})
		settle(time.Second)
		agent := w.life.agent
		w.becomes(wid(1), 7, container.Switching{})
		local := agent.jobSteps.Local
		local.Build = func(
			context.Context, jobsteps.Worker, container.ID, []int, oci.Step, *jobsteps.Part,
		) (string, error) {
			return "", nil
		}
		for n, gpus := range [][]int{{0, 1}, {1}} {
			err := local.Start(t.Context(), wid(1).OfStep(n), &jobsteps.Part{Nodes: []string{"n1"}, Counts: []int{1},
				Share: choose.Share{Tasks: []int{0}, GPUs: gpus}})
			if err != nil {
				t.Fatal(err)
			}
		}
		settle(time.Minute)
		want := []model.Usage{
			{GPU: 600, PeakGPU: 600, GPUMemory: 3 << 30, PeakGPUMemory: 3 << 30},
			{GPU: 1000, PeakGPU: 1000, GPUMemory: 4 << 30, PeakGPUMemory: 4 << 30},
		}
		u, _ := agent.measure.UsageNow(wid(1))
		if u.GPU != 925 || u.PeakGPUMemory != 7<<30 || len(u.Steps) != 2 {
			t.Fatalf("%+v", u)
		}
		for _, s := range u.Steps {
			s.CPUMS, s.SystemMS, s.PeakMemory = 0, 0, 0
			if s.Usage != want[s.Step] || s.GPUs != 2-s.Step {
				t.Errorf("step %d: %+v", s.Step, s)
			}
		}
		w.leave(wid(1).OfStep(0), container.Exit{})
		if end, err := local.Remove(t.Context(), wid(1).OfStep(0)); err != nil || end.GPU != want[0] || end.Exit == nil {
			t.Errorf("%+v, %v", end, err)
		}
		if used, gpus := local.GPUUse(wid(1).OfStep(0)); gpus != 0 || used != (model.Usage{}) {
			t.Errorf("of a step that is gone %+v of %d GPUs are known", used, gpus)
		}
	})
}
