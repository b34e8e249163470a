package shim

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-hpc/rota/controld/api/stream"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/oci/launch"
)

// TestWhatKeepsAProcessFromBeingStarted goes through the guards of a process beside the ranks.
func TestWhatKeepsAProcessFromBeingStarted(t *testing.T) {
	const passes = "start a process in it: read container spec"
	for name, c := range map[string]struct {
		edit func(*supervisor)
		task string
		says string
	}{
		"nothing":                {func(*supervisor) {}, "", passes},
		"another task":           {func(*supervisor) {}, "other", `no task "other"`},
		"it has not begun":       {func(s *supervisor) { s.state = container.Created }, "", "has not started"},
		"its task has not begun": {func(s *supervisor) { s.tasks[0].state = container.Created }, "", "has not started"},
		"its task has ended": {func(s *supervisor) { s.tasks[0].state = container.Exited }, "",
			errWorkerEnded.Error()},
		"it has paused":              {func(s *supervisor) { s.switching.Ordered, s.switching.Done = 1, 1 }, "", "suspended"},
		"it is to go on":             {func(s *supervisor) { s.switching.Ordered, s.switching.Done = 2, 1 }, "", "suspended"},
		"it goes on":                 {func(s *supervisor) { s.switching.Ordered, s.switching.Done = 2, 2 }, "", passes},
		"it is being saved":          {func(s *supervisor) { s.saving.busy = true }, "", "being saved"},
		"there are as many as fit":   {func(s *supervisor) { s.io.beside = make([]*session, maxExecs) }, "", "64 processes"},
		"there is room for one more": {func(s *supervisor) { s.io.beside = make([]*session, maxExecs-1) }, "", passes},
	} {
		sup, _ := orderly(t, 0)
		one := sup.tasks[0]
		one.state, one.container.dir = container.Running, t.TempDir()
		c.edit(sup)
		before := len(sup.io.beside)
		if _, err := sup.execute(container.Exec{Task: c.task}); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
		if len(sup.io.beside) != before {
			t.Errorf("%s: it counts though it was not started", name)
		}
	}
	sup := &supervisor{}
	for _, one := range []container.Task{{Name: "side", Hook: "poststart"}, {Name: "a"}, {Name: "b", Leader: true}} {
		sup.tasks = append(sup.tasks, &task{taskState: taskState{Task: one}})
	}
	for name, want := range map[string]string{"": "b", "a": "a", "side": "side"} {
		if got, err := sup.taskFor(name); err != nil || got.Name != want {
			t.Errorf("%q is %v, %v", name, got, err)
		}
	}
}

// TestHowLongOutputIsWaitedFor: the end of a worker waits a while for a reader, longer where one is on its way, and
// not for output that may be dropped.
func TestHowLongOutputIsWaitedFor(t *testing.T) {
	for ms, want := range map[int64]time.Duration{0: 2 * time.Second, 1000: 2 * time.Second, 5000: 5 * time.Second,
		14_999: 14_999 * time.Millisecond, 15_000: 15 * time.Second, 60_000: 15 * time.Second} {
		o := newIOServer(container.Settings{IO: &container.IO{HangUpMS: ms}})
		if o.patience != want || o.own.awaited != (ms > 0) || (o.timer != nil) != (ms > 0) {
			t.Errorf("hung up after %d ms: %v, awaited %t", ms, o.patience, o.own.awaited)
		}
		if o.timer != nil {
			o.timer.Stop()
		}
	}
	if o := newIOServer(container.Settings{}); o.own != nil || o.patience != 2*time.Second {
		t.Errorf("output that goes to files: %+v", o)
	}
	for _, c := range []struct {
		read, reader, drop, awaited, closed bool
		gone                                time.Duration
		over                                bool
	}{
		{read: true, over: true}, {}, {reader: true}, {drop: true, over: true}, {drop: true, awaited: true},
		{drop: true, reader: true}, {closed: true, over: true}, {closed: true, reader: true},
		{gone: lingerTime - 1}, {gone: lingerTime, over: true}, {gone: lingerTime, reader: true},
		{gone: lingerTime, drop: true, awaited: true, over: true}, {read: true, reader: true, over: true},
	} {
		s := newSession(c.drop, nil)
		s.awaited, s.closed = c.awaited, c.closed
		if c.reader {
			s.reader = &stream.Conn{}
		}
		if c.read {
			close(s.read)
		}
		if got := s.over(c.gone); got != c.over {
			t.Errorf("%+v: it is waited for: %t", c, !got)
		}
	}
}

// TestAReaderThatDoesNotCome notices a worker that is hung up though its reader has come, too early, or never.
func TestAReaderThatDoesNotCome(t *testing.T) {
	for _, reader := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			o := newIOServer(container.Settings{IO: &container.IO{HangUpMS: 5000}})
			hungUp := func() bool {
				synctest.Wait()
				select {
				case <-o.hangUp:
					return true
				default:
					return false
				}
			}
			time.Sleep(4 * time.Second)
			o.own.left() // one came, and went: the time begins anew
			if time.Sleep(4 * time.Second); hungUp() {
				t.Error("it is hung up too early")
			}
			if reader {
				o.own.mu.Lock()
				o.own.reader = &stream.Conn{}
				o.own.mu.Unlock()
			}
			if time.Sleep(time.Second); hungUp() == reader {
				t.Errorf("reader %t: it is hung up %t", reader, !reader)
			}
		})
	}
	for _, c := range []struct {
		state   container.State
		timeout int64
		before  bool // a kill was on its way
	}{{container.Running, 0, false}, {container.Running, 300, false}, {container.Created, 300, false},
		{container.Running, 300, true}} {
		sup := idle(t)
		sup.io.own = newSession(false, nil)
		sup.settings.IO = &container.IO{HangUpMS: 5400}
		sup.state, sup.tasks[0].KillTimeout = c.state, c.timeout
		before := make(chan time.Time)
		if c.before {
			sup.killAt = before
		}
		if sup.hungUpFor() != "" {
			t.Error("it was not hung up")
		}
		sup.hungUp()
		if got, want := sup.hungUpFor(), "nothing was attached to it for 5s"; !strings.HasSuffix(got, want) {
			t.Errorf("it says %q, not %q", got, want)
		}
		if runs := c.state == container.Running; (sup.killAt != nil) != runs || sup.tasks[0].container.hasEnded() == runs ||
			!sup.io.own.closed || c.before && sup.killAt != before {
			t.Errorf("%+v: a kill follows %t", c, sup.killAt != nil)
		}
	}
}

// TestHowProcessesEnd: by a code, by a signal, and one that is not known.
func TestHowProcessesEnd(t *testing.T) {
	for command, want := range map[string]stream.StepTaskExit{"exit 0": {}, "exit 3": {Code: 3},
		"kill -9 $$": {Signal: 9}} {
		if got := exitOf(waitFor(t, command)); got != want {
			t.Errorf("%s: %+v", command, got)
		}
	}
	if got := exitOf(nil); got != (stream.StepTaskExit{Signal: 9}) {
		t.Errorf("one that is not known: %+v", got)
	}
}

// newListening returns a container whose rota-init speaks on a connection.
func newListening(c net.Conn) *runcContainer {
	return &runcContainer{channel: c, results: make(chan launch.Result, 1), detached: make(chan struct{})}
}

// TestWhatRotaInitSays reads the lines of rota-init, each of which is one kind.
func TestWhatRotaInitSays(t *testing.T) {
	for lines, want := range map[string]struct {
		executed, unasked, result, detached bool
		ended                               int // ranks
	}{
		"":                                    {},
		"{\"begun\":true}\n":                  {executed: true},
		"{\"code\":3}\n":                      {unasked: true, result: true},
		"{\"code\":3,\"asked\":true}\n":       {result: true},
		"{\"detached\":true}\n{\"code\":3}\n": {detached: true},
		"{\"begun\":true}\n{\"rank\":0}\n{\"rank\":1,\"code\":2}\n{\"code\":0}\n": {executed: true, unasked: true,
			result: true,
			ended:  2},
		"garbage\n{\"code\":3}\n": {},
	} {
		for _, own := range []bool{true, false} {
			ours, theirs := pair(t)
			c := newListening(theirs)
			if own {
				c.io = newSession(false, nil)
				c.io.begin()
			}
			_, err := fmt.Fprint(ours, lines)
			check(t, err)
			check(t, ours.Close())
			c.listen()
			_, result := <-c.results
			detached := false
			select {
			case <-c.detached:
				detached = true
			default:
			}
			if !own && want.ended > 0 { // a rank's end is the worker's where none has a session
				continue
			}
			if c.executed != want.executed || c.endedUnasked != want.unasked || result != want.result ||
				detached != want.detached {
				t.Errorf("%q: executed %t, unasked %t, a result %t, detached %t", lines, c.executed, c.endedUnasked, result,
					detached)
			}
			if own {
				c.io.output.Wait()
				if len(c.io.kept) != want.ended {
					t.Errorf("%q: %d ranks have ended", lines, len(c.io.kept))
				}
			}
		}
	}
}
