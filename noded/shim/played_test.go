package shim

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/cgroups/manager"
	"github.com/opencontainers/runc/libcontainer"
	"github.com/opencontainers/runc/libcontainer/configs"
	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/oci/launch"
)

// played is a container whose first process is a plain shell script, so that tests need no root.
// libcontainer believes that the process is the container's, and starts and kills it as such. Like
// a real one it waits until it is started, and has the socket to the shim as descriptor 3.
func played(t *testing.T, dir, name, script string, out *logs) *runcContainer {
	t.Helper()
	state := filepath.Join(container.StateDir(dir), name)
	must(t, os.MkdirAll(state, 0o700))
	fifo := filepath.Join(state, "exec.fifo")
	must(t, unix.Mkfifo(fifo, 0o600))
	ours, theirs, err := container.SocketPair()
	must(t, err)
	defer theirs.Close()
	null, err := os.Open(os.DevNull)
	must(t, err)
	defer null.Close()
	files := []*os.File{null, out.stdout, out.stderr, theirs}
	process, err := os.StartProcess("/bin/sh", []string{"sh", "-c", "echo 0 >'" + fifo + "'\n" + script},
		&os.ProcAttr{Env: []string{"PATH=/usr/bin:/bin"}, Files: files})
	must(t, err)
	out.closeContainerEnds()
	c := &runcContainer{
		dir: dir, channel: ours, pid: process.Pid, results: make(chan launch.Result, 1), ended: make(chan struct{}),
	}
	go c.listen()
	go func() {
		c.waited, c.waitErr = process.Wait()
		close(c.ended)
	}()
	t.Cleanup(func() {
		_ = process.Kill() // it has ended unless the test failed
		<-c.ended
		c.channel.Close()
	})
	identity, err := container.FindProcess(process.Pid)
	must(t, err)
	b, err := json.Marshal(libcontainer.State{BaseState: libcontainer.BaseState{
		ID: name, InitProcessPid: process.Pid, InitProcessStartTime: identity.Start,
		Config: configs.Config{Namespaces: configs.Namespaces{{Type: configs.NEWPID}}, Cgroups: noCgroup(name)},
	}})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(state, "state.json"), b, 0o600))
	c.inner, err = libcontainer.Load(container.StateDir(dir), name)
	must(t, err)
	return c
}

// noCgroup is a cgroup that does not exist.
func noCgroup(name string) *cgroups.Cgroup {
	return &cgroups.Cgroup{
		Path: fmt.Sprintf("/rota-test-none-%d/%s", os.Getpid(), name), Resources: &cgroups.Resources{},
	}
}

// playedTask is one task of a worker, and the script that its container runs.
type playedTask struct {
	container.Task
	script string
}

// playedWorker is a supervisor at work in a test.
type playedWorker struct {
	*supervisor
	t     *testing.T
	ended chan error // what run returned
	conn  client
}

// newPlayedWorker returns a worker whose containers exist and wait for their start.
func newPlayedWorker(t *testing.T, s container.Settings, lease time.Duration, tasks ...playedTask) *playedWorker {
	t.Helper()
	dir := t.TempDir()
	s.ID = container.ID{Job: 7, Attempt: 3, Worker: 2}
	bundle := container.Bundle{}
	for _, one := range tasks {
		s.Tasks = append(s.Tasks, one.Task)
		bundle.Tasks = append(bundle.Tasks, container.TaskBundle{})
	}
	s.User = container.User{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}
	bundle.Settings = s
	must(t, container.WriteBundle(dir, bundle))
	order := container.Order{Dir: dir}
	if lease != 0 {
		order.Lease = container.BootTime() + int64(lease)
	}
	sup, err := newSupervisor(order)
	must(t, err)
	t.Cleanup(func() { sup.lease.timer.Close() })
	scanner, err := newOutputScanner(dir, s)
	must(t, err)
	for i, one := range sup.tasks {
		one.logs, err = openLogs(one.logDir, one.Log, one.user, scanner.task(one.Name))
		must(t, err)
		one.container = played(t, one.dir, one.name, tasks[i].script, one.logs)
	}
	if s.Several() {
		none, err := manager.New(noCgroup("worker"))
		must(t, err)
		sup.shared = &sharedResources{dir: dir, cgroup: none}
	}
	sup.listener, err = listen(dir)
	must(t, err)
	sup.state = container.Created
	return &playedWorker{supervisor: sup, t: t}
}

// begin lets the supervisor work, with the test as its daemon.
func (w *playedWorker) begin() {
	w.t.Helper()
	for _, one := range w.tasks {
		go func() {
			<-one.container.ended
			w.supervisor.ended <- one
		}()
	}
	go w.acceptClients()
	w.ended = make(chan error, 1)
	w.conn = w.dial()
	go func() { w.ended <- w.run() }()
}

// start begins and orders the start.
func (w *playedWorker) start() {
	w.t.Helper()
	w.begin()
	if a := w.order(container.Order{Op: container.OpStart}); a.Error != "" || a.State != container.Running {
		w.t.Fatalf("the start is answered with %+v", a)
	}
}

// order sends an order as the daemon does, and returns the answer.
func (w *playedWorker) order(o container.Order) container.Answer {
	w.t.Helper()
	b, err := json.Marshal(o)
	must(w.t, err)
	_, err = w.conn.conn.Write(append(b, '\n'))
	must(w.t, err)
	return w.answer()
}

// answer returns the next answer of the shim.
func (w *playedWorker) answer() container.Answer {
	w.t.Helper()
	must(w.t, w.conn.conn.SetReadDeadline(time.Now().Add(20*time.Second)))
	line, err := w.conn.lines.ReadBytes('\n')
	must(w.t, err)
	var a container.Answer
	must(w.t, json.Unmarshal(line, &a))
	return a
}

// exit waits for the end of the worker and returns its record.
func (w *playedWorker) exit() container.Exit {
	w.t.Helper()
	select {
	case err := <-w.ended:
		must(w.t, err)
	case <-time.After(20 * time.Second):
		w.t.Fatalf("the worker does not end; its log:\n%s", w.log(""))
	}
	e, err := container.ReadExit(w.dir)
	must(w.t, err)
	return *e
}

// log returns the output of a task.
func (w *playedWorker) log(task string) string {
	b, _ := os.ReadFile(filepath.Join(container.LogDir(w.dir), task, "stdout")) // there may be none yet
	return string(b)
}

// awaitLog waits until a task has written something.
func (w *playedWorker) awaitLog(task, text string) {
	w.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); w.log(task) != text; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("task %q has written %q, not %q", task, w.log(task), text)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
