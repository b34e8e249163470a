package shim

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api/stream"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/oci/launch"
	"github.com/rota-hpc/rota/noded/shim/lifecycle"
	"github.com/rota-hpc/rota/noded/shim/session"
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
		"its task has not begun": {func(s *supervisor) { s.tasks[0].State = container.Created }, "", "has not started"},
		"its task has ended": {func(s *supervisor) { s.tasks[0].State = container.Exited }, "",
			session.ErrEnded.Error()},
		"it has paused":              {func(s *supervisor) { s.switching.Ordered, s.switching.Done = 1, 1 }, "", "suspended"},
		"it is to go on":             {func(s *supervisor) { s.switching.Ordered, s.switching.Done = 2, 1 }, "", "suspended"},
		"it goes on":                 {func(s *supervisor) { s.switching.Ordered, s.switching.Done = 2, 2 }, "", passes},
		"it is being saved":          {func(s *supervisor) { s.image.phase = saving }, "", "being saved"},
		"there are as many as fit":   {func(s *supervisor) { addSessions(s, maxExecs) }, "", "64 processes"},
		"there is room for one more": {func(s *supervisor) { addSessions(s, maxExecs-1) }, "", passes},
	} {
		sup, _ := orderly(t, 0)
		one := sup.tasks[0]
		one.State, one.container.dir = container.Running, t.TempDir()
		c.edit(sup)
		before := sup.io.Processes()
		if _, err := sup.execute(container.Exec{Task: c.task}); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
		if sup.io.Processes() != before {
			t.Errorf("%s: it counts though it was not started", name)
		}
	}
	sup := &supervisor{}
	for _, one := range []container.Task{{Name: "side", Hook: "poststart"}, {Name: "a"}, {Name: "b", Leader: true}} {
		sup.tasks = append(sup.tasks, &task{TaskState: lifecycle.TaskState{Task: one}})
	}
	for name, want := range map[string]string{"": "b", "a": "a", "side": "side"} {
		if got, err := sup.taskFor(name); err != nil || got.Name != want {
			t.Errorf("%q is %v, %v", name, got, err)
		}
	}
}

// TestAWorkerWithoutAReader notices a worker that goes on though its terminal was closed, and that is killed at once
// though it has time left to end.
func TestAWorkerWithoutAReader(t *testing.T) {
	for _, c := range []struct {
		state   container.State
		timeout int64
		before  bool // a kill was on its way
	}{{container.Running, 0, false}, {container.Running, 300, false}, {container.Created, 300, false},
		{container.Running, 300, true}} {
		sup := idle(t)
		sup.io.Own = session.New(false, nil)
		terminal, program, err := os.Pipe()
		check(t, err)
		sup.io.Own.AddTask(0, []*os.File{terminal})
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
		if got, want := sup.hungUpFor(), "nothing had been attached to it for 5s"; !strings.HasSuffix(got, want) {
			t.Errorf("it says %q, not %q", got, want)
		}
		if runs := c.state == container.Running; (sup.killAt != nil) != runs || sup.tasks[0].container.hasEnded() == runs ||
			c.before && sup.killAt != before {
			t.Errorf("%+v: a kill follows %t", c, sup.killAt != nil)
		}
		if _, err := program.WriteString("x"); !errors.Is(err, unix.EPIPE) {
			t.Errorf("%+v: its terminal stays open: %v", c, err)
		}
		program.Close()
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
				c.io = session.New(false, nil)
				c.io.Begin()
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
				if ended := exitsOf(t, c.io); ended != want.ended {
					t.Errorf("%q: %d ranks have ended", lines, ended)
				}
			}
		}
	}
}

// exitsOf ends a session, and returns how many exits of tasks its reader has heard of.
func exitsOf(t *testing.T, s *session.Session) (exits int) {
	t.Helper()
	go s.End(stream.StepEnd{}, "")
	ours, theirs := pair(t)
	go func() { _ = s.Attach(stream.New(theirs), 0) }()
	for c := stream.New(ours); ; {
		f, err := c.Read()
		check(t, err)
		switch f.Kind {
		case stream.Exit:
			exits++
		case stream.End:
			return exits
		}
	}
}

// addSessions has n processes beside the ranks.
func addSessions(sup *supervisor, n int) {
	for range n {
		sup.io.Add(nil)
	}
}
