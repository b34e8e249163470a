package controld

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// supervisor is what a controller showed of itself.
type supervisor struct {
	alive  func(context.Context) error
	status func() string
	err    error // of a request to its API when it began
}

// supervised returns settings whose controller is supervised from when it serves.
func supervised(cfg *Config) <-chan supervisor {
	began := make(chan supervisor, 1)
	cfg.Supervise = func(ctx context.Context, alive func(context.Context) error, status func() string) error {
		err := alive(ctx)
		began <- supervisor{alive, status, err}
		<-ctx.Done()
		return nil
	}
	return began
}

// TestAControllerIsAliveWithoutAQuorum notices a controller that is not ready, or hangs as far as
// the watchdog knows, because it has no leader.
func TestAControllerIsAliveWithoutAQuorum(t *testing.T) {
	began := map[string]<-chan supervisor{}
	servers := startThree(t, func(c *Config) { began[c.Name] = supervised(c) })
	shown := map[string]supervisor{}
	for name, c := range began {
		shown[name] = <-c
		if err := shown[name].err; err != nil {
			t.Errorf("%s does not serve: %v", name, err)
		}
	}
	leader, followers := leaderOf(t, servers)
	says := func(s *running, want string) {
		t.Helper()
		eventually(t, s.cfg.Name+" says "+want, func() error {
			if got := shown[s.cfg.Name].status(); got != want {
				return fmt.Errorf("it says %q", got)
			}
			return nil
		})
	}
	says(leader, "leads 0 nodes")
	says(followers[0], "follows "+leader.cfg.Name)
	leader.stop()
	followers[1].stop()
	says(followers[0], "there is no leader")
	if err := shown[followers[0].cfg.Name].alive(t.Context()); err != nil {
		t.Errorf("without a quorum it is not alive: %v", err)
	}
	followers[0].stop()
	again := followers[0].cfg
	cold := supervised(&again)
	start(t, again)
	if s := <-cold; s.err != nil {
		t.Errorf("after a cold start without a quorum it is not alive: %v", s.err)
	}
}

// TestAnAPIThatHangsIsNotAlive notices an API that counts as alive whatever it answers.
func TestAnAPIThatHangsIsNotAlive(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	release := make(chan struct{})
	defer close(release)
	hangs := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release })
	if err := answers(ctx, hangs); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one that hangs: %v", err)
	}
	fails := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
	if err := answers(t.Context(), fails); err == nil || !strings.Contains(err.Error(), "500") {
		t.Errorf("one that fails: %v", err)
	}
	if err := answers(t.Context(), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "ok")
	})); err != nil {
		t.Errorf("one that answers: %v", err)
	}
}
