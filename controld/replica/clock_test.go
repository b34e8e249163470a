package replica

import (
	"errors"
	"testing"
	"time"
	"unsafe"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rota-hpc/rota/consensus"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
)

// viewAt returns a state whose last entry has the instant at and was stamped by a wall clock.
func viewAt(t *testing.T, at model.Instant, wall model.UnixMS) *state.View {
	t.Helper()
	m := newMachine()
	e := fsm.Entry{Stamp: model.Stamp{At: at, Wall: wall}, Command: fsm.TrimHistory{}}
	data, err := fsm.Encode(e)
	if err != nil {
		t.Fatal(err)
	}
	m.Apply(1, [][]byte{data})
	if got := m.view.Load().At(); got != at {
		t.Fatalf("the log is at %d, want %d", got, at)
	}
	return m.view.Load()
}

// setBack returns t as if the wall clock had been set by d since, and the monotonic clock not.
func setBack(t time.Time, d time.Duration) time.Time {
	const wallSecond = 1 << 30 // of the first word of a time with a monotonic reading
	*(*int64)(unsafe.Pointer(&t)) += int64(d/time.Second) * wallSecond
	return t
}

// TestEntriesAreStampedByTheLogsClock notices that the time of the log in an entry comes from the
// wall clock: a new log begins at 0, and goes on from its last entry after a restart.
func TestEntriesAreStampedByTheLogsClock(t *testing.T) {
	cfg := consensus.DefaultConfig()
	cfg.Name, cfg.Dir, cfg.Addr = "c1", t.TempDir(), "127.0.0.1:0"
	last := model.Instant(0)
	for range 2 {
		r, err := Open(cfg, prometheus.NewRegistry())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Abort() })
		if err := r.Bootstrap([]consensus.Member{r.Self()}); err != nil && !errors.Is(err, consensus.ErrBootstrapped) {
			t.Fatal(err)
		}
		if _, err := r.WaitLeader(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := r.Verify(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.StartClock()
		time.Sleep(5 * time.Millisecond)
		if _, err := r.Propose(t.Context(), fsm.TrimHistory{}); err != nil {
			t.Fatal(err)
		}
		at := r.View().At()
		if at < last+5 || at > last+60_000 {
			t.Errorf("an entry is of %d, soon after one of %d", at, last)
		}
		if wall := r.View().Wall(); wall < WallNow()-60_000 {
			t.Errorf("by the wall clock it is of %d", wall)
		}
		last = at
		if err := r.Shutdown(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTheLogsClockIsNoWallClock sets the wall clock by an hour each way while a controller leads. It
// notices a log clock that is taken from the wall clock, at the start or for what has passed since:
// leases and time limits would end early or late with each correction of the clock.
func TestTheLogsClockIsNoWallClock(t *testing.T) {
	const base = 5_000
	v := viewAt(t, base, WallNow())
	var c logClock
	if got := c.now(v); got != base {
		t.Errorf("a follower's clock is at %d, want that of the log, %d", got, base)
	}
	within := func(what string, min, max model.Instant) {
		t.Helper()
		if got := c.now(v); got < min || got > max {
			t.Errorf("%s: the log's clock is at %d, want %d to %d", what, got, min, max)
		}
	}
	const slow = 60_000 // ms that this test may take
	c.start(base)
	within("at the start", base, base+slow)
	for _, by := range []time.Duration{-time.Hour, time.Hour} {
		c.start(base)
		s := c.started.Load()
		moved := setBack(s.since, by)
		if got := moved.Round(0).Sub(s.since.Round(0)); got != by {
			t.Fatalf("the test moves the wall clock by %v, want %v", got, by)
		}
		s.since = moved
		within("after the wall clock was set", base, base+slow)
	}
	c.start(base)
	c.started.Load().since = time.Now().Add(-10 * time.Minute)
	within("after ten minutes", base+600_000, base+600_000+slow)
	ahead := viewAt(t, base+10_000_000, WallNow())
	if got := c.now(ahead); got != base+10_000_000 {
		t.Errorf("the log's clock is at %d, before its last entry", got)
	}
	c.stop()
	within("when another leads", base, base)
}
