package shim

import (
	"bufio"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/shim/shimtest"
	"github.com/rota-hpc/rota/noded/shim/userfiles"
)

// TestTheFirstOrder notices a shim that goes on without a daemon, one that takes another order for
// the first, and a failure that its daemon does not hear of.
func TestTheFirstOrder(t *testing.T) {
	ours, theirs := pair(t)
	check(t, ours.Close())
	if err := serve(theirs); err != nil {
		t.Errorf("a daemon that needs it no more: %v", err)
	}
	for _, order := range []string{"garbage\n", "{\"op\":\"kill\"}\n", "{\"op\":\"create\"", "\n"} {
		ours, theirs := pair(t)
		_, err := ours.Write([]byte(order))
		check(t, errors.Join(err, ours.(*net.UnixConn).CloseWrite()))
		if err := serve(theirs); (err == nil) != (order == `{"op":"create"`) ||
			err != nil && !strings.Contains(err.Error(), "the first order must create a container") {
			t.Errorf("%q: %v", order, err)
		}
	}
	ours, theirs = pair(t)
	check(t, json.NewEncoder(ours).Encode(container.Order{Op: container.OpCreate, Dir: t.TempDir()}))
	err := serve(theirs)
	if err == nil || !strings.Contains(err.Error(), "read shim settings") {
		t.Errorf("without a bundle: %v", err)
	}
	line, err := bufio.NewReader(ours).ReadBytes('\n')
	check(t, err)
	var a container.Answer
	check(t, json.Unmarshal(line, &a))
	if !strings.Contains(a.Error, "read shim settings") || a.Final || a.State != "" {
		t.Errorf("the daemon hears %+v", a)
	}
}

// serveEnv has this test program be a shim that a daemon has started.
const serveEnv = "ROTA_TEST_SERVE"

// TestAShimIsStartedByItsDaemon starts shims as a daemon does. It notices one that can
// be started by hand, and one that ignores its socket.
func TestAShimIsStartedByItsDaemon(t *testing.T) {
	if os.Getenv(serveEnv) != "" {
		check(t, Serve())
		return
	}
	run := func(descriptor *os.File) string {
		cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$")
		cmd.Env, cmd.ExtraFiles = append(os.Environ(), serveEnv+"=1"), []*os.File{descriptor}
		out, _ := cmd.CombinedOutput() // its text says more
		return string(out)
	}
	null, err := os.Open("/dev/null")
	check(t, err)
	defer null.Close()
	if out := run(null); !strings.Contains(out, "descriptor 3 is not a socket: rota-shim is started by rota-noded") {
		t.Errorf("without a socket: %s", out)
	}
	ours, file, err := container.SocketPair()
	check(t, err)
	defer file.Close()
	check(t, json.NewEncoder(ours).Encode(container.Order{Op: container.OpSignal}))
	if out := run(file); !strings.Contains(out, "the first order must create a container") {
		t.Errorf("with another order: %s", out)
	}
	check(t, ours.Close())
	if out := run(file); strings.Contains(out, "FAIL") {
		t.Errorf("without a daemon: %s", out)
	}
}

// TestWhatTheDiskHasLost notices a worker that begins although a part of its bundle is damaged or in
// the way, and an error that does not say which. Nothing of it is left.
func TestWhatTheDiskHasLost(t *testing.T) {
	two := []program{hooked("one", "", false, "true"), hooked("two", "", false, "true")}
	one := []program{script("true")}
	remove := func(path string) func(*liveWorker) {
		return func(w *liveWorker) { check(t, os.RemoveAll(filepath.Join(w.dir, path))) }
	}
	write := func(path, text string) func(*liveWorker) {
		return func(w *liveWorker) { check(t, os.WriteFile(filepath.Join(w.dir, path), []byte(text), 0o600)) }
	}
	folder := func(path string) func(*liveWorker) {
		return func(w *liveWorker) { check(t, os.MkdirAll(filepath.Join(w.dir, path, "x"), 0o755)) }
	}
	for name, c := range map[string]struct {
		list   []program
		damage func(*liveWorker)
		says   string
	}{
		"no spec":                  {one, remove("config.json"), "read container spec"},
		"half a spec":              {one, write("config.json", "{"), "container spec is damaged"},
		"no limits":                {two, remove("limits.json"), "limits of the worker"},
		"half of the limits":       {two, write("limits.json", "["), "limits of the worker"},
		"limits of no kind":        {two, write("limits.json", `{"cpu":{"cpus":"none"}}`), "none"},
		"no place for memory":      {two, remove("shm"), "mount /dev/shm of the tasks"},
		"no place for progress":    {one, remove("progress"), "mount the directory of the progress file"},
		"a folder for a socket":    {one, folder("shim.sock"), "shim.sock"},
		"a folder for its process": {one, folder("shim.pid"), "shim.pid"},
		"a file for its logs":      {one, write("log", ""), "open log"},
		"a folder for a log":       {one, folder("log/stdout"), "is a directory"},
		"no settings":              {one, remove("shim.json"), "read shim settings"},
		"a pattern of no language": {one, func(w *liveWorker) {
			s, err := container.ReadSettings(w.dir)
			check(t, err)
			s.Policies = []container.Policy{{Name: "p", Pattern: "("}}
			b, err := json.Marshal(s)
			check(t, err)
			write("shim.json", string(b))(w)
		}, "log_policy p"},
	} {
		w := bundleOf(t, nil, c.list)
		c.damage(w)
		w.supervised(0)
		a := w.answer()
		<-w.ended
		if !strings.Contains(a.Error, c.says) || w.err == nil || a.State != "" {
			t.Errorf("%s: answer %+v, error %v", name, a, w.err)
		}
		check(t, os.RemoveAll(filepath.Join(w.dir, "shim.sock")))
		w.checkNothingIsLeft()
	}
}

// TestWhatTheSpecAsksInVain notices a container that begins without what its spec asks for, and a
// process of it that is left.
func TestWhatTheSpecAsksInVain(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*specs.Spec)
		says string
	}{
		"a mount that is not there": {func(s *specs.Spec) {
			s.Mounts = append(s.Mounts, specs.Mount{Destination: "/mnt", Type: "bind", Source: "/nowhere/at/all",
				Options: []string{"bind"}})
		}, "/nowhere/at/all"},
		"a limit of no kind": {func(s *specs.Spec) {
			s.Process.Rlimits = []specs.POSIXRlimit{{Type: "RLIMIT_NONE"}}
		}, "RLIMIT_NONE"},
		"a namespace of no kind": {func(s *specs.Spec) {
			s.Linux.Namespaces = append(s.Linux.Namespaces, specs.LinuxNamespace{Type: "none"})
		}, "none"},
		"a cgroup of no kind": {func(s *specs.Spec) {
			s.Linux.Resources.CPU = &specs.LinuxCPU{Cpus: "none"}
		}, "none"},
	} {
		p := script("true")
		p.edit = c.edit
		w := bundleOf(t, nil, []program{p}).supervised(0)
		a := w.answer()
		<-w.ended
		if !strings.Contains(a.Error, c.says) || w.err == nil || a.State != "" {
			t.Errorf("%s: answer %+v, error %v", name, a, w.err)
		}
		w.checkNothingIsLeft()
	}
}

// TestACommandThatCannotBeStarted notices a worker that is taken for running although its command
// was never let go, and one whose end says that all is well.
func TestACommandThatCannotBeStarted(t *testing.T) {
	w := live(t, nil, script("echo ran"))
	fifos, err := filepath.Glob(filepath.Join(container.StateDir(w.dir), "*", "exec.fifo"))
	if err != nil || len(fifos) != 1 {
		t.Fatalf("%v, %v", fifos, err)
	}
	check(t, os.Remove(fifos[0]))
	if e := w.start().end(); e.Signal != int(unix.SIGKILL) || e.Code != 0 || w.output("") != "" {
		t.Errorf("exit %+v, output %q", e, w.output(""))
	}
}

// TestAWorkerThatIsKilledBeforeItsStart notices tasks that are said to have run, and one that runs
// after the kill.
func TestAWorkerThatIsKilledBeforeItsStart(t *testing.T) {
	w := live(t, nil, hooked("one", "", false, "echo ran"), hooked("two", "poststop", false, "echo ran"))
	w.order(container.Order{Op: container.OpKill})
	e := w.end()
	if e.Signal != int(unix.SIGKILL) || len(e.Tasks) != 2 || e.Tasks[0].Begun || e.Tasks[1].Begun {
		t.Errorf("exit %+v", e)
	}
	if w.output("one")+w.output("two") != "" {
		t.Error("a task has run")
	}
}

// TestTheKillSignalAsAnOrder notices a SIGKILL that is sent to rota-init, which cannot pass it on.
func TestTheKillSignalAsAnOrder(t *testing.T) {
	w := live(t, nil, script(`trap '' TERM; echo ready; while :; do read x <&3; echo "got $x"; done`)).start()
	w.says("", "ready")
	w.order(container.Order{Op: container.OpSignal, Signal: int(unix.SIGKILL)})
	if e := w.end(); e.Signal != int(unix.SIGKILL) || strings.Contains(w.output(""), "got") {
		t.Errorf("exit %+v, output %q", e, w.output(""))
	}
}

// TestASignalThatComesTooLate notices an order to stop that fails because its container has just
// ended, and one that is lost in silence.
func TestASignalThatComesTooLate(t *testing.T) {
	ours, theirs := pair(t)
	c := &runcContainer{channel: ours}
	check(t, c.signal(unix.SIGTERM, ""))
	line, err := bufio.NewReader(theirs).ReadString('\n')
	if err != nil || line != "{\"signal\":15}\n" {
		t.Errorf("got %q, %v", line, err)
	}
	check(t, theirs.Close())
	if err := c.signal(unix.SIGTERM, ""); err != nil {
		t.Errorf("after its end: %v", err)
	}
	check(t, ours.Close())
	if err := c.signal(unix.SIGTERM, ""); err == nil {
		t.Error("without a connection a signal is taken for sent")
	}
}

// TestNamesOfTasks notices two tasks of a worker with one name, directory or place for their logs.
func TestNamesOfTasks(t *testing.T) {
	s := container.Settings{ID: container.ID{Job: 1, Attempt: 2, Worker: 3}, User: testUser,
		Tasks: []container.Task{{Name: "a"}, {Name: "b"}}}
	list := tasksOf("/d", s)
	for i, want := range []*task{{name: "1.2.3-a", dir: "/d/tasks/0", logDir: "/d/log/a"},
		{name: "1.2.3-b", dir: "/d/tasks/1", logDir: "/d/log/b"}} {
		if got := list[i]; got.name != want.name || got.dir != want.dir || got.logDir != want.logDir ||
			got.user.UID != shimtest.UID || got.State != container.Created {
			t.Errorf("task %d: %+v", i, got)
		}
	}
	s.Tasks = s.Tasks[:1]
	if got := tasksOf("/d", s)[0]; got.name != "1.2.3" || got.dir != "/d" || got.logDir != "/d/log" {
		t.Errorf("alone: %+v", got)
	}
}

// TestChecksLeaveNothingOpen notices the root of a container that its shim holds open for as long as
// the job runs: what is mounted there could not be unmounted.
func TestChecksLeaveNothingOpen(t *testing.T) {
	open := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		check(t, err)
		n := 0
		for _, e := range list {
			if to, _ := os.Readlink("/proc/self/fd/" + e.Name()); to == "/" || to == "/usr" {
				n++
			}
		}
		return n
	}
	before := open()
	g, err := userfiles.OpenGuards([]container.Guard{{Source: "/usr", Target: "/usr"}}, self())
	check(t, err)
	for range 3 {
		_ = g.Verify(os.Getpid()) // whatever it finds
	}
	g.Close()
	for range 3 {
		err := userfiles.PlaceSecrets(os.Getpid(), []container.Secret{{Name: "key", Target: "/nowhere/key"}},
			[][]byte{nil}, self())
		if err == nil {
			t.Error("a secret without a place is placed")
		}
	}
	if after := open(); after != before {
		t.Errorf("%d directories are open, and were %d", after, before)
	}
}
