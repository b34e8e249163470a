package container

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// envClock makes the test program print the time that leases are measured by.
const envClock = "ROTA_TEST_CLOCK"

// TestTheBootClockIsRead notices a lease on the monotonic instead of the boot clock, which stands
// still while the machine is suspended. A time namespace moves the boot clock alone, as sleep does.
func TestTheBootClockIsRead(t *testing.T) {
	if os.Getenv(envClock) != "" {
		t.Logf("clock %d", BootTime())
		return
	}
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		t.Skip("unshare is not installed")
	}
	const asleep = 100_000 // seconds
	cmd := exec.Command(unshare, "--time", "--boottime", strconv.Itoa(asleep), "--fork", os.Args[0],
		"-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), envClock+"=1")
	out, err := cmd.CombinedOutput()
	_, text, ok := strings.Cut(string(out), "clock ")
	if err != nil || !ok {
		t.Skipf("no time namespace can be made here: %v %s", err, out)
	}
	text, _, _ = strings.Cut(text, "\n")
	there, err := strconv.ParseInt(text, 10, 64)
	if ahead := time.Duration(there - BootTime()); err != nil || (ahead-asleep*time.Second).Abs() > time.Minute {
		t.Errorf("a machine that slept for %d s has its clock %v ahead", asleep, ahead)
	}
}

// TestDeadlinesAreOnTheBootClock notices a lease that is too long or too short by its conversion, and
// a lease without an end that becomes one that has ended.
func TestDeadlinesAreOnTheBootClock(t *testing.T) {
	if got := bootDeadline(time.Time{}); got != 0 {
		t.Errorf("no deadline becomes %d", got)
	}
	for _, left := range []time.Duration{-time.Hour, time.Minute, 24 * time.Hour} {
		got := time.Duration(bootDeadline(time.Now().Add(left)) - BootTime())
		if (got - left).Abs() > time.Second {
			t.Errorf("%v become %v", left, got)
		}
		o := renewal(time.Now().Add(left))
		if o.Op != OpRenew || (time.Duration(o.Lease-BootTime())-left).Abs() > time.Second {
			t.Errorf("renewal %+v", o)
		}
	}
}

// TestAProcessIsKnownByMoreThanItsNumber notices a process that is taken for another one with the
// same number, one of an earlier boot, or one that is dead and not reaped yet.
func TestAProcessIsKnownByMoreThanItsNumber(t *testing.T) {
	child := exec.Command("sleep", "1000")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := FindProcess(child.Process.Pid)
	if err != nil || !p.Alive() || p.Start == 0 || len(p.BootID) != 36 {
		t.Errorf("got %+v, %v", p, err)
	}
	for name, other := range map[string]Process{
		"start": {p.Pid, p.Start + 1, p.BootID}, "boot": {p.Pid, p.Start, "x" + p.BootID[1:]},
		"number": {os.Getpid(), p.Start, p.BootID}, "none": {},
	} {
		if other.Alive() {
			t.Errorf("another %s: alive", name)
		}
	}
	dir := t.TempDir()
	if err := WriteProcess(dir, p); err != nil {
		t.Fatal(err)
	}
	if got, err := readProcess(dir); err != nil || got != p {
		t.Errorf("read %+v, %v", got, err)
	}
	if info, err := os.Stat(filepath.Join(dir, pidFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	err = errors.Join(child.Process.Kill(), unix.Waitid(unix.P_PID, p.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil))
	if err != nil {
		t.Fatal(err)
	}
	if p.Alive() {
		t.Error("a process that waits to be reaped is alive")
	}
	_ = child.Wait() // it was killed
	if err := errors.Join(RemoveProcess(dir), RemoveProcess(dir)); err != nil {
		t.Error(err)
	}
	if _, err := readProcess(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after it was removed: %v", err)
	}
}

// TestExitRecords notices a record that a full disk can lose, that is half written, or that others
// may change.
func TestExitRecords(t *testing.T) {
	dir := t.TempDir()
	if _, err := ReadExit(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a record: %v", err)
	}
	for tasks, room := range map[int]int64{1: 832, 3: 1216} {
		if err := ReserveExit(dir, tasks); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(filepath.Join(dir, "exit.json.tmp")); err != nil || info.Size() < room {
			t.Errorf("%d tasks: %v, %v", tasks, info, err)
		}
	}
	if _, err := ReadExit(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the room is a record: %v", err)
	}
	if err := WriteExit(dir, Exit{Code: 3, Lease: true, Ended: 5}); err != nil {
		t.Fatal(err)
	}
	if e, err := ReadExit(dir); err != nil || e.Code != 3 || !e.Lease || e.Ended != 5 {
		t.Errorf("got %+v, %v", e, err)
	}
	if info, err := os.Stat(filepath.Join(dir, exitFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if err := os.WriteFile(filepath.Join(dir, exitFile), []byte(`{"code":3`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadExit(dir); err == nil || errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("half a record: %v", err)
	}
}

// TestAnExitThatIsNotWrittenIsAnError notices a report that is lost without a word.
func TestAnExitThatIsNotWrittenIsAnError(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, exitFile, "in"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := WriteExit(dir, Exit{}); err == nil {
		t.Error("where it cannot be renamed")
	}
	if err := WriteExit(filepath.Join(dir, "none"), Exit{}); err == nil {
		t.Error("where there is no directory")
	}
	if err := ReserveExit(filepath.Join(dir, "none"), 1); err == nil {
		t.Error("room where there is no directory")
	}
}

// TestErrorsThatStay notices a failure of one machine that fails a job everywhere, and a missing
// file that is tried again for ever.
func TestErrorsThatStay(t *testing.T) {
	dir := t.TempDir()
	for path, c := range map[string]struct {
		err  error
		want bool
	}{
		dir + "/none": {os.ErrNotExist, true}, dir + "/none/deep": {os.ErrNotExist, false},
		dir + "/closed": {os.ErrPermission, true}, dir + "/file/x": {unix.ENOTDIR, true},
		dir + "/stale": {unix.ESTALE, false}, dir + "/broken": {unix.EIO, false},
	} {
		err := FinalAt(path, c.err)
		if IsFinal(err) != c.want || !errors.Is(err, c.err) || err.Error() != c.err.Error() {
			t.Errorf("%s: %v, final %v", path, err, IsFinal(err))
		}
	}
}

func TestIDs(t *testing.T) {
	for text, want := range map[string]bool{
		"1.2.3": true, "0.0.0": true, "1.2": false, "1.2.3.4": false, "01.2.3": false, "1.2.3x": false, " 1.2.3": false,
		"": false, "../1.2.3": false, "1.2.+3": false, "1.2.3-s0": true, "1.2.3-s12": true, "1.2.3-s": false,
		"1.2.3-s-1": false, "1.2.3-s01": false, "1.2.3-s1x": false, "1.2.3-t1": false,
	} {
		if id, ok := ParseID(text); ok != want || ok && id.String() != text {
			t.Errorf("%q: %v, %v", text, id, ok)
		}
	}
	ordered := []ID{{1, 1, 1, 0}, {1, 1, 1, 1}, {1, 1, 2, 0}, {1, 2, 0, 0}, {2, 0, 0, 0}}
	for i, a := range ordered {
		for k, b := range ordered {
			if got := a.Compare(b); (got < 0) != (i < k) || (got == 0) != (i == k) {
				t.Errorf("%v and %v: %d", a, b, got)
			}
		}
	}
}

// TestASocketThatIsFoundTakesConnections notices a socket that has its name before it takes
// connections: a node daemon that comes back at that moment would kill a shim that is alive.
func TestASocketThatIsFoundTakesConnections(t *testing.T) {
	dir, err := os.Open(t.TempDir())
	check(t, err)
	defer dir.Close()
	for round := range 2000 {
		found := make(chan error, 1)
		go func() {
			for {
				_, err := os.Lstat(SocketAddress(dir))
				if err == nil {
					c, err := net.Dial("unix", SocketAddress(dir))
					if err == nil {
						c.Close()
					}
					found <- err
					return
				}
			}
		}()
		l, err := ListenSocket(dir.Name())
		check(t, err)
		if err := <-found; err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		check(t, errors.Join(l.Close(), RemoveSocket(dir.Name())))
	}
}
