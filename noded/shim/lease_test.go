package shim

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/container"
)

func TestALeaseThatHasEndedIsNotExtended(t *testing.T) {
	end := container.BootTime() + int64(30*time.Millisecond)
	l, err := newLease(end)
	if err != nil {
		t.Fatal(err)
	}
	defer l.timer.Close()
	if err := l.renew(end); err != nil {
		t.Fatalf("one that runs: %v", err)
	}
	for container.BootTime() < end { // like a machine that is suspended: the timer is not read meanwhile
	}
	if err := l.renew(end + int64(time.Hour)); !errors.Is(err, errLeaseOver) {
		t.Errorf("got %v", err)
	}
	select {
	case <-l.ended:
	case <-time.After(10 * time.Second):
		t.Error("its end is never signalled")
	}
}

func TestALeaseOfNoLengthNeverEnds(t *testing.T) {
	l, err := newLease(0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.timer.Close()
	if err := l.renew(container.BootTime() + int64(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := l.renew(0); err != nil {
		t.Fatal(err)
	}
}

// TestALeaseRunsOnTheBootClock notices a lease on the monotonic instead of the boot clock, which
// stands still while the machine is suspended: a job would wake up and run on beside its successor.
// It also notices a timer that a container inherits.
func TestALeaseRunsOnTheBootClock(t *testing.T) {
	end := container.BootTime() + int64(time.Hour)
	l, err := newLease(end)
	if err != nil {
		t.Fatal(err)
	}
	defer l.timer.Close()
	conn, err := l.timer.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = conn.Control(func(fd uintptr) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
		if want := fmt.Sprintf("clockid: %d\n", unix.CLOCK_BOOTTIME); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%v; the timer is %s", err, text)
		}
		if flags, err := unix.FcntlInt(fd, unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("descriptor flags %x, %v", flags, err)
		}
		var left unix.ItimerSpec
		if err := unix.TimerfdGettime(int(fd), &left); err != nil ||
			time.Duration(left.Value.Nano()-end+container.BootTime()).Abs() > time.Minute || left.Interval.Nano() != 0 {
			t.Errorf("left %v, %v", left, err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}
