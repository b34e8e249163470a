package noded

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/api/pki/pkitest"
	"github.com/rota-hpc/rota/noded/follow"
)

// TestAnAgentSaysWhatItDoes notices a line that does not follow what happens.
func TestAnAgentSaysWhatItDoes(t *testing.T) {
	scene(t, func(t *testing.T, w *world) {
		if got := w.life.agent.workers.Status(); got != "registered, 0 workers" {
			t.Errorf("it says %q", got)
		}
		w.assign(wid(1), true)
		settle(time.Second)
		if got := w.life.agent.workers.Status(); got != "registered, 1 worker" {
			t.Errorf("with a worker it says %q", got)
		}
	})
}

// TestAnAgentIsAliveWhileItTurns notices an agent that counts as alive before it has found its
// containers, or after its end.
func TestAnAgentIsAliveWhileItTurns(t *testing.T) {
	w := newWorld(t, 1)
	w.start()
	a := w.life.agent
	alive := func(wait time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		defer cancel()
		return a.Alive(ctx)
	}
	if err := alive(20 * time.Second); err != nil {
		t.Errorf("it runs, and is not alive: %v", err)
	}
	w.kill()
	if err := alive(50 * time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it has ended, and is alive: %v", err)
	}
	a = NewAgent(Parts{})
	if err := alive(50 * time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one that was never run: %v", err)
	}
}

// TestALockForGoodIsNoLife notices a daemon that counts as alive although it follows the controllers
// no more, because a goroutine keeps that lock.
func TestALockForGoodIsNoLife(t *testing.T) {
	w := newWorld(t, 1)
	w.start()
	defer w.kill()
	hangs, asked := make(chan struct{}), make(chan struct{})
	first := true
	a := w.life.agent
	if err := a.Alive(t.Context()); err != nil { // now all loops run
		t.Fatal(err)
	}
	a.follow = follow.New(follow.Config{Boot: func() int64 {
		if !first {
			close(asked)
			<-hangs
		}
		first = false
		return 0
	}})
	go a.follow.Silence()
	<-asked
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := a.Alive(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "locked") {
		t.Errorf("its state is locked: %v", err)
	}
	close(hangs)
}

// TestDaemonsAreSupervised notices a daemon that never says that it serves, without any controller.
func TestDaemonsAreSupervised(t *testing.T) {
	isRoot(t)
	for role, want := range map[pki.Role]string{pki.Node: "no controller has answered yet, 0 workers",
		pki.Login: "no controller is known yet"} {
		cfg := installed(t, pkitest.New(t), role)
		said := make(chan string, 1)
		cfg.Supervise = func(ctx context.Context, alive func(context.Context) error, status func() string) error {
			if err := alive(ctx); err != nil {
				t.Errorf("%s is not alive: %v", role, err)
			}
			said <- status()
			<-ctx.Done()
			return nil
		}
		runDaemon(t, cfg)
		select {
		case got := <-said:
			if got != want {
				t.Errorf("%s says %q", role, got)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("%s is not supervised", role)
		}
	}
}
