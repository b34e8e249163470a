package replica

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rota-hpc/rota/consensus"
	"github.com/rota-hpc/rota/controld/api/clock"
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

// TestEntriesAreStampedByTheLogsClock notices an entry whose log time comes from the wall clock. A
// new log begins at 0, and continues from its last entry after a restart.
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

// testClock returns the log's clock of a controller in dir, on a machine whose boot clock the test
// moves.
func testClock(t *testing.T, dir string, boot *time.Duration) *logClock {
	t.Helper()
	c, err := openLogClock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.boot(); (got - clock.Boot()).Abs() > time.Minute {
		t.Errorf("the log's clock counts by another clock than CLOCK_BOOTTIME: it is at %v, not at %v", got, clock.Boot())
	}
	c.boot = func() time.Duration { return *boot }
	c.latest = *boot
	return c
}

// TestTheLogsClockIsNoWallClock notices a log clock that is taken from the wall clock, at the start
// or for elapsed time. Leases and time limits would then end early or late with each clock
// correction.
func TestTheLogsClockIsNoWallClock(t *testing.T) {
	const base = 5_000
	v := viewAt(t, base, WallNow())
	boot := 30 * time.Second
	c := testClock(t, t.TempDir(), &boot)
	is := func(what string, v *state.View, want model.Instant) {
		t.Helper()
		if got := c.now(v); got != want {
			t.Errorf("%s: the log's clock is at %d, want %d", what, got, want)
		}
	}
	is("a follower's clock is that of the log", v, base)
	c.start(base)
	is("at the start", v, base)
	boot += 10 * time.Minute
	is("after ten minutes", v, base+600_000)
	is("at an entry that is ahead", viewAt(t, base+10_000_000, WallNow()), base+10_000_000)
	c.stop()
	is("when another leads", v, base)
}

// TestTheLogsTimeGoesOnWithoutALeader notices a log clock that resumes at the last entry. Time
// without a leader would then not count, and jobs would run longer than is accounted.
func TestTheLogsTimeGoesOnWithoutALeader(t *testing.T) {
	dir, boot := t.TempDir(), 100*time.Second
	v := viewAt(t, 5_000, WallNow())
	c := testClock(t, dir, &boot)
	c.entry(5_000)
	boot += 20 * time.Second
	c.start(5_000)
	if got := c.now(v); got != 25_000 {
		t.Errorf("20 s after the entry of 5,000 a new leader's clock is at %d", got)
	}
	boot += time.Second
	c.entry(26_000)
	c.stop()
	boot += 5 * time.Second

	c = testClock(t, dir, &boot) // the daemon was restarted and reads its log again
	c.entry(5_000)
	c.entry(26_000)
	c.start(26_000)
	if got := c.now(v); got != 31_000 {
		t.Errorf("after a restart the clock is at %d, want 31000", got)
	}
}

// TestAnEntryThatComesLateSetsNoClockBack notices a slow answer that sets the note back. It also
// notices a note of a machine with a fast clock that stays valid for ever.
func TestAnEntryThatComesLateSetsNoClockBack(t *testing.T) {
	boot := 100 * time.Second
	v := viewAt(t, 1, WallNow())
	c := testClock(t, t.TempDir(), &boot)
	c.entry(50_000)
	boot += 30 * time.Second
	c.entry(75_000) // 5 s late
	c.start(75_000)
	if got := c.now(v); got != 80_000 {
		t.Errorf("after a late entry the clock is at %d, want 80000", got)
	}
	c.stop()
	boot += time.Hour
	c.entry(3_679_900) // 100 ms less than this machine's clock says
	c.start(3_679_900)
	if got := c.now(v); got != 3_679_900 {
		t.Errorf("an hour later the clock is at %d, want that of the log, 3679900", got)
	}
}

// TestANoteOfAnotherBootIsNotBelieved notices a note that is kept over a start of the machine, whose
// clock began anew, and one that was cut off.
func TestANoteOfAnotherBootIsNotBelieved(t *testing.T) {
	for _, note := range []string{`{"boot_id":"another","ahead_ms":1000000000}`, `{"boot_id":"`, ""} {
		dir, boot := t.TempDir(), time.Second
		if err := os.WriteFile(filepath.Join(dir, "clock"), []byte(note), 0o600); err != nil {
			t.Fatal(err)
		}
		c := testClock(t, dir, &boot)
		c.start(7_000)
		if got := c.now(viewAt(t, 7_000, WallNow())); got != 7_000 {
			t.Errorf("note %q: the clock is at %d, want that of the last entry, 7000", note, got)
		}
	}
}
