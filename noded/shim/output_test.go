package shim

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/shim/output"
)

// TestOutputIsNotLostWhileTheContainerEnds notices an end that does not wait for the last output.
func TestOutputIsNotLostWhileTheContainerEnds(t *testing.T) {
	w := live(t, nil, script(`seq 1 20000; echo '{}' >&3`))
	if e := w.start().end(); e.LogLost != 0 {
		t.Errorf("%d bytes are lost", e.LogLost)
	}
	if out := w.output(""); !strings.HasSuffix(out, "\n19999\n20000\n") || strings.Count(out, "\n") != 20000 {
		t.Errorf("it holds %d bytes", len(out))
	}
}

// TestAWorkerKeepsItsOutputRate runs a worker that writes more than the rate allows. It notices
// settings that the shim does not apply, and a worker that cannot be killed while it waits.
func TestAWorkerKeepsItsOutputRate(t *testing.T) {
	const whole = 512 << 10
	w := live(t, func(s *container.Settings) { s.OutputRate = 1000 },
		hooked("a", "", false, "head -c 524288 /dev/zero; echo >&3 '{\"code\":0}'"),
		hooked("b", "", false, "exec sleep 100"))
	w.start()
	size := func() int { return len(w.output("a")) }
	deadline := time.Now().Add(20 * time.Second)
	for size() == 0 {
		if time.Now().After(deadline) {
			t.Fatal("nothing is taken")
		}
		time.Sleep(2 * time.Millisecond)
	}
	if n := size(); n > 64<<10 {
		t.Errorf("%d bytes are taken at once", n)
	}
	w.order(container.Order{Op: container.OpKill})
	if e := w.end(); e.Signal != int(unix.SIGKILL) {
		t.Errorf("got %+v", e)
	}
	if n := size(); n == 0 || n >= whole {
		t.Errorf("%d bytes are kept", n)
	}
}

// unread returns the logs of a task without a process.
func unread(t *testing.T) *output.Logs {
	t.Helper()
	s, err := output.NewScanner(t.TempDir(), container.Settings{})
	check(t, err)
	l, err := output.Open(t.TempDir(), container.LogFiles{Join: true}, self(), s.Task(""), nil)
	check(t, err)
	return l
}
