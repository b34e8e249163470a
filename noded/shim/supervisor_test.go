package shim

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/shim/lifecycle"
)

// TestAWorkerFromCreateToItsRecord notices a job that gets group root, other groups or more
// capabilities than its own, a command that runs before its start, a result that is not the one
// that rota-init reports, and environment that is lost.
func TestAWorkerFromCreateToItsRecord(t *testing.T) {
	w := live(t, nil, script(`echo "ids $(id -u) $(id -g) $(id -G)"
grep -E 'Cap(Eff|Bnd|Prm|Amb)|NoNewPrivs|Groups' /proc/self/status | tr '\t' ' ' | sed 's/ *$//'
echo "path $PATH"
echo error >&2
echo '{"code":7}' >&3
exit 0`))
	time.Sleep(50 * time.Millisecond)
	if out := w.output(""); out != "" {
		t.Errorf("before its start it wrote %q", out)
	}
	if a := w.order(container.Order{Op: container.OpStatus}); a.State != container.Created {
		t.Errorf("before its start: %+v", a)
	}
	e := w.start().end()
	if e.Code != 7 || e.Signal != 0 || e.OOM || e.Lease || e.LogLost != 0 || len(e.Tasks) != 0 || e.Why != "" {
		t.Errorf("exit %+v", e)
	}
	want(t, w.output(""), "ids 23456 23457 23457 24000", "CapEff: 0000000000000000", "CapBnd: 0000000000000000",
		"CapPrm: 0000000000000000", "CapAmb: 0000000000000000", "NoNewPrivs: 1", "Groups: 24000", "path /usr/bin:/bin",
		"error")
}

func TestHowACommandEndsWithoutAResult(t *testing.T) {
	if e := live(t, nil, script("exit 5")).start().end(); e.Code != 5 || e.Signal != 0 {
		t.Errorf("exit 5: %+v", e)
	}
	if e := live(t, nil, script(`echo '{"code":3,"signal":11}' >&3`)).start().end(); e.Code != 0 || e.Signal != 11 {
		t.Errorf("a signal goes before a code: %+v", e)
	}
	w := live(t, nil, script("echo ready; exec sleep 100")).start()
	w.says("", "ready")
	if a := w.order(container.Order{Op: container.OpKill}); a.State != container.Running {
		t.Errorf("kill: %+v", a)
	}
	if e := w.end(); e.Signal != 9 || e.Code != 0 || e.Lease {
		t.Errorf("killed: %+v", e)
	}
}

func TestOrdersOfDaemons(t *testing.T) {
	w := live(t, nil, script(`echo ready; read order <&3; echo "got $order"; exec sleep 100`)).start()
	if a := w.order(container.Order{Op: "dance"}); !strings.Contains(a.Error, `unknown order "dance"`) || a.State != "" {
		t.Errorf("an unknown order: %+v", a)
	}
	w.says("", "ready")
	if a := w.order(container.Order{Op: container.OpSignal, Signal: int(unix.SIGUSR2)}); a.State != container.Running {
		t.Errorf("signal: %+v", a)
	}
	w.says("", `got {"signal":12,"stop":true}`)
	info, err := os.Stat(filepath.Join(w.dir, "shim.sock"))
	check(t, err)
	if info.Mode().Perm() != 0o600 { // others could order the shim to kill
		t.Errorf("its socket has mode %v", info.Mode())
	}
	second := w.dial()
	third := w.dial() // garbage ends the connection that it came from, and no other
	_, err = third.Write([]byte("garbage\n"))
	check(t, err)
	if _, err := bufio.NewReader(third).ReadByte(); err == nil {
		t.Error("garbage is answered")
	}
	answers := bufio.NewReader(second)
	check(t, json.NewEncoder(second).Encode(container.Order{Op: container.OpKill}))
	for _, text := range []string{`"state":"running"`, `"exited":true`} { // each client hears of the end
		if line, err := answers.ReadString('\n'); err != nil || !strings.Contains(line, text) {
			t.Errorf("got %q, %v; not %s", line, err, text)
		}
	}
	w.end()
}

func (w *liveWorker) dial() net.Conn {
	w.t.Helper()
	dir, err := os.Open(w.dir)
	check(w.t, err)
	defer dir.Close()
	c, err := net.Dial("unix", container.SocketAddress(dir))
	check(w.t, err)
	w.t.Cleanup(func() { c.Close() })
	return c
}

// TestTheKillAfterALeaseComesInTime notices a kill that comes ten times too late, one without grace,
// a stop without signal or notice, and a record that does not say that the lease ended it.
func TestTheKillAfterALeaseComesInTime(t *testing.T) {
	const term, grace = 700 * time.Millisecond, 500 * time.Millisecond
	const late = 4 * time.Second // of a busy machine
	w := live(t, func(s *container.Settings) { s.LeaseGrace = grace.Milliseconds() },
		script(`trap '' TERM; echo ready; read order <&3; IFS= read -r n < /run/rota/notice.json
echo "got $order$n"; exec sleep 100`)) // without another program, which would take long on a busy machine
	w.start().says("", "ready")
	begun := time.Now()
	w.renew(term)
	e := w.end()
	took := time.Since(begun)
	if took < term+grace-100*time.Millisecond || took > term+grace+late {
		t.Errorf("it was killed after %v, not %v", took, term+grace)
	}
	if e.Signal != 9 || !e.Lease {
		t.Errorf("exit %+v", e)
	}
	_, text, _ := strings.Cut(w.output(""), `got {"signal":15,"stop":true}`)
	var n container.Notice
	check(t, json.Unmarshal([]byte(text), &n))
	deadline, err := time.Parse(time.RFC3339Nano, n.Deadline)
	check(t, err)
	if off := deadline.Sub(begun.Add(term + grace)); off < -100*time.Millisecond || off > late {
		t.Errorf("the deadline is %v off", off)
	}
	if n.Deadline = ""; n != (container.Notice{Reason: "lease", Attempt: 2, Signal: "SIGTERM"}) {
		t.Errorf("notice %+v", n)
	}
}

// TestALeaseThatEndsBeforeTheStart notices a worker that may still start after its lease.
func TestALeaseThatEndsBeforeTheStart(t *testing.T) {
	w := bundleOf(t, nil, []program{script("echo ran")}).supervised(300 * time.Millisecond)
	w.answer()
	if e := w.end(); e.Signal != 9 || !e.Lease || w.output("") != "" {
		t.Errorf("exit %+v, output %q", e, w.output(""))
	}
}

// TestARenewedLease notices a renewal that is taken for done and not carried out.
func TestARenewedLease(t *testing.T) {
	w := live(t, nil, script("read go <&3; sleep 1; echo '{}' >&3")).start()
	w.renew(600 * time.Millisecond)
	w.renew(time.Hour)
	w.order(container.Order{Op: container.OpSignal, Signal: int(unix.SIGUSR1)})
	if e := w.end(); e.Code != 0 || e.Signal != 0 || e.Lease {
		t.Errorf("exit %+v", e)
	}
}

// renew moves the end of the lease to term from now.
func (w *liveWorker) renew(term time.Duration) {
	w.t.Helper()
	lease := container.BootTime() + int64(term)
	if a := w.order(container.Order{Op: container.OpRenew, Lease: lease}); a.State != container.Running || a.Error != "" {
		w.t.Errorf("renew: %+v", a)
	}
}

// TestWhatCannotBeCreated notices a failed worker that leaves its socket, its identity, its cgroup
// or a process, and an error that is not told.
func TestWhatCannotBeCreated(t *testing.T) {
	base := openTempDir(t)
	for name, c := range map[string]struct {
		says  string
		final bool
		list  []program
	}{
		"no root": {"no such file", false, []program{{script: "true", edit: func(s *specs.Spec) {
			s.Root.Path = "/nowhere"
		}}}},
		"a log that the user may not write": {"permission denied", false, []program{{script: "true",
			Task: container.Task{Log: container.LogFiles{Stdout: filepath.Join(base, "out")}}}}},
		"a secret that is not there": {"secret key: the job's user cannot read " + base + "/none", true, []program{{
			script: "true",
			Task: container.Task{Secrets: []container.Secret{{Name: "key", Source: base + "/none",
				Target: "/run/rota/secrets/key"}}}}}},
		"a secret without a place": {"secret key: write it into the container", false, []program{{script: "true",
			Task: container.Task{Secrets: []container.Secret{{Name: "key", Source: "/etc/passwd",
				Target: "/nowhere/key"}}}}}},
		"a mount that is not the user's": {"changed while it was being mounted at /tmp", false, []program{{
			script: "true", Task: container.Task{Guards: []container.Guard{{Source: base, Target: "/tmp"}}}}}},
		"the second task": {"task two: ", false, []program{hooked("one", "", false, "true"), {script: "true",
			Task: container.Task{Name: "two", Log: container.LogFiles{Stdout: filepath.Join(base, "out")}}}}},
	} {
		w := bundleOf(t, nil, c.list).supervised(0)
		a := w.answer()
		<-w.ended
		if !strings.Contains(a.Error, c.says) || a.Final != c.final || w.err == nil || a.State != "" {
			t.Errorf("%s: answer %+v, error %v", name, a, w.err)
		}
		if left, _ := filepath.Glob(w.dir + "/shim.pid"); len(left) > 0 {
			t.Errorf("%s: %v is left", name, left)
		}
		w.checkNothingIsLeft()
	}
	if left, _ := os.ReadDir(base); len(left) > 0 {
		t.Errorf("root wrote %v", left)
	}
}

// TestTheLifecycleOfTasks notices tasks that run in the wrong order, sidecars that are not stopped or
// stopped too early, and records that lack a task.
func TestTheLifecycleOfTasks(t *testing.T) {
	serve := func(what string) string {
		return `echo ready; read order <&3; echo "` + what + ` got $order"; echo '{"code":0}' >&3`
	}
	w := live(t, nil, hooked("setup", "prestart", false, "echo begun; echo '{}' >&3"),
		hooked("proxy", "prestart", true, serve("proxy")),
		hooked("main", "", false, `echo begun; read order <&3; echo "main got $order"; echo '{"code":85}' >&3`),
		hooked("upload", "poststop", false, "echo begun; echo '{}' >&3"))
	w.start()
	w.says("proxy", "ready")
	w.says("main", "begun")
	w.says("setup", "begun")
	if w.output("upload") != "" {
		t.Error("the poststop task runs beside the main task")
	}
	w.order(container.Order{Op: container.OpSignal, Signal: int(unix.SIGUSR1)})
	w.says("main", `main got {"signal":10,"stop":true}`)
	e := w.end()
	wantTasks := []container.TaskExit{{Name: "setup", Begun: true}, {Name: "proxy", Begun: true},
		{Name: "main", Begun: true, Code: 85}, {Name: "upload", Begun: true}}
	if e.Code != 85 || e.Signal != 0 || !slices.Equal(e.Tasks, wantTasks) || e.Why != "" || e.Lease {
		t.Errorf("exit %+v", e)
	}
	want(t, w.output("proxy"), `proxy got {"signal":15}`)
	want(t, w.output("upload"), "begun")
}

// TestTheEarlySignalStopsNothing notices one that is passed on twice, that sidecars get, or after which
// the worker counts as being stopped.
func TestTheEarlySignalStopsNothing(t *testing.T) {
	w := live(t, nil, hooked("proxy", "prestart", true, `echo ready; read order <&3; echo "got $order"; echo '{}' >&3`),
		hooked("main", "", false, `echo begun; read one <&3; echo "one $one"; read two <&3; echo "two $two"
			echo '{"code":85}' >&3`)).start()
	w.says("proxy", "ready")
	w.says("main", "begun")
	early := container.Order{Op: container.OpSignal, Signal: int(unix.SIGUSR1), To: "script", Early: true}
	w.order(early)
	w.says("main", `one {"signal":10,"to":"script"}`)
	w.order(early) // of a daemon that does not know that it was sent
	w.order(container.Order{Op: container.OpSignal, Signal: int(unix.SIGUSR2)})
	w.says("main", `two {"signal":12,"stop":true}`)
	if e := w.end(); e.Code != 85 || e.Signal != 0 {
		t.Errorf("exit %+v", e)
	}
	want(t, w.output("proxy"), `got {"signal":15}`)
}

// TestAPlainSignalStopsNothing notices one that sidecars get, that is sent once only, or after which the
// worker counts as being stopped.
func TestAPlainSignalStopsNothing(t *testing.T) {
	w := live(t, nil, hooked("proxy", "prestart", true, `echo ready; read order <&3; echo "got $order"; echo '{}' >&3`),
		hooked("main", "", false, `echo begun; read one <&3; echo "one $one"; read two <&3; echo "two $two"
			echo '{"code":3}' >&3`)).start()
	w.says("proxy", "ready")
	w.says("main", "begun")
	plain := container.Order{Op: container.OpPlainSignal, Signal: int(unix.SIGUSR1), To: "programs"}
	w.order(plain)
	w.says("main", `one {"signal":10,"to":"programs"}`)
	w.order(plain)
	w.says("main", `two {"signal":10,"to":"programs"}`)
	if e := w.end(); e.Code != 3 || e.Signal != 0 {
		t.Errorf("exit %+v", e)
	}
	want(t, w.output("proxy"), `got {"signal":15}`)
	sup := &supervisor{tasks: []*task{{TaskState: lifecycle.TaskState{State: container.Exited}}}}
	if err := sup.signalMain(unix.SIGUSR1, ""); !errors.Is(err, errNothingRuns) {
		t.Errorf("a signal that no task gets: %v", err)
	}
}

// TestATaskThatDoesNotStopIsKilled notices a kill timeout of tasks that is not kept.
func TestATaskThatDoesNotStopIsKilled(t *testing.T) {
	deaf := hooked("deaf", "", false, "echo ready; exec sleep 100")
	deaf.KillTimeout = 300
	w := live(t, nil, hooked("fails", "", false, "read x <&3; exit 3"), deaf).start()
	w.says("deaf", "ready")
	begun := time.Now()
	w.order(container.Order{Op: container.OpSignal, Signal: int(unix.SIGUSR1)}) // upon it one fails
	e := w.end()
	if took := time.Since(begun); took < 250*time.Millisecond || took > 10*time.Second {
		t.Errorf("it was killed after %v", took)
	}
	if e.Code != 3 || e.Signal != 0 || e.Tasks[1].Signal != 9 {
		t.Errorf("exit %+v", e)
	}
}

// TestAFailedSetUp notices a worker that goes on although its prestart task failed.
func TestAFailedSetUp(t *testing.T) {
	w := live(t, nil, hooked("setup", "prestart", false, "exit 4"), hooked("main", "", false, "echo ran")).start()
	e := w.end()
	if e.Code != 4 || e.Why != "its prestart task setup ended with exit code 4" || w.output("main") != "" ||
		e.Tasks[1].Begun {
		t.Errorf("exit %+v", e)
	}
}

// TestStopSignals notices sidecars that get the signal of the main tasks.
func TestStopSignals(t *testing.T) {
	state := func(p program, kill unix.Signal) *task {
		p.KillSignal = int(kill)
		return &task{TaskState: lifecycle.TaskState{Task: p.Task, State: container.Running}}
	}
	leader := script("")
	leader.Leader = true
	tasks := []*task{state(leader, unix.SIGINT), state(script(""), unix.SIGQUIT),
		state(hooked("p", "poststart", false, ""), unix.SIGHUP)}
	for s, wanted := range map[unix.Signal][]unix.Signal{
		unix.SIGUSR1: {unix.SIGUSR1, unix.SIGUSR1, unix.SIGHUP}, // one to save state: for the main tasks
		unix.SIGINT:  {unix.SIGINT, unix.SIGQUIT, unix.SIGHUP},  // the one that ends the leader: each gets its own
	} {
		sup := &supervisor{tasks: tasks, shared: &sharedResources{}}
		alone := &supervisor{tasks: tasks[:1]}
		for i, one := range tasks {
			if got := sup.stopSignal(one, s); got != wanted[i] {
				t.Errorf("%v: task %d gets %v, not %v", s, i, got, wanted[i])
			}
		}
		if got := alone.stopSignal(tasks[0], s); got != s {
			t.Errorf("a single task gets %v for %v", got, s)
		}
	}
	if got := (&lifecycle.TaskState{}).StopSignal(); got != unix.SIGTERM {
		t.Errorf("by default %v", got)
	}
}

// TestProgressFilesAreTrimmed notices a progress file that may fill the disk, one that is emptied too
// early, and one that is reached through a link.
func TestProgressFilesAreTrimmed(t *testing.T) {
	base := t.TempDir()
	sup := &supervisor{}
	sizes := []int64{progressMax, progressMax + 1, 0}
	for i, size := range sizes {
		dir := filepath.Join(base, fmt.Sprint(i))
		check(t, os.MkdirAll(filepath.Dir(container.ProgressPath(dir)), 0o755))
		sup.tasks = append(sup.tasks, &task{dir: dir})
		if i < 2 {
			check(t, os.WriteFile(container.ProgressPath(dir), nil, 0o600))
			check(t, os.Truncate(container.ProgressPath(dir), size))
		}
	}
	check(t, os.WriteFile(base+"/victim", nil, 0o600))
	check(t, os.Truncate(base+"/victim", progressMax+1))
	check(t, os.Symlink(base+"/victim", container.ProgressPath(sup.tasks[2].dir)))
	sup.trimProgress()
	for path, size := range map[string]int64{container.ProgressPath(sup.tasks[0].dir): progressMax,
		container.ProgressPath(sup.tasks[1].dir): 0, base + "/victim": progressMax + 1} {
		if info, err := os.Stat(path); err != nil || info.Size() != size {
			t.Errorf("%s has %d bytes, not %d", path, info.Size(), size)
		}
	}
}

// TestASupervisorNeedsSettings notices a damaged bundle that is taken for a worker.
func TestASupervisorNeedsSettings(t *testing.T) {
	if _, err := newSupervisor(container.Order{Op: container.OpCreate, Dir: t.TempDir()}); err == nil {
		t.Error("a directory without settings has a supervisor")
	}
	for _, c := range []struct {
		exit container.Exit
		says string
	}{{container.Exit{Code: 3}, "exit code 3"}, {container.Exit{Signal: 9}, "SIGKILL"}} {
		if got := exitText(c.exit); got != c.says {
			t.Errorf("got %q", got)
		}
	}
}

// TestTasksShareWhatAWorkerHas notices tasks with IPC of their own, limits of the worker that are
// not set, and a task's device rules that the parent overrides.
func TestTasksShareWhatAWorkerHas(t *testing.T) {
	say := `stat -L -c 'ipc %i' /proc/self/ns/ipc; echo '{}' >&3`
	w := bundleOf(t, nil, []program{hooked("one", "", false, say), hooked("two", "", false, say)})
	limit := int64(77)
	raw, err := json.Marshal(specs.LinuxResources{Pids: &specs.LinuxPids{Limit: &limit}})
	check(t, err)
	check(t, os.WriteFile(container.LimitsPath(w.dir), raw, 0o600))
	w.supervised(0)
	if a := w.answer(); a.Error != "" {
		t.Fatal(a.Error)
	}
	files, _ := filepath.Glob("/sys/fs/cgroup/pids" + w.cgroup + "/pids.max")
	v2, _ := filepath.Glob("/sys/fs/cgroup" + w.cgroup + "/pids.max")
	for _, file := range append(files, v2...) {
		if b, err := os.ReadFile(file); err != nil || string(b) != "77\n" {
			t.Errorf("%s holds %q, %v", file, b, err)
		}
	}
	if len(files)+len(v2) == 0 {
		t.Error("the worker has no cgroup")
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil || !strings.Contains(string(mounts), " "+container.ShmDir(w.dir)+" tmpfs ") {
		t.Error("the tasks' shared memory is not mounted")
	}
	w.start().end()
	if one, two := w.output("one"), w.output("two"); one == "" || one != two {
		t.Errorf("%q and %q", one, two)
	}
	own, err := os.Stat("/proc/self/ns/ipc")
	check(t, err)
	if w.output("one") == fmt.Sprintf("ipc %d\n", own.Sys().(*syscall.Stat_t).Ino) {
		t.Error("they have the machine's IPC")
	}
}

// TestATaskThatIsLostBeforeItsStart notices a worker that waits for a start although one of its
// containers has died.
func TestATaskThatIsLostBeforeItsStart(t *testing.T) {
	w := bundleOf(t, nil, []program{script("echo ran")}).supervised(0)
	a := w.answer()
	check(t, unix.Kill(a.Pid, unix.SIGKILL))
	if e := w.end(); e.Signal != 9 || w.output("") != "" {
		t.Errorf("exit %+v", e)
	}
}

// TestStopsOfSeveralTasks notices poststop tasks that a stop forgets, and prestart tasks that begin after it.
func TestStopsOfSeveralTasks(t *testing.T) {
	w := live(t, nil, hooked("main", "", false, `echo ready; read o <&3; echo '{"code":143}' >&3`),
		hooked("side", "poststart", true, `echo ready; read o <&3; echo "got $o"`),
		hooked("last", "poststop", false, "echo ran; echo '{\"code\":0}' >&3")).start()
	w.says("main", "ready")
	w.says("side", "ready")
	w.order(container.Order{Op: container.OpSignal, Signal: int(unix.SIGTERM)})
	e := w.end()
	if e.Code != 143 || w.output("last") != "ran\n" || !strings.Contains(w.output("side"), `got {"signal":15}`) {
		t.Errorf("exit %+v, last %q, side %q", e, w.output("last"), w.output("side"))
	}
	w = live(t, nil, hooked("main", "", false, "echo ready; exec sleep 100"), hooked("last", "poststop", false,
		"echo ran"))
	w.start().says("main", "ready")
	w.order(container.Order{Op: container.OpKill})
	if e := w.end(); e.Signal != 9 || w.output("last") != "" || e.Tasks[1].Begun {
		t.Errorf("killed: %+v", e)
	}
}

// TestTheEndOfTheProgressStays: the progress of a worker is in memory while it runs, and its last
// megabyte is left where the node daemon reads it, at the place in the file where it was.
func TestTheEndOfTheProgressStays(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root mounts")
	}
	dir := t.TempDir()
	path := container.ProgressPath(dir)
	check(t, os.MkdirAll(filepath.Dir(path), 0o755))
	check(t, os.WriteFile(path, nil, 0o600))
	user := container.User{UID: 65534, GID: 65534}
	check(t, container.MountProgress(dir, user))
	t.Cleanup(func() { check(t, container.EndProgress(dir)) })
	if err := os.WriteFile(path, make([]byte, 200<<20), 0); err == nil {
		t.Error("200 MiB of progress were written")
	}
	text := strings.Repeat("x", 3<<20) + "the end"
	check(t, os.WriteFile(path, []byte(text), 0))
	check(t, container.EndProgress(dir))
	got, err := os.ReadFile(path)
	if err != nil || len(got) != len(text) || !strings.HasSuffix(string(got), "xxxthe end") || got[0] != 0 {
		t.Errorf("%d bytes are left, %v", len(got), err)
	}
	var disk unix.Statfs_t
	check(t, unix.Statfs(filepath.Dir(path), &disk))
	if disk.Type == unix.TMPFS_MAGIC && disk.Blocks*uint64(disk.Bsize) <= 200<<20 {
		t.Error("the directory in memory is still there")
	}
}
