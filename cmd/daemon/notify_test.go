package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// manager is a service manager that only listens.
type manager struct {
	t    *testing.T
	conn *net.UnixConn
}

// newManager makes this process a service whose watchdog bites after some time, 0 for none.
func newManager(t *testing.T, watchdog time.Duration) *manager {
	t.Helper()
	dir, err := os.MkdirTemp("", "rota-notify") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", strconv.FormatInt(watchdog.Microseconds(), 10))
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	if watchdog == 0 {
		t.Setenv("WATCHDOG_USEC", "")
	}
	return &manager{t, conn}
}

// next returns the next message.
func (m *manager) next() string {
	m.t.Helper()
	if err := m.conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		m.t.Fatal(err)
	}
	b := make([]byte, 4096)
	n, err := m.conn.Read(b)
	if err != nil {
		m.t.Fatalf("no message: %v", err)
	}
	return string(b[:n])
}

// await returns how many messages are equal to count before the one that begins with prefix.
func (m *manager) await(prefix, count string) int {
	m.t.Helper()
	seen := 0
	for {
		message := m.next()
		if strings.HasPrefix(message, prefix) {
			return seen
		}
		if message == count {
			seen++
		}
	}
}

var quiet = slog.New(slog.DiscardHandler)

// life is a daemon with a switch for being alive, and a status that changes each time.
type life struct {
	alive atomic.Bool
	asked atomic.Int64 // whether it is alive
	turns atomic.Int64
}

func (l *life) Alive(context.Context) error {
	l.asked.Add(1)
	if !l.alive.Load() {
		return errors.New("not yet, or not any more")
	}
	return nil
}

func (l *life) Status() string { return strconv.FormatInt(l.turns.Add(1), 10) }

// TestTheManagerKnowsWhatTheDaemonDoes notices a daemon that is ready before it serves, one that
// hangs and is not noticed, and one that stops without a word.
func TestTheManagerKnowsWhatTheDaemonDoes(t *testing.T) {
	m := newManager(t, 60*time.Millisecond)
	n := NewNotifier(quiet)
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		if v, ok := os.LookupEnv(name); ok {
			t.Errorf("programs that the daemon starts inherit %s=%s", name, v)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var l life
	done := make(chan error, 1)
	go func() { done <- n.Supervise(ctx, l.Alive, l.Status) }()
	for deadline := time.Now().Add(20 * time.Second); l.asked.Load() < 3; {
		if time.Now().After(deadline) {
			t.Fatal("it is not asked again whether it serves")
		}
		time.Sleep(time.Millisecond)
	}
	n.Reload(func() {}) // its messages are the first ones: nothing was sent before
	if first, second := m.next(), m.next(); first != "RELOADING=1" || second != "READY=1" {
		t.Errorf("before it serves it says %q, %q", first, second)
	}
	l.alive.Store(true)
	if got := m.next(); got != "READY=1\nSTATUS=1" {
		t.Errorf("then it says %q", got)
	}
	if m.await("STATUS=4", "WATCHDOG=1") == 0 {
		t.Error("it is alive, and the watchdog does not hear of it")
	}
	l.alive.Store(false)
	m.await("STATUS=", "") // a sign of life may have been on its way
	if m.await("STATUS=", "WATCHDOG=1")+m.await("STATUS=", "WATCHDOG=1") > 0 {
		t.Error("it hangs, and the watchdog is fed")
	}
	cancel()
	m.await("STOPPING=1", "")
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestAHungCheckFeedsNoWatchdog notices a check that never returns and counts as a good one.
func TestAHungCheckFeedsNoWatchdog(t *testing.T) {
	m := newManager(t, 60*time.Millisecond)
	n := NewNotifier(quiet)
	ctx, cancel := context.WithCancel(t.Context())
	var l life
	l.alive.Store(true)
	hangs := atomic.Bool{}
	alive := func(ctx context.Context) error {
		if hangs.Load() {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}
	done := make(chan error, 1)
	go func() { done <- n.Supervise(ctx, alive, l.Status) }()
	m.await("READY=1", "")
	m.await("WATCHDOG=1", "")
	hangs.Store(true)
	m.await("STATUS=", "")
	m.await("STATUS=", "")
	if m.await("STATUS=", "WATCHDOG=1") > 0 {
		t.Error("the watchdog is fed")
	}
	cancel()
	m.await("STOPPING=1", "")
	<-done
}

// TestWithoutAWatchdogNoSigns notices signs of life that were not asked for.
func TestWithoutAWatchdogNoSigns(t *testing.T) {
	m := newManager(t, 0)
	n := NewNotifier(quiet)
	if n.watchdog != 0 {
		t.Errorf("a watchdog of %v", n.watchdog)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var l life
	l.alive.Store(true)
	done := make(chan error, 1)
	go func() { done <- n.Supervise(ctx, l.Alive, l.Status) }()
	if got := m.next(); got != "READY=1\nSTATUS=1" {
		t.Errorf("it says %q", got)
	}
	cancel()
	m.await("STOPPING=1", "")
	<-done
}

// TestNoManagerNoWords notices a daemon that needs a service manager.
func TestNoManagerNoWords(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	n := NewNotifier(quiet)
	never := func(context.Context) error { t.Error("it was asked"); return nil }
	if err := n.Supervise(t.Context(), never, func() string { return "" }); err != nil {
		t.Error(err)
	}
	ran := false
	n.Reload(func() { ran = true })
	if !ran {
		t.Error("it does not reload")
	}
}

// TestAManagerThatIsLate notices a daemon that stays unready for a service manager that could not
// hear it.
func TestAManagerThatIsLate(t *testing.T) {
	m := newManager(t, 0)
	path := os.Getenv("NOTIFY_SOCKET")
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	n := NewNotifier(quiet)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var l life
	l.alive.Store(true)
	done := make(chan error, 1)
	go func() { done <- n.Supervise(ctx, l.Alive, l.Status) }()
	for deadline := time.Now().Add(20 * time.Second); l.asked.Load() < 3; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it is not tried again")
		}
	}
	if err := os.Rename(path+".away", path); err != nil {
		t.Fatal(err)
	}
	m.await("READY=1\nSTATUS=", "")
	cancel()
	<-done
}

// TestAManagerThatIsGone notices a daemon that ends because it cannot speak.
func TestAManagerThatIsGone(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "none"))
	t.Setenv("WATCHDOG_USEC", "soon")
	var said strings.Builder
	n := NewNotifier(slog.New(slog.NewTextHandler(io.Writer(&said), nil)))
	n.Reload(func() {})
	if got := said.String(); !strings.Contains(got, "WATCHDOG_USEC") || strings.Count(got, "NOTIFY_SOCKET") != 1 {
		t.Errorf("it logs %s", got)
	}
}
