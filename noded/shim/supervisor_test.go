package shim

import (
	"bufio"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/container"
)

// dial connects to the shim's socket, as a daemon that was started again does.
func (w *playedWorker) dial() client {
	w.t.Helper()
	dir, err := os.Open(w.dir)
	must(w.t, err)
	defer dir.Close()
	conn, err := net.Dial("unix", container.SocketAddress(dir))
	must(w.t, err)
	w.t.Cleanup(func() { conn.Close() })
	return client{conn, bufio.NewReader(conn)}
}

// stubborn is a program that says when it runs, and that no order stops.
const stubborn = "echo ready; exec sleep 1000"

// obedient ends with code 85 when rota-init's channel brings it a signal, and says which.
const obedient = "echo ready; read order <&3; echo \"$order\"; exit 85"

func oneTask(script string) playedTask {
	return playedTask{container.Task{Name: "main", KillSignal: int(unix.SIGTERM)}, script}
}

// TestTheKillComesAtTheEndOfTheGrace notices a kill after the lease's end that comes ten times too
// late, and a default grace that is not 10 s. The controllers start the worker elsewhere then.
func TestTheKillComesAtTheEndOfTheGrace(t *testing.T) {
	for ms, want := range map[int64]time.Duration{700: 700 * time.Millisecond, 0: 10 * time.Second} {
		w := newPlayedWorker(t, container.Settings{LeaseGrace: ms}, 0, oneTask(stubborn))
		w.state, w.tasks[0].state = container.Running, container.Running
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			w.stopExpired()
			first := w.killAt
			if at := <-first; at.Sub(begin) != want {
				t.Errorf("grace of %d ms: the kill is due after %v", ms, at.Sub(begin))
			}
			w.stopExpired()
			if w.killAt != first {
				t.Errorf("grace of %d ms: a second end of the lease moves the kill", ms)
			}
		})
		var notice container.Notice
		b, err := os.ReadFile(filepath.Join(container.RunDir(w.dir), "notice.json"))
		must(t, err)
		must(t, json.Unmarshal(b, &notice))
		due := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(want) // a bubble begins at this time
		if notice.Deadline != due.Format(time.RFC3339Nano) {
			t.Errorf("grace of %d ms: the notice says %s", ms, notice.Deadline)
		}
	}
}

// TestAWorkerWhoseLeaseEndsIsKilled plays the end of a lease to its end. It notices a kill that does
// not follow, a record that does not say why, and a notice of another attempt or signal.
func TestAWorkerWhoseLeaseEndsIsKilled(t *testing.T) {
	main := oneTask(stubborn)
	main.KillSignal = int(unix.SIGUSR1)
	w := newPlayedWorker(t, container.Settings{LeaseGrace: 200}, 300*time.Millisecond, main)
	w.start()
	w.awaitLog("", "ready\n")
	begin := time.Now()
	if e := w.exit(); !e.Lease || e.Signal != int(unix.SIGKILL) || e.Code != 0 {
		t.Errorf("the record says %+v", e)
	}
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("it is dead %v after its start", took)
	}
	var notice container.Notice
	b, err := os.ReadFile(filepath.Join(container.RunDir(w.dir), "notice.json"))
	must(t, err)
	must(t, json.Unmarshal(b, &notice))
	if notice.Reason != "lease" || notice.Attempt != 3 || notice.Signal != "SIGUSR1" {
		t.Errorf("notice %+v", notice)
	}
}

// TestTheEndOfALeaseIsSignalledFirst shows that a program can save its state: it gets the task's
// own signal, and its exit counts.
func TestTheEndOfALeaseIsSignalledFirst(t *testing.T) {
	main := oneTask(obedient)
	main.KillSignal = int(unix.SIGUSR2)
	w := newPlayedWorker(t, container.Settings{LeaseGrace: 10_000}, 300*time.Millisecond, main)
	w.start()
	if e := w.exit(); !e.Lease || e.Code != 85 || e.Signal != 0 {
		t.Errorf("the record says %+v", e)
	}
	if got := w.log(""); got != "ready\n{\"signal\":12}\n" {
		t.Errorf("output %q", got)
	}
}

// TestALeaseThatEndsBeforeTheStart shows that nothing of the user's is started any more, and that
// the kill does not wait.
func TestALeaseThatEndsBeforeTheStart(t *testing.T) {
	w := newPlayedWorker(t, container.Settings{LeaseGrace: 60_000}, 100*time.Millisecond, oneTask("echo started"))
	w.begin()
	if e := w.exit(); !e.Lease || e.Signal != int(unix.SIGKILL) {
		t.Errorf("the record says %+v", e)
	}
	if got := w.log(""); got != "" {
		t.Errorf("output %q", got)
	}
}

// TestARenewedLeaseGoesOn notices a renewal that is answered and not carried out, and one that is
// accepted after the end.
func TestARenewedLeaseGoesOn(t *testing.T) {
	w := newPlayedWorker(t, container.Settings{LeaseGrace: 1}, 400*time.Millisecond, oneTask(obedient))
	w.start()
	later := container.BootTime() + int64(time.Hour)
	if a := w.order(container.Order{Op: container.OpRenew, Lease: later}); a.Error != "" {
		t.Fatalf("the renewal is answered with %+v", a)
	}
	time.Sleep(600 * time.Millisecond)
	if a := w.order(container.Order{Op: container.OpStatus}); a.State != container.Running ||
		a.Pid != w.tasks[0].container.pid {
		t.Errorf("after the first lease: %+v", a)
	}
	if a := w.order(container.Order{Op: container.OpSignal, Signal: int(unix.SIGTERM)}); a.Error != "" {
		t.Errorf("the signal is answered with %+v", a)
	}
	if e := w.exit(); e.Lease || e.Code != 85 {
		t.Errorf("the record says %+v", e)
	}
}

// TestTheEndOfAWorkerIsReported notices a missing exit record, a socket that is left, a last answer
// that is lost, and a state directory that is left.
func TestTheEndOfAWorkerIsReported(t *testing.T) {
	w := newPlayedWorker(t, container.Settings{}, 0, oneTask("echo out; echo err >&2; exit 3"))
	info, err := os.Stat(filepath.Join(w.dir, "shim.sock"))
	must(t, err)
	if info.Mode().Perm() != 0o600 { // a socket that others may use takes orders from them
		t.Errorf("the socket has mode %v", info.Mode())
	}
	w.tasks[0].logs.lost.Add(42)
	w.start()
	if a := w.answer(); !a.Exited {
		t.Errorf("the last answer is %+v", a)
	}
	e := w.exit()
	if e.Code != 3 || e.Signal != 0 || e.Lease || e.LogLost != 42 ||
		time.Since(time.UnixMilli(e.Ended)).Abs() > time.Minute {
		t.Errorf("the record says %+v", e)
	}
	for _, name := range []string{"shim.sock", "state"} {
		if _, err := os.Lstat(filepath.Join(w.dir, name)); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", name, err)
		}
	}
}

// TestUnknownOrdersAreErrors notices an order that is answered as if it were carried out.
func TestUnknownOrdersAreErrors(t *testing.T) {
	w := newPlayedWorker(t, container.Settings{}, 0, oneTask(stubborn))
	w.start()
	if a := w.order(container.Order{Op: "frob"}); !strings.Contains(a.Error, `"frob"`) {
		t.Errorf("got %+v", a)
	}
	other := w.dial() // another daemon is answered too, and rubbish closes its connection alone
	_, err := other.conn.Write([]byte("{\"op\":\"status\"}\n"))
	must(t, err)
	if line, err := other.lines.ReadString('\n'); err != nil || !strings.Contains(line, "running") {
		t.Errorf("the second daemon got %q, %v", line, err)
	}
	_, err = other.conn.Write([]byte("rubbish\n"))
	must(t, err)
	if line, err := other.lines.ReadString('\n'); err == nil {
		t.Errorf("rubbish is answered with %q", line)
	}
	w.order(container.Order{Op: container.OpKill})
	if e := w.exit(); e.Signal != int(unix.SIGKILL) || e.Lease {
		t.Errorf("the record says %+v", e)
	}
}

// TestAContainerThatEndsBeforeItsStart notices a worker that waits for ever for its start.
func TestAContainerThatEndsBeforeItsStart(t *testing.T) {
	w := newPlayedWorker(t, container.Settings{}, 0, oneTask("echo started"))
	must(t, unix.Kill(w.tasks[0].container.pid, unix.SIGSEGV))
	w.begin()
	if e := w.exit(); e.Signal != int(unix.SIGSEGV) {
		t.Errorf("the record says %+v", e)
	}
}

// TestAStartThatFailsIsNoSuccess notices a worker that counts as successful although its command
// could not be started.
func TestAStartThatFailsIsNoSuccess(t *testing.T) {
	w := newPlayedWorker(t, container.Settings{}, 0, oneTask("exit 0"))
	c := w.tasks[0].container
	must(t, c.start()) // the command ends before the order, so that the second start fails
	<-c.ended
	w.begin()
	w.state = container.Running
	if e := w.exit(); e.Signal != int(unix.SIGKILL) {
		t.Errorf("the record says %+v", e)
	}
}

func hookTask(name, hook, script string) playedTask {
	return playedTask{container.Task{Name: name, Hook: hook, KillSignal: int(unix.SIGTERM)}, script}
}

// TestNoTaskStartsAfterAKill notices a poststop task that runs after an order to kill or after the
// end of the lease. It would run beside the next attempt.
func TestNoTaskStartsAfterAKill(t *testing.T) {
	kill := func(w *playedWorker) { w.order(container.Order{Op: container.OpKill}) }
	expire := func(w *playedWorker) { must(t, w.lease.renew(container.BootTime()+1)) }
	for name, c := range map[string]struct {
		script       string
		end          func(*playedWorker)
		lease        bool
		code, signal int
	}{
		"kill": {stubborn, kill, false, 0, 9}, "lease": {stubborn, expire, true, 0, 9},
		"lease, and it obeys": {obedient, expire, true, 85, 0},
	} {
		w := newPlayedWorker(t, container.Settings{LeaseGrace: 100}, 0, oneTask(c.script),
			hookTask("last", "poststop", "echo ran"))
		if c.code != 0 {
			w.settings.LeaseGrace = 60_000
		}
		w.start()
		w.awaitLog("main", "ready\n")
		c.end(w)
		e := w.exit()
		if e.Code != c.code || e.Signal != c.signal || e.Lease != c.lease || len(e.Tasks) != 2 ||
			!e.Tasks[0].Begun || e.Tasks[1].Begun || e.Tasks[1].Name != "last" {
			t.Errorf("%s: the record says %+v", name, e)
		}
		if got := w.log("last"); got != "" {
			t.Errorf("%s: the last task wrote %q", name, got)
		}
	}
}

// TestAPoststopTaskRunsAfterAStop shows the other side: a worker that was asked to stop cleans up.
func TestAPoststopTaskRunsAfterAStop(t *testing.T) {
	w := newPlayedWorker(t, container.Settings{}, 0, oneTask(obedient), hookTask("last", "poststop", "echo ran"))
	w.start()
	w.awaitLog("main", "ready\n")
	w.order(container.Order{Op: container.OpSignal, Signal: int(unix.SIGTERM)})
	if e := w.exit(); e.Code != 85 || !e.Tasks[1].Begun || w.log("last") != "ran\n" {
		t.Errorf("the record says %+v, and the last task %q", e, w.log("last"))
	}
}

// TestATaskThatNeverRanHasNotBegun notices a record of a task that was killed before its start, as
// if it had run. Its end may be noticed before that of the tasks that ran.
func TestATaskThatNeverRanHasNotBegun(t *testing.T) {
	w := newPlayedWorker(t, container.Settings{}, 0, oneTask("exit 0"), hookTask("last", "poststop", "echo ran"))
	main, last := w.tasks[0], w.tasks[1]
	w.state, main.state = container.Running, container.Running
	must(t, main.container.start())
	<-main.container.ended
	w.killAll()
	<-last.container.ended
	w.supervisor.ended <- last
	w.supervisor.ended <- main
	must(t, w.run())
	if e := w.exitRecord(); e.Code != 0 || e.Signal != 0 || !e.Tasks[0].Begun || e.Tasks[1].Begun {
		t.Errorf("the record says %+v", e)
	}
}

// TestALateTaskIsKilled notices a sidecar that is asked to stop and never killed.
func TestALateTaskIsKilled(t *testing.T) {
	side := hookTask("side", "poststart", stubborn)
	side.Sidecar, side.KillTimeout = true, 150
	w := newPlayedWorker(t, container.Settings{}, 0, oneTask("exit 0"), side)
	w.start()
	e := w.exit()
	if e.Code != 0 || e.Signal != 0 || e.Tasks[1].Signal != int(unix.SIGKILL) || !e.Tasks[1].Begun {
		t.Errorf("the record says %+v", e)
	}
}

// TestASidecarHasItsTimeToStop notices a kill timeout in the wrong unit, or another default than
// 30 s.
func TestASidecarHasItsTimeToStop(t *testing.T) {
	for ms, want := range map[int64]time.Duration{250: 250 * time.Millisecond, 0: 30 * time.Second} {
		side := oneTask(stubborn)
		side.KillTimeout = ms
		w := newPlayedWorker(t, container.Settings{}, 0, side)
		synctest.Test(t, func(t *testing.T) {
			begin, late := time.Now(), make(chan *task, 1)
			w.tasks[0].stopForOthers(late)
			if <-late; time.Since(begin) != want {
				t.Errorf("timeout of %d ms: it is late after %v", ms, time.Since(begin))
			}
		})
		if !w.tasks[0].stoppedByOthers {
			t.Error("how it ends would count")
		}
	}
}

// TestSignalsOfSeveralTasks notices a signal for the main tasks, such as one to save their state,
// that reaches the others, and a stop that a task does not get.
func TestSignalsOfSeveralTasks(t *testing.T) {
	first, second := oneTask(obedient), oneTask(obedient)
	second.Name, second.KillSignal = "second", int(unix.SIGINT)
	side := hookTask("side", "poststart", obedient)
	side.KillSignal, side.Sidecar = int(unix.SIGHUP), true
	beside := hookTask("beside", "poststart", obedient)
	beside.KillSignal = int(unix.SIGQUIT)
	w := newPlayedWorker(t, container.Settings{}, 0, first, second, side, beside)
	for i, want := range map[int]unix.Signal{0: unix.SIGUSR1, 1: unix.SIGUSR1, 2: unix.SIGHUP, 3: unix.SIGQUIT} {
		if got := w.stopSignal(w.tasks[i], unix.SIGUSR1); got != want {
			t.Errorf("task %d gets %v", i, got)
		}
	}
	w.start()
	for _, name := range []string{"main", "second", "side", "beside"} {
		w.awaitLog(name, "ready\n")
	}
	w.order(container.Order{Op: container.OpSignal, Signal: int(unix.SIGTERM)})
	w.exit()
	for name, want := range map[string]string{"main": "15", "second": "2", "side": "1", "beside": "3"} {
		if got := w.log(name); got != "ready\n{\"signal\":"+want+"}\n" {
			t.Errorf("task %s: %q", name, got)
		}
	}
}

// TestTheRecordOfSeveralTasks notices times, lost output or names that are dropped.
func TestTheRecordOfSeveralTasks(t *testing.T) {
	w := newPlayedWorker(t, container.Settings{}, 0, oneTask("exit 0"), hookTask("late", "poststart", "exit 4"))
	for i, one := range w.tasks {
		one.state, one.exit = container.Exited,
			container.Exit{UserMS: 1, SystemMS: 20, LogLost: 300, Code: 4 * i, OOM: i == 1}
	}
	w.expired = true
	e := w.exitRecord()
	if e.UserMS != 2 || e.SystemMS != 40 || e.LogLost != 600 || e.Code != 4 || !e.OOM || !e.Lease ||
		e.Why != "its poststart task late ended with exit code 4" || len(e.Tasks) != 2 || !e.Tasks[1].OOM ||
		e.Tasks[1].Code != 4 || e.Tasks[0].Code != 0 {
		t.Errorf("the record says %+v", e)
	}
	if got := exitText(container.Exit{Signal: 9}); got != "SIGKILL" {
		t.Errorf("a signal is %q", got)
	}
}

// TestLargeProgressFilesAreEmptied notices a progress file that may fill the machine's disk, and one
// that is emptied before it is read.
func TestLargeProgressFilesAreEmptied(t *testing.T) {
	w := newPlayedWorker(t, container.Settings{}, 0, oneTask("exit 0"))
	path := container.ProgressPath(w.tasks[0].dir)
	for _, size := range []int64{100, 64 << 20, 64<<20 + 1} {
		must(t, os.Truncate(path, size))
		w.trimProgress()
		info, err := os.Stat(path)
		must(t, err)
		if left := info.Size(); left != size && size <= 64<<20 || left != 0 && size > 64<<20 {
			t.Errorf("of %d bytes %d are left", size, left)
		}
	}
}

// TestAFailedCreateIsReported notices an answer that loses the mark of an error that stays, and a
// process file or socket that is left: the daemon would take it for a container.
func TestAFailedCreateIsReported(t *testing.T) {
	dir := t.TempDir()
	must(t, container.WriteBundle(dir, container.Bundle{
		Settings: container.Settings{Tasks: []container.Task{{Name: "main"}},
			Policies: []container.Policy{{Name: "bad", Pattern: "("}}},
		Tasks: []container.TaskBundle{{}},
	}))
	ours, theirs := net.Pipe()
	defer theirs.Close()
	done := make(chan error, 1)
	go func() { done <- supervise(client{ours, nil}, container.Order{Op: container.OpCreate, Dir: dir}) }()
	var a container.Answer
	must(t, json.NewDecoder(theirs).Decode(&a))
	if !a.Final || !strings.Contains(a.Error, "log_policy bad") || a.State != "" {
		t.Errorf("the answer is %+v", a)
	}
	if err := <-done; err == nil {
		t.Error("it goes on")
	}
	for _, name := range []string{"shim.pid", "shim.sock"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", name, err)
		}
	}
	sup, err := newSupervisor(container.Order{Dir: dir})
	must(t, err)
	if err := sup.create(); !container.IsFinal(err) {
		t.Errorf("create: %v", err)
	}
	// A shim that dies from here on must be found by its daemon, and its record must have room.
	b, err := os.ReadFile(filepath.Join(dir, "shim.pid"))
	must(t, err)
	var p container.Process
	must(t, json.Unmarshal(b, &p))
	if p.Pid != os.Getpid() || !p.Alive() {
		t.Errorf("the process file says %s", b)
	}
	if info, err := os.Stat(filepath.Join(dir, "exit.json.tmp")); err != nil || info.Size() < 800 {
		t.Errorf("the room for the exit record: %v, %v", info, err)
	}
}

// TestTasksOfAWorker notices tasks that share a directory, a log or a name.
func TestTasksOfAWorker(t *testing.T) {
	s := container.Settings{ID: container.ID{Job: 1, Attempt: 2, Worker: 3}, User: container.User{UID: 4, GID: 5},
		Tasks: []container.Task{{Name: "a"}}}
	if got := tasksOf("/d", s)[0]; got.dir != "/d" || got.logDir != "/d/log" || got.name != "1.2.3" ||
		got.user.UID != 4 || got.user.GID != 5 || got.state != container.Created {
		t.Errorf("one task: %+v", got)
	}
	s.Tasks = append(s.Tasks, container.Task{Name: "b"})
	for i, name := range []string{"a", "b"} {
		got := tasksOf("/d", s)[i]
		if got.dir != container.TaskDir("/d", i) || got.logDir != "/d/log/"+name || got.name != "1.2.3-"+name {
			t.Errorf("task %s: %+v", name, got)
		}
	}
}
