package shim

import (
	"bufio"
	"encoding/json"
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
	"github.com/rota-hpc/rota/noded/shim/jobsocket"
	"github.com/rota-hpc/rota/noded/shim/shimtest"
)

// process stands in for a process of the job at the job socket.
type process struct {
	t     *testing.T
	conn  net.Conn
	lines *bufio.Reader
}

func (w *liveWorker) process() *process {
	w.t.Helper()
	run, err := os.Open(container.RunDir(w.dir))
	check(w.t, err)
	defer run.Close()
	conn, err := net.Dial("unix", fmt.Sprintf("/proc/self/fd/%d/job.sock", run.Fd()))
	check(w.t, err)
	w.t.Cleanup(func() { conn.Close() })
	return &process{w.t, conn, bufio.NewReader(conn)}
}

func (p *process) says(format string, args ...any) {
	p.t.Helper()
	_, err := fmt.Fprintf(p.conn, format+"\n", args...)
	check(p.t, err)
}

// hears waits for one line; "" is the end of the connection.
func (p *process) hears(want string) {
	p.t.Helper()
	check(p.t, p.conn.SetReadDeadline(time.Now().Add(20*time.Second)))
	line, err := p.lines.ReadString('\n')
	if want != "" {
		check(p.t, err)
	}
	if got := strings.TrimSpace(line); got != want {
		p.t.Errorf("it hears %q, want %q", got, want)
	}
}

// switching gives an order, and returns how far the worker has come by then.
func (w *liveWorker) switching(o container.Order) container.Switching {
	w.t.Helper()
	a := w.order(o)
	for a.Changed {
		a = w.answer()
	}
	if a.Error != "" {
		w.t.Fatalf("%s: %s", o.Op, a.Error)
	}
	return a.Switch
}

func (w *liveWorker) switchTo(o container.SwitchOrder) container.Switching {
	w.t.Helper()
	return w.switching(container.Order{Op: container.OpSwitch, Switch: &o})
}

// done waits until an order was carried out, or found impossible.
func (w *liveWorker) done(number int) (s container.Switching) {
	w.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		s = w.switching(container.Order{Op: container.OpStatus})
		switch {
		case s.Ordered == number && (s.Done == number || s.Problem != ""):
			return s
		case time.Now().After(deadline):
			w.t.Fatalf("order %d: %+v", number, s)
		}
	}
}

const patient = 20_000 // milliseconds

// ready says that the process comes by pause points, and returns when the supervisor has heard it: it
// has when more was read than waits to be heard.
func (p *process) ready() {
	p.t.Helper()
	p.says(`{"say":"ready"}` + strings.Repeat("\n{}", jobsocket.MaxSaying))
	raw, err := p.conn.(*net.UnixConn).SyscallConn()
	check(p.t, err)
	for unread := -1; unread != 0; time.Sleep(time.Millisecond) {
		check(p.t, raw.Control(func(fd uintptr) { unread, err = unix.IoctlGetInt(int(fd), unix.TIOCOUTQ) }))
		check(p.t, err)
	}
}

// TestProcessesThatPause: a worker has paused when all that are ready have, also one that comes while
// the others wait, and one that has heard of it before its node has.
func TestProcessesThatPause(t *testing.T) {
	w := live(t, nil, script("echo ready; exec sleep 100")).start()
	w.says("", "ready")
	first, second := w.process(), w.process()
	first.ready()
	second.ready()
	second.says(`{"say":"paused","number":1}`) // its gang was told
	if s := w.switchTo(container.SwitchOrder{Number: 1, WithinMS: patient}); s.Ordered != 1 || s.Done != 0 {
		t.Errorf("order 1: %+v", s)
	}
	first.hears(`{"do":"pause","number":1}`)
	second.hears(`{"do":"pause","number":1}`)
	third := w.process()
	third.says(`{"say":"ready"}`)
	third.hears(`{"do":"pause","number":1}`)
	first.says(`{"say":"paused","number":1}`)
	third.says(`{"say":"paused","number":1}`)
	if s := w.done(1); s.Means != container.Cooperative {
		t.Errorf("all have paused: %+v", s)
	}
	w.switchTo(container.SwitchOrder{Number: 2})
	for _, p := range []*process{first, second, third} {
		p.hears(`{"do":"resume","number":2}`)
		p.says(`{"say":"resumed","number":2}`)
	}
	w.done(2)
	w.switchTo(container.SwitchOrder{Number: 3, WithinMS: patient})
	first.hears(`{"do":"pause","number":3}`)
	first.says(`{"say":"paused","number":3}`)
	second.conn.Close() // one that ends is not waited for
	third.conn.Close()
	if s := w.done(3); s.Means != container.Cooperative {
		t.Errorf("the only one that is left has paused: %+v", s)
	}
	w.switching(container.Order{Op: container.OpSignal, Signal: int(unix.SIGTERM)})
	first.hears(`{"do":"stop"}`)
	w.switching(container.Order{Op: container.OpKill})
	w.end()
}

// TestProcessesThatLie: what a job writes at its socket harms nothing but its own part in pausing.
func TestProcessesThatLie(t *testing.T) {
	w := live(t, nil, script("echo ready; exec sleep 100")).start()
	w.says("", "ready")
	for _, rubbish := range []string{
		"rubbish", `{"say":` + strings.Repeat(" ", jobsocket.MaxSaying), `{"say":"ready","number":"x"}`, `[]`,
	} {
		p := w.process()
		p.says("%s", rubbish)
		p.hears("") // the end
	}
	liar := w.process()
	liar.ready()
	liar.says(`{"say":"paused","number":999}`) // an order that is not in sight
	liar.says(`{"say":"paused","number":-1}`)
	liar.says(`{"say":"resumed","number":1}`)
	liar.says(`{"say":"paused","number":2}`)
	w.switchTo(container.SwitchOrder{Number: 1, WithinMS: 100, NoFreeze: "its memory stays"})
	if s := w.done(1); s.Done != 0 || !strings.Contains(s.Problem, "pause point in time") ||
		!strings.Contains(s.Problem, "its memory stays") {
		t.Errorf("%+v", s)
	}
	w.switchTo(container.SwitchOrder{Number: 2})
	if s := w.done(2); s.Problem != "" {
		t.Errorf("%+v", s)
	}
	liar.conn.Close()
	var last *process
	for range jobsocket.MaxMembers + 5 {
		last = w.process()
	}
	last.hears("") // there are enough
	w.switching(container.Order{Op: container.OpKill})
	w.end()
}

// TestTheJobSocketIsTheUsers notices a socket at which others can pause a job.
func TestTheJobSocketIsTheUsers(t *testing.T) {
	w := live(t, nil, script(`test -S /run/rota/job.sock && echo there; exec sleep 100`)).start()
	w.says("", "there")
	var s unix.Stat_t
	check(t, unix.Stat(filepath.Join(container.RunDir(w.dir), "job.sock"), &s))
	if s.Uid != shimtest.UID || s.Mode&0o777 != 0o600 {
		t.Errorf("it belongs to %d, mode %o", s.Uid, s.Mode)
	}
	w.switching(container.Order{Op: container.OpKill})
	w.end()
}

// TestOtherCores: a worker goes on on the cores that it is given.
func TestOtherCores(t *testing.T) {
	needsRoot(t)
	if !hasCpusets() {
		t.Skip("needs cgroups that bind to cores")
	}
	const tells = `echo ready; while :; do sed -n s/^Cpus_allowed_list:.//p /proc/self/status; sleep 0.01; done`
	w := live(t, nil, script(tells)).start()
	w.says("", "ready")
	w.switchTo(container.SwitchOrder{Number: 1})
	if s := w.done(1); s.Means != container.Frozen {
		t.Fatalf("%+v", s)
	}
	w.switchTo(container.SwitchOrder{Number: 2, Cores: "1"})
	w.says("", "\n1\n")
	w.switching(container.Order{Op: container.OpKill})
	w.end()
}

func hasCpusets() bool {
	_, err := os.Stat("/sys/fs/cgroup/cpuset")
	b, _ := os.ReadFile("/sys/fs/cgroup/cgroup.controllers")
	return err == nil || strings.Contains(string(b), "cpuset")
}

// TestOtherCoresForSeveralTasks: the tasks of a worker go on on the cores that it is given, though
// these are none of those that it had.
func TestOtherCoresForSeveralTasks(t *testing.T) {
	needsRoot(t)
	if !hasCpusets() || runtime.NumCPU() < 2 {
		t.Skip("needs cgroups that bind to cores, and two cores")
	}
	const tells = `while :; do sed -n s/^Cpus_allowed_list:.//p /proc/self/status; sleep 0.01; done`
	w := bundleOf(t, nil, []program{script(tells), hooked("side", "poststart", true, tells)})
	limits := &specs.LinuxResources{CPU: &specs.LinuxCPU{Cpus: "0"}}
	raw, err := json.Marshal(limits)
	check(t, err)
	check(t, os.WriteFile(container.LimitsPath(w.dir), raw, 0o600))
	w.supervised(0)
	if a := w.answer(); a.State != container.Created {
		t.Fatalf("create: %+v", a)
	}
	w.start()
	for number := 1; number <= 5; number += 2 {
		w.switchTo(container.SwitchOrder{Number: number})
		if s := w.done(number); s.Means != container.Frozen {
			t.Fatalf("%+v", s)
		}
		cores := fmt.Sprint((number/2 + 1) % 2)
		before := map[string]int{"main": len(w.output("main")), "side": len(w.output("side"))}
		w.switchTo(container.SwitchOrder{Number: number + 1, Cores: cores})
		w.done(number + 1)
		for task, from := range before {
			for deadline := time.Now().Add(20 * time.Second); !strings.HasSuffix(w.output(task), "\n"+cores+"\n") ||
				len(w.output(task)) < from+20; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("order %d: task %s runs on %q", number+1, task, w.output(task)[from:])
				}
			}
		}
	}
	w.switching(container.Order{Op: container.OpKill})
	w.end()
}
