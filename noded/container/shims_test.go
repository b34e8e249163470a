package container

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// sleeper starts a process that ends only when it is killed. The channel is closed when it has.
func sleeper(t *testing.T) (<-chan struct{}, Process) {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", "trap '' TERM INT HUP; echo; exec sleep 1000")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	p, err := FindProcess(cmd.Process.Pid)
	go func() { // reaped at once: a zombie is a process too
		_ = cmd.Wait()
		close(ended)
	}()
	if err != nil {
		t.Fatal(err)
	}
	return ended, p
}

// TestWhatADaemonFindsAfterARestart notices a container that is forgotten, an end that is lost, and
// a shim that died while it created one and is taken for a container.
func TestWhatADaemonFindsAfterARestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "containers")
	_, alive := sleeper(t)
	dead := alive
	dead.Start++ // another process has its number
	for name, c := range map[string]struct {
		process *Process
		exit    *Exit
		socket  bool
	}{
		"1.1.0": {&dead, &Exit{Code: 7}, false}, "2.1.0": {&dead, nil, true}, "3.1.0": {&dead, nil, false},
		"4.1.0": {nil, nil, false}, "5.1.0": {nil, &Exit{Code: 7}, false}, "other": {&dead, &Exit{}, false},
		"6.1.0": {&dead, &Exit{Signal: 9, Lease: true}, true},
	} {
		at := filepath.Join(dir, name)
		errs := []error{os.MkdirAll(at, 0o755)}
		if c.process != nil {
			errs = append(errs, WriteProcess(at, *c.process))
		}
		if c.exit != nil {
			errs = append(errs, WriteExit(at, *c.exit))
		}
		if c.socket {
			errs = append(errs, os.WriteFile(filepath.Join(at, socketFile), nil, 0o600))
		}
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	s, err := NewShims(Config{Dir: dir, ShimPath: "/bin/true"})
	if err != nil {
		t.Fatal(err)
	}
	list, err := s.List(t.Context())
	if err != nil || len(list) != 3 {
		t.Fatalf("got %+v, %v", list, err)
	}
	if one := list[0]; one.ID != (ID{Job: 1, Attempt: 1}) || one.State != Exited || one.Exit.Code != 7 {
		t.Errorf("an ended container: %+v", one)
	}
	if two := list[1]; two.ID != (ID{Job: 2, Attempt: 1}) || two.State != Lost ||
		!strings.Contains(two.Why, "without leaving") {
		t.Errorf("a container whose shim died: %+v", two)
	}
	if six := list[2]; six.State != Exited || six.Exit.Signal != 9 || !six.Exit.Lease {
		t.Errorf("a container whose lease ended: %+v", six)
	}
	if _, err := os.Lstat(filepath.Join(dir, "3.1.0", pidFile)); !os.IsNotExist(err) {
		t.Errorf("what was never created is left: %v", err)
	}
	if err := s.Start(t.Context(), ID{Job: 3, Attempt: 1}); !errors.Is(err, ErrUnknown) {
		t.Errorf("start of a container that does not exist: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	fresh := filepath.Join(dir, "fresh")
	if _, err := NewShims(Config{Dir: fresh, ShimPath: "/bin/true"}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(fresh); err != nil || info.Mode().Perm()&0o066 != 0 { // others may not list it
		t.Errorf("%v, %v", info, err)
	}
}

// TestRemoveKeepsLogs notices a removal that takes the log along, that takes a live container, or
// that leaves what others may still find.
func TestRemoveKeepsLogs(t *testing.T) {
	dir := t.TempDir()
	s, err := NewShims(Config{Dir: dir, ShimPath: "/bin/true"})
	if err != nil {
		t.Fatal(err)
	}
	id := ID{Job: 1, Attempt: 1}
	at := s.Path(id)
	fill := func() {
		err := errors.Join(WriteBundle(at, Bundle{Settings: Settings{Tasks: []Task{{}}}, Tasks: []TaskBundle{{}}}),
			os.MkdirAll(LogDir(at), 0o755), os.WriteFile(filepath.Join(LogDir(at), "stdout"), nil, 0o600))
		if err != nil {
			t.Fatal(err)
		}
	}
	fill()
	l := newShimLink(id, at, Process{}, func(ID) {})
	s.links[id] = l
	if err := s.Remove(t.Context(), id); !errors.Is(err, ErrLive) {
		t.Errorf("a live container: %v", err)
	}
	if _, err := ReadSettings(at); err != nil {
		t.Errorf("a live container lost its settings: %v", err)
	}
	close(l.done)
	for range 2 { // it may be called again
		if err := s.Remove(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	left, err := filepath.Glob(filepath.Join(at, "*"))
	if err != nil || len(left) != 1 || left[0] != LogDir(at) {
		t.Errorf("left: %v, %v", left, err)
	}
	if list, _ := s.List(t.Context()); len(list) != 0 {
		t.Errorf("listed: %+v", list)
	}
	if err := errors.Join(os.RemoveAll(LogDir(at)), s.Remove(t.Context(), id)); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(at); !os.IsNotExist(err) {
		t.Errorf("an empty directory is left: %v", err)
	}
}

// TestAUselessShimIsKilled notices a shim that lives on without its daemon knowing it: its container
// would run beside the next attempt.
func TestAUselessShimIsKilled(t *testing.T) {
	ended, p := sleeper(t)
	l := newShimLink(ID{}, t.TempDir(), p, func(ID) {})
	l.markEnded()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("it lives")
	}
	if s := l.status(); s.State != Lost {
		t.Errorf("the container is %s", s.State)
	}
}

// TestAnEndIsForGood notices a late answer that makes a container run again.
func TestAnEndIsForGood(t *testing.T) {
	dir := t.TempDir()
	if err := WriteExit(dir, Exit{Code: 4}); err != nil {
		t.Fatal(err)
	}
	l := newShimLink(ID{}, dir, Process{}, func(ID) {})
	l.updateStatus(Answer{State: Running, Pid: 5})
	if s := l.status(); s.State != Running || s.Pid != 5 || l.hasEnded() {
		t.Errorf("before: %+v", s)
	}
	l.markEnded()
	l.updateStatus(Answer{State: Running, Pid: 5})
	if s := l.status(); s.State != Exited || s.Exit.Code != 4 || !l.hasEnded() {
		t.Errorf("after: %+v", s)
	}
	if err := l.send(t.Context(), Order{Op: OpKill}); err != nil {
		t.Errorf("an order to what has ended: %v", err)
	}
}

// TestWhatALostShimHasCounted notices use beside a worker that is forgotten with its shim, and one that is told
// beside an exit record, which has its own.
func TestWhatALostShimHasCounted(t *testing.T) {
	spent := Spent{UserMS: 1, SystemMS: 2, PeakMem: 3}
	for _, recorded := range []bool{false, true} {
		dir := t.TempDir()
		if recorded {
			check(t, WriteExit(dir, Exit{Extern: Spent{UserMS: 9}}))
		}
		l := newShimLink(ID{}, dir, Process{}, func(ID) {})
		l.updateStatus(Answer{State: Running, Extern: spent})
		if got := l.status().Extern; got != spent {
			t.Errorf("while it runs %+v", got)
		}
		l.markEnded()
		switch s := l.status(); {
		case recorded && (s.Extern != Spent{} || s.Exit.Extern != Spent{UserMS: 9}):
			t.Errorf("with a record %+v, %+v", s.Extern, s.Exit)
		case !recorded && (s.State != Lost || s.Extern != spent):
			t.Errorf("without a record %+v", s)
		}
	}
}

// TestErrorsOfAShimAreWhole notices an error that loses its mark, so that a job is tried again for
// ever, or that gets one, so that it is not tried again at all.
func TestErrorsOfAShimAreWhole(t *testing.T) {
	for text, final := range map[string]bool{`{"error":"no","final":true}`: true, `{"error":"no"}`: false} {
		l, shim, orders := talk(t)
		go func() {
			_, _ = orders.ReadBytes('\n')
			_, _ = shim.Write([]byte(text + "\n"))
		}()
		if err := l.send(t.Context(), Order{Op: OpStart}); err == nil || err.Error() != "no" || IsFinal(err) != final {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestADetachedContainerIsNotLost notices a daemon that ends containers when it stops.
func TestADetachedContainerIsNotLost(t *testing.T) {
	_, p := sleeper(t)
	l, shim, _ := talk(t)
	l.process = p
	l.detach()
	if _, err := shim.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is open")
	}
	time.Sleep(50 * time.Millisecond) // for a reader that would end it
	if s := l.status(); s.State != Running || l.hasEnded() || !p.Alive() {
		t.Errorf("the container is %+v", s)
	}
}

// TestTheWholeMachineIsNoCgroup notices a sweep that would end every process of the machine.
func TestTheWholeMachineIsNoCgroup(t *testing.T) {
	for _, path := range []string{"", "/"} {
		if dirs := cgroupDirs(path); len(dirs) != 0 {
			t.Errorf("%q: %v", path, dirs)
		}
	}
}

// TestASweepEndsEveryProcess notices a sweep that only asks, and a cgroup that is left.
func TestASweepEndsEveryProcess(t *testing.T) {
	name := "/rota-test-sweep-" + strconv.Itoa(os.Getpid())
	base := cgroupMount + "/pids"
	if !isDir(base) {
		base = cgroupMount
	}
	if err := os.MkdirAll(base+name+"/task", 0o755); err != nil {
		t.Skipf("no cgroup can be made here: %v", err)
	}
	t.Cleanup(func() { _ = errors.Join(os.Remove(base+name+"/task"), os.Remove(base+name)) })
	_, p := sleeper(t)
	if err := os.WriteFile(base+name+"/task/cgroup.procs", strconv.AppendInt(nil, int64(p.Pid), 10), 0); err != nil {
		t.Skipf("no process can be put into it: %v", err)
	}
	if err := sweepCgroup(name); err != nil || p.Alive() || isDir(base+name) {
		t.Errorf("%v; its process lives: %v", err, p.Alive())
	}
}

// TestASweepEndsWhatIsFrozen notices a sweep that waits for a process that cannot run.
func TestASweepEndsWhatIsFrozen(t *testing.T) {
	dir, file, freeze, events, frozen := cgroupMount+"/freezer", "freezer.state", "FROZEN", "freezer.state", "FROZEN\n"
	if !isDir(dir) {
		dir, file, freeze, events, frozen = cgroupMount, "cgroup.freeze", "1", "cgroup.events", "frozen 1\n"
	}
	name := "/rota-test-frozen-" + strconv.Itoa(os.Getpid())
	dir += name
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Skipf("no cgroup can be made here: %v", err)
	}
	t.Cleanup(func() { _ = os.Remove(dir) })
	_, p := sleeper(t)
	err := errors.Join(os.WriteFile(filepath.Join(dir, "cgroup.procs"), strconv.AppendInt(nil, int64(p.Pid), 10), 0),
		os.WriteFile(filepath.Join(dir, file), []byte(freeze), 0))
	if err != nil {
		t.Skipf("no process can be frozen here: %v", err)
	}
	t.Cleanup(func() { thaw(dir) })
	for deadline := time.Now().Add(20 * time.Second); ; {
		b, err := os.ReadFile(filepath.Join(dir, events))
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("it was not frozen: %q, %v", b, err)
		}
		if strings.Contains(string(b), frozen) {
			break
		}
	}
	if err := sweepCgroup(name); err != nil || p.Alive() || isDir(dir) {
		t.Errorf("%v; its process lives: %v", err, p.Alive())
	}
}

// TestTheShimsCopyCannotChange notices a program in memory that a job, or another process, could
// write to before root runs it again.
func TestTheShimsCopyCannotChange(t *testing.T) {
	f, err := sealedCopy("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want := unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	if seals, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0); err != nil || seals != want {
		t.Errorf("seals %x, %v", seals, err)
	}
	if info, err := f.Stat(); err != nil || info.Mode().Perm() != 0o511 {
		t.Errorf("%v, %v", info, err)
	}
	if flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("descriptor flags %x, %v", flags, err)
	}
	p := &pool{cfg: Config{ShimPath: "/bin/true"}, image: f}
	ours, theirs, err := SocketPair()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	defer theirs.Close()
	if cmd := p.command(theirs); !cmd.SysProcAttr.Setsid || cmd.Dir != "/" || len(cmd.ExtraFiles) != 1 {
		t.Errorf("the shim is started as %+v", cmd)
	}
	conn, err := theirs.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = conn.Control(func(fd uintptr) {
		if flags, err := unix.FcntlInt(fd, unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("the socket is inherited by others: %x, %v", flags, err)
		}
	})
	if err != nil {
		t.Error(err)
	}
}

// TestAClosedPoolKeepsNoShim notices shims that wait for a daemon that is gone.
func TestAClosedPoolKeepsNoShim(t *testing.T) {
	p := &pool{cfg: Config{ShimPath: "/bin/cat"}, ready: make(chan *shimProcess, 1)}
	p.close()
	p.startAnother()
	p.starting.Wait()
	if len(p.ready) != 0 {
		t.Error("a shim waits")
	}
}
