package shim

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/shim/shimtest"
)

func init() { Reexec() } // this test program is the first process of the containers too

var (
	check, needsRoot, openTempDir = shimtest.Check, shimtest.NeedsRoot, shimtest.OpenTempDir
	self, testUser, pair          = shimtest.Self, shimtest.User, shimtest.Pair
)

// program is a task whose command is a shell script. On descriptor 3 it speaks to the shim, as
// rota-init does: it reads orders there, and writes its result.
type program struct {
	container.Task
	script string
	edit   func(*specs.Spec)
}

func script(text string) program {
	return program{Task: container.Task{Name: "main", KillSignal: int(unix.SIGTERM),
		Log: container.LogFiles{Join: true}}, script: text}
}

// hooked returns a program with a place in the lifecycle.
func hooked(name, hook string, sidecar bool, text string) program {
	p := script(text)
	p.Name, p.Hook, p.Sidecar = name, hook, sidecar
	return p
}

// liveWorker is a worker that a supervisor of this process looks after.
type liveWorker struct {
	t       *testing.T
	dir     string
	cgroup  string
	conn    net.Conn
	answers *bufio.Reader
	err     error
	ended   chan struct{} // closed when the supervisor has returned err
}

// bundleOf writes the bundle of a worker, and returns its directory.
func bundleOf(t *testing.T, edit func(*container.Settings), list []program) *liveWorker {
	t.Helper()
	needsRoot(t)
	base := openTempDir(t)
	root, err := container.PrepareHostRoot(filepath.Join(base, "root"), nil)
	check(t, err)
	w := &liveWorker{t: t, dir: filepath.Join(base, "1.2.3"),
		cgroup: fmt.Sprintf("/rota-shim-test-%d/%s", os.Getpid(), filepath.Base(base))}
	b := container.Bundle{Settings: container.Settings{ID: container.ID{Job: 1, Attempt: 2, Worker: 3}, User: testUser,
		Cgroup: w.cgroup, LeaseGrace: 400}, Limits: &specs.LinuxResources{}}
	for i, p := range list {
		cgroup, run := w.cgroup, container.RunDir(w.dir)
		if len(list) > 1 {
			cgroup, run = filepath.Join(w.cgroup, p.Name), container.RunDir(container.TaskDir(w.dir, i))
		}
		spec := specOf(root, cgroup, run, p.script)
		if p.edit != nil {
			p.edit(spec)
		}
		b.Tasks = append(b.Tasks, container.TaskBundle{Config: spec, Plan: struct{}{}})
		b.Settings.Tasks = append(b.Settings.Tasks, p.Task)
	}
	if edit != nil {
		edit(&b.Settings)
	}
	check(t, container.WriteBundle(w.dir, b))
	t.Cleanup(w.checkNothingIsLeft)
	return w
}

func specOf(root container.Root, cgroup, run, script string) *specs.Spec {
	mount := func(target, kind, source string, options ...string) specs.Mount {
		return specs.Mount{Destination: target, Type: kind, Source: source, Options: options}
	}
	spec := &specs.Spec{
		Version: specs.Version, Root: &specs.Root{Path: root.Path, Readonly: true},
		Mounts: []specs.Mount{mount("/proc", "proc", "proc", "nosuid", "noexec", "nodev"),
			mount("/dev", "tmpfs", "tmpfs", "nosuid", "mode=755", "size=1m"),
			mount("/tmp", "tmpfs", "tmpfs", "nosuid", "nodev", "mode=1777", "size=1m")},
		Process: &specs.Process{
			Args: []string{"/bin/sh", "-c", script}, Cwd: "/", Env: []string{"PATH=/usr/bin:/bin"},
			User:         specs.User{UID: shimtest.UID, GID: shimtest.GID, AdditionalGids: []uint32{shimtest.Group}},
			Capabilities: &specs.LinuxCapabilities{}, NoNewPrivileges: true,
		},
		Linux: &specs.Linux{CgroupsPath: cgroup, Resources: &specs.LinuxResources{
			Devices: []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}}},
			Namespaces: []specs.LinuxNamespace{{Type: specs.PIDNamespace}, {Type: specs.MountNamespace},
				{Type: specs.IPCNamespace}}},
	}
	for _, b := range root.Binds {
		if !strings.HasPrefix(b.Target, "/run/") {
			spec.Mounts = append(spec.Mounts, mount(b.Target, "bind", b.Source, "rbind", "ro", "nosuid", "nodev"))
		}
	}
	spec.Mounts = append(spec.Mounts, mount("/run", "tmpfs", "tmpfs", "nosuid", "nodev", "mode=755", "size=1m"),
		mount("/run/rota", "bind", run, "bind", "ro", "nosuid", "nodev"),
		mount("/run/rota/secrets", "tmpfs", "tmpfs", "nosuid", "nodev", "mode=0711", "size=1m"))
	return spec
}

// bindAt has a container show a directory of the machine, with what is mounted in it.
func bindAt(target, source string) func(*specs.Spec) {
	return func(s *specs.Spec) {
		s.Mounts = append(s.Mounts, specs.Mount{Destination: target, Type: "bind", Source: source,
			Options: []string{"rbind", "nosuid", "nodev"}})
	}
}

// supervised starts the supervisor of a worker, with a lease that ends in term (0: never).
func (w *liveWorker) supervised(term time.Duration) *liveWorker {
	w.t.Helper()
	ours, file, err := container.SocketPair()
	check(w.t, err)
	theirs, err := net.FileConn(file)
	check(w.t, errors.Join(err, file.Close()))
	end := int64(0)
	if term != 0 {
		end = container.BootTime() + int64(term)
	}
	w.conn, w.answers, w.ended = ours, bufio.NewReader(ours), make(chan struct{})
	go func() {
		runtime.LockOSThread() // the container is a child of this thread
		w.err = supervise(client{theirs, bufio.NewReader(theirs)},
			container.Order{Op: container.OpCreate, Dir: w.dir, Lease: end})
		close(w.ended)
		theirs.Close()
	}()
	w.t.Cleanup(func() {
		select {
		case <-w.ended:
		default:
			go func() { _, _ = w.answers.WriteTo(discard{}) }()
			_ = json.NewEncoder(w.conn).Encode(container.Order{Op: container.OpKill})
			<-w.ended
		}
		ours.Close()
	})
	return w
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

// live writes the bundle of a worker and starts its supervisor, which must create it.
func live(t *testing.T, edit func(*container.Settings), list ...program) *liveWorker {
	t.Helper()
	w := bundleOf(t, edit, list).supervised(0)
	if a := w.answer(); a.State != container.Created || a.Pid <= 1 || a.Error != "" {
		t.Fatalf("create: %+v", a)
	}
	return w
}

func (w *liveWorker) answer() container.Answer {
	w.t.Helper()
	check(w.t, w.conn.SetReadDeadline(time.Now().Add(20*time.Second)))
	line, err := w.answers.ReadBytes('\n')
	check(w.t, err)
	var a container.Answer
	check(w.t, json.Unmarshal(line, &a))
	return a
}

func (w *liveWorker) order(o container.Order) container.Answer {
	w.t.Helper()
	check(w.t, json.NewEncoder(w.conn).Encode(o))
	return w.answer()
}

func (w *liveWorker) start() *liveWorker {
	w.t.Helper()
	if a := w.order(container.Order{Op: container.OpStart}); a.State != container.Running {
		w.t.Fatalf("start: %+v", a)
	}
	return w
}

// end waits for the end of the worker, and returns its exit record.
func (w *liveWorker) end() container.Exit {
	w.t.Helper()
	if a := w.answer(); a != (container.Answer{Exited: true}) {
		w.t.Errorf("the last answer is %+v", a)
	}
	return w.exit()
}

// exit returns the exit record of a worker that is about to end.
func (w *liveWorker) exit() container.Exit {
	w.t.Helper()
	select {
	case <-w.ended:
	case <-time.After(20 * time.Second):
		w.t.Fatal("the supervisor does not return")
	}
	check(w.t, w.err)
	e, err := container.ReadExit(w.dir)
	check(w.t, err)
	if age := time.Since(time.UnixMilli(e.Ended)); age < -time.Second || age > 20*time.Second {
		w.t.Errorf("it ended %v ago", age)
	}
	return *e
}

func (w *liveWorker) output(task string) string {
	b, _ := os.ReadFile(filepath.Join(container.LogDir(w.dir), task, "stdout")) // it may not exist yet
	return string(b)
}

// says waits until a task has written a text.
func (w *liveWorker) says(task, text string) {
	w.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !strings.Contains(w.output(task), text) {
		if time.Now().After(deadline) {
			w.t.Fatalf("task %q never said %q but %q", task, text, w.output(task))
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// checkNothingIsLeft is for the end of a test: nothing of the worker is left but files.
func (w *liveWorker) checkNothingIsLeft() {
	found, _ := filepath.Glob("/sys/fs/cgroup/*" + w.cgroup)
	if _, err := os.Stat("/sys/fs/cgroup" + w.cgroup); err == nil {
		found = append(found, "/sys/fs/cgroup"+w.cgroup)
	}
	if len(found) > 0 {
		w.t.Errorf("cgroups are left: %v", found)
	}
	for _, dir := range found {
		_ = os.Remove(dir)
	}
	for _, pattern := range []string{"/sys/fs/cgroup/*", "/sys/fs/cgroup"} {
		parents, _ := filepath.Glob(pattern + filepath.Dir(w.cgroup))
		for _, dir := range parents {
			_ = os.Remove(dir)
		}
	}
	if mounts, _ := os.ReadFile("/proc/self/mounts"); strings.Contains(string(mounts), w.dir) {
		w.t.Errorf("mounts are left below %s", w.dir)
	}
	if _, err := os.Lstat(filepath.Join(w.dir, "shim.sock")); !errors.Is(err, os.ErrNotExist) {
		w.t.Errorf("its socket is left: %v", err)
	}
	if _, err := os.Lstat(container.StateDir(w.dir)); !errors.Is(err, os.ErrNotExist) {
		w.t.Errorf("libcontainer's state is left: %v", err)
	}
}

func want(t *testing.T, out string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains("\n"+out, "\n"+line+"\n") {
			t.Errorf("the output lacks the line %q:\n%s", line, out)
		}
	}
}
