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
	"github.com/rota-hpc/rota/noded/shim/lifecycle"
)

func TestALeaseThatHasEndedIsNotExtended(t *testing.T) {
	end := container.BootTime() + int64(30*time.Millisecond)
	l, err := watched(end)
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
	l, err := watched(0)
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

// TestALeaseCountsOnTheBootClock notices the planted bug "the lease counts on the monotonic instead
// of the boot clock": such a timer stands still while the machine is suspended, and the worker goes on
// beside the one that has replaced it. The kernel says of a timer which clock it has.
func TestALeaseCountsOnTheBootClock(t *testing.T) {
	l, err := watched(container.BootTime() + int64(time.Hour))
	check(t, err)
	defer l.timer.Close()
	conn, err := l.timer.SyscallConn()
	check(t, err)
	var info []byte
	flags := 0
	check(t, conn.Control(func(fd uintptr) {
		info, err = os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
		flags, _ = unix.FcntlInt(fd, unix.F_GETFD, 0)
	}))
	check(t, err)
	if !strings.Contains(string(info), fmt.Sprintf("\nclockid: %d\n", unix.CLOCK_BOOTTIME)) {
		t.Errorf("the timer's clock:\n%s", info)
	}
	if flags&unix.FD_CLOEXEC == 0 {
		t.Error("a container inherits the timer")
	}
}

// TestALeaseEndsOnTime notices a deadline that is off, that is taken for a length, or that one
// renewal forgets.
func TestALeaseEndsOnTime(t *testing.T) {
	begun := time.Now()
	l, err := watched(container.BootTime() + int64(time.Hour))
	check(t, err)
	defer l.timer.Close()
	check(t, l.renew(container.BootTime()+int64(100*time.Millisecond)))
	select {
	case <-l.ended:
	case <-time.After(10 * time.Second):
		t.Fatal("it does not end")
	}
	if took := time.Since(begun); took < 95*time.Millisecond || took > 5*time.Second {
		t.Errorf("it ended after %v", took)
	}
	check(t, l.timer.Close())
	if err := (&lease{timer: l.timer}).renew(1); err == nil {
		t.Error("a timer that is closed can be set")
	}
}

// TestALeaseThatHasEndedAtOnce notices a deadline in the past that never ends, such as that of a
// worker that is created after a long wait.
func TestALeaseThatHasEndedAtOnce(t *testing.T) {
	l, err := watched(1)
	check(t, err)
	defer l.timer.Close()
	select {
	case <-l.ended:
	case <-time.After(10 * time.Second):
		t.Fatal("it does not end")
	}
}

// watched returns a lease whose end is waited for.
func watched(end int64) (*lease, error) {
	l, err := newLease(end)
	if err == nil {
		l.watch(nil)
	}
	return l, err
}

// TestAnExitBeforeTheLeaseEnds notices a program that has ended by itself, and whose exit counts as that of
// its lease because the shim heard of both at once.
func TestAnExitBeforeTheLeaseEnds(t *testing.T) {
	for _, own := range []bool{true, false} {
		one := &task{TaskState: lifecycle.TaskState{State: container.Exited, Executed: true,
			Exit: container.Exit{Code: 3, Own: own}}}
		sup := &supervisor{expired: true, tasks: []*task{one}}
		if e := sup.exitRecord(); e.Lease == own || e.Code != 3 {
			t.Errorf("own %t: %+v", own, e)
		}
	}
}
