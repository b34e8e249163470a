package noded

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/noded/container"
)

func (w *world) lastSwitch(id container.ID) (number int, unpaused string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.allocs[id].switched, w.allocs[id].unpaused
}

// TestAPausedJobGivesItsCoresBack notices cores of a paused job that stay taken, and a job that goes
// on with those of another one.
func TestAPausedJobGivesItsCoresBack(t *testing.T) {
	scene(t, func(t *testing.T, w *world) {
		for job := int64(1); job <= 8; job++ {
			w.assign(wid(job), true)
		}
		settle(time.Second)
		w.turn(wid(1))
		w.assign(wid(9), true)
		settle(time.Second)
		if n, _ := w.lastSwitch(wid(1)); n != 1 || w.state(wid(9)) != model.WorkerRunning {
			t.Fatalf("switch %d, the ninth job is %s", n, w.state(wid(9)))
		}
		w.kill()
		w.start()
		settle(time.Second)
		w.turn(wid(1))
		settle(time.Minute)
		if n, _ := w.lastSwitch(wid(1)); n != 1 {
			t.Errorf("it went on without cores: switch %d", n)
		}
		w.leave(wid(5), container.Exit{})
		settle(time.Minute)
		if n, _ := w.lastSwitch(wid(1)); n != 2 || len(w.container(wid(1)).cores) != 1 {
			t.Errorf("switch %d, cores %v", n, w.container(wid(1)).cores)
		}
	})
}

// TestAJobThatDoesNotPauseIsReported notices one that the controllers wait for.
func TestAJobThatDoesNotPauseIsReported(t *testing.T) {
	scene(t, func(t *testing.T, w *world) {
		w.assign(wid(1), true)
		settle(time.Second)
		w.change(func() { w.containers[wid(1)].awake = true })
		w.turn(wid(1))
		settle(time.Second)
		if n, why := w.lastSwitch(wid(1)); n != 0 || why != "it does not come by" {
			t.Errorf("switch %d, %q", n, why)
		}
		w.turn(wid(1))
		settle(time.Second)
		if n, why := w.lastSwitch(wid(1)); n != 2 || why != "" {
			t.Errorf("then switch %d, %q", n, why)
		}
	})
}

// TestASuspensionSurvivesTheDaemon kills the daemon at every call with which it suspends and
// resumes a job. The job is suspended and resumed all the same, once, on cores of its own.
func TestASuspensionSurvivesTheDaemon(t *testing.T) {
	for calls := 1; calls <= 12; calls++ {
		for seed := range uint64(4) {
			for first := 1; first <= 2; first++ {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, seed)
					w.start()
					defer func() { w.kill() }()
					w.assign(wid(1), true)
					settle(time.Minute)
					for number := 1; number <= 2; number++ {
						if number == first {
							w.mu.Lock()
							w.crashIn = calls
							w.mu.Unlock()
						}
						w.turn(wid(1))
						settle(time.Minute)
						select {
						case <-w.crashed:
							w.kill()
							w.start()
							settle(time.Minute)
						default:
						}
						n, _ := w.lastSwitch(wid(1))
						if b := w.container(wid(1)); n != number || len(b.cores) != 1-number%2 || b.starts != 1 {
							t.Fatalf("killed at call %d of order %d, seed %d: after order %d switch %d, cores %v, %d starts",
								calls, first, seed, number, n, b.cores, b.starts)
						}
					}
				})
			}
		}
	}
}
