package shim

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/container"
)

// lease is a deadline on CLOCK_BOOTTIME, which goes on while the machine is suspended. The
// supervisor stops its worker when the deadline passes (stopExpired).
type lease struct {
	timer *os.File
	end   int64         // the deadline in nanoseconds; 0: none
	ended chan struct{} // gets a value each time the deadline passes
}

// newLease returns a lease with a deadline in nanoseconds; 0 is none.
func newLease(end int64) (*lease, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("make a timer for the lease: %w", err)
	}
	l := &lease{timer: os.NewFile(uintptr(fd), "lease"), ended: make(chan struct{}, 1)}
	if err := l.renew(end); err != nil {
		return nil, err
	}
	return l, nil
}

// watch waits for the end of the lease. It tells the loop, and calls a function the first time.
func (l *lease) watch(first func()) {
	go func() {
		var count [8]byte
		for {
			if _, err := l.timer.Read(count[:]); err != nil {
				return
			}
			if first != nil {
				first()
				first = nil
			}
			select {
			case l.ended <- struct{}{}:
			default:
			}
		}
	}()
}

var errLeaseOver = errors.New("the lease has ended already; the container is being stopped")

// renew moves the deadline of the lease. A deadline that has passed stays: after
// the machine was suspended, the order to renew may arrive before the timer fires.
func (l *lease) renew(end int64) error {
	if l.end > 0 && container.BootTime() >= l.end {
		return errLeaseOver
	}
	conn, err := l.timer.SyscallConn()
	if err != nil {
		return err
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(end, 0))}
	var setErr error
	err = conn.Control(func(fd uintptr) { setErr = unix.TimerfdSettime(int(fd), unix.TFD_TIMER_ABSTIME, &spec, nil) })
	if err == nil {
		err = setErr
	}
	if err != nil {
		return fmt.Errorf("set the lease: %w", err)
	}
	l.end = end
	return nil
}

// extend moves the deadline of a lease later. Without a lease, and to an earlier deadline, it does nothing.
func (l *lease) extend(end int64) error {
	if l.end == 0 || end <= l.end {
		return nil
	}
	return l.renew(end)
}
