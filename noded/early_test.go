package noded

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/measure"
	"github.com/rota-hpc/rota/noded/run"
)

// tell tells a worker that its time limit is over in a while. The container goes on at signals.
func (w *world) tell(id container.ID, in time.Duration, to string) {
	w.change(func() {
		a := w.allocs[id]
		a.Early = &api.Early{Limit: clockNow() + model.Instant(in.Milliseconds()), Signal: "SIGUSR1"}
		a.Spec = &jobspec.Job{Preemption: &jobspec.Preemption{SignalTo: to}}
		w.containers[id].exits = func(int) *container.Exit { return nil }
	})
}

// TestTheEarlySignalSurvivesTheDaemon kills the daemon at every call with which it tells a job that
// its time limit is near. The job is told once all the same and is not stopped, and the notice says
// until when it may run.
func TestTheEarlySignalSurvivesTheDaemon(t *testing.T) {
	crashes := 0
	for calls := 1; calls <= 8; calls++ {
		for seed := range uint64(8) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, seed)
				w.start()
				defer func() { w.kill() }()
				w.assign(wid(1), true)
				settle(time.Minute)
				limit := time.Now().Add(10 * time.Minute)
				w.mu.Lock()
				w.crashIn = calls
				w.mu.Unlock()
				w.tell(wid(1), 10*time.Minute, jobspec.SignalScript)
				settle(time.Minute)
				select {
				case <-w.crashed:
					crashes++
					w.kill()
					w.start()
					settle(time.Minute)
				default:
				}
				w.kill()
				w.start()
				settle(time.Minute)
				want := []container.Signal{{Number: int(unix.SIGUSR1), To: "script", Early: true}}
				if b := w.container(wid(1)); b.state != container.Running || !slices.Equal(b.early, want) || len(b.stops) > 0 {
					t.Fatalf("killed at call %d, seed %d: it is %s, told by %v, stopped by %v", calls, seed, b.state, b.early,
						b.stops)
				}
				n := w.notice(wid(1))
				at, err := time.Parse(time.RFC3339Nano, n.Deadline)
				if err != nil || n.Reason != "timeout" || n.Signal != "SIGUSR1" || at.Sub(limit).Abs() > time.Second {
					t.Fatalf("killed at call %d, seed %d: notice %+v, the limit is at %v", calls, seed, n, limit)
				}
			})
		}
	}
	if crashes < 30 {
		t.Errorf("only %d daemons were killed", crashes)
	}
}

// TestAfterTheEarlySignal: at the limit the notice and the stop signal follow, for all processes. A
// preemption signals only the shell of a script if the job says so.
func TestAfterTheEarlySignal(t *testing.T) {
	for _, c := range []struct {
		to    string
		cause model.Cause
		want  string
	}{
		{jobspec.SignalScript, model.CauseTimeout, ""}, {jobspec.SignalScript, model.CauseTE, "script"},
		{jobspec.SignalScript, model.CauseDrain, "script"}, {jobspec.SignalScript, model.CauseCancelled, ""},
		{jobspec.SignalPrograms, model.CauseReclaim, ""}, {"", model.CauseTE, ""},
	} {
		scene(t, func(t *testing.T, w *world) {
			w.assign(wid(1), true)
			settle(time.Second)
			w.tell(wid(1), time.Minute, c.to)
			settle(time.Minute)
			w.stop(wid(1), c.cause, 30*time.Second)
			settle(time.Second)
			want := []container.Signal{{Number: int(unix.SIGTERM), To: c.want}}
			if b := w.container(wid(1)); len(b.early) != 1 || !slices.Equal(b.stops, want) {
				t.Errorf("%s with %q: told by %v, stopped by %v", c.cause, c.to, b.early, b.stops)
			}
			if got := w.notice(wid(1)).Reason; got != run.NoticeReason(c.cause) {
				t.Errorf("%s: the notice says %q", c.cause, got)
			}
		})
	}
}

// TestAPausedJobIsToldWhenItGoesOn notices a signal to what stands still.
func TestAPausedJobIsToldWhenItGoesOn(t *testing.T) {
	scene(t, func(t *testing.T, w *world) {
		w.assign(wid(1), true)
		settle(time.Second)
		w.turn(wid(1))
		settle(time.Second)
		w.tell(wid(1), time.Hour, "")
		settle(time.Minute)
		if b := w.container(wid(1)); len(b.early) > 0 {
			t.Errorf("it was told by %v while it had paused", b.early)
		}
		w.turn(wid(1))
		settle(time.Second)
		if b := w.container(wid(1)); len(b.early) != 1 {
			t.Errorf("then it was told by %v", b.early)
		}
	})
}

// TestTheNoticeOfTheLimitComesBack: a notice of an excess of GPU memory takes its place as long as the
// excess lasts, whichever comes first.
func TestTheNoticeOfTheLimitComesBack(t *testing.T) {
	for _, excessFirst := range []bool{false, true} {
		sharing(t, 1, func(w *world, a, _ *assigned) {
			tell := func() {
				w.change(func() {
					w.containers[wid(1)].exits = func(int) *container.Exit { return nil }
					a.Early = &api.Early{Limit: clockNow() + 3_600_000, Signal: "SIGUSR1"}
				})
				settle(time.Second)
			}
			exceed := func() { w.uses(1, 11*gib); settle(measure.SlowSamples) }
			if excessFirst {
				exceed()
				tell()
			} else {
				tell()
				exceed()
			}
			if got := w.notice(wid(1)).Reason; got != run.NoticeGPUMemory || len(w.container(wid(1)).early) != 1 {
				w.t.Fatalf("with an excess, first %t, the notice says %q", excessFirst, got)
			}
			w.uses(1, gib)
			settle(measure.SlowSamples)
			if got := w.notice(wid(1)).Reason; got != run.NoticeTimeout {
				w.t.Errorf("after the excess, first %t, it says %q", excessFirst, got)
			}
		})
	}
}
