package container

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// # Shims that do not answer
//
// A shim may be slow: its machine thrashes, or its disk hangs. Its job goes on, and is not killed for that.
// The daemon gives up the connection, tries to reach the shim again, and says so meanwhile
// ([Status.Silent]). It takes the shim for dead only when its process is gone (by number and start time), and
// the container for ended only when no process is left in its cgroup.
//
// What the controllers or an admin want ended is ended all the same: Kill ends the processes of the
// container by their cgroup, and if the shim then leaves no record, the shim too.

// Times of shims that do not answer.
const (
	// reachLeast and reachMost bound the pause between two tries to connect
	reachLeast, reachMost = 10 * time.Millisecond, time.Second
	// startPatience is how long a daemon that starts waits for the shims before it goes on without their answers
	startPatience       = 2 * time.Second
	defaultKillPatience = 10 * time.Second
)

// silentError is why no order reaches the shim; nil if one may. The mutex is held.
func (l *shimLink) silentError() error {
	if l.silent.IsZero() {
		return nil
	}
	return fmt.Errorf("its shim, process %d, has not answered since %s", l.process.Pid, l.silent.Format(time.TimeOnly))
}

// reach waits until a shim answers or has ended. It is never taken for dead while its process exists.
func (l *shimLink) reach() {
	for wait := reachLeast; ; wait = min(2*wait, reachMost) {
		if l.gone() {
			l.markEnded()
			l.settle()
			l.changed(l.id)
			return
		}
		if l.tryReach() {
			l.settle()
			l.changed(l.id)
			return
		}
		select {
		case <-l.stopped:
			return
		case <-time.After(wait):
		}
	}
}

// gone reports whether a shim has left its exit record, or was killed without leaving one.
func (l *shimLink) gone() bool {
	_, err := os.Lstat(exitPath(l.dir))
	return err == nil || !l.process.Alive()
}

// settle notes that it is known how far the container has come.
func (l *shimLink) settle() {
	select {
	case <-l.settled:
	default:
		close(l.settled)
	}
}

// tryReach connects to the shim and waits for an answer for as long as it lives. It reports whether one came.
func (l *shimLink) tryReach() bool {
	dir, err := os.Open(l.dir)
	if err != nil {
		return false
	}
	defer dir.Close()
	conn, err := net.Dial("unix", SocketAddress(dir))
	if err != nil {
		return false
	}
	t := l.attach(conn)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go l.closeIfGone(ctx, t)
	if l.ask(ctx, t, Order{Op: OpStatus}) != nil {
		t.conn.Close()
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.over {
		return false
	}
	l.silent, l.killed = time.Time{}, time.Time{}
	return true
}

// closeIfGone closes a connection when the shim has ended, or the link is detached. A connection that the
// shim has not accepted does not end with it.
func (l *shimLink) closeIfGone(ctx context.Context, t *shimConn) {
	tick := time.NewTicker(reachMost)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.stopped:
			t.conn.Close()
			return
		case <-tick.C:
			if l.gone() {
				t.conn.Close()
				return
			}
		}
	}
}

// kill ends the container. The daemon does without it what a silent shim leaves undone.
func (l *shimLink) kill(ctx context.Context, patience time.Duration) error {
	quick, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := l.send(quick, Order{Op: OpKill})
	if err == nil || ctx.Err() != nil {
		return err
	}
	l.mu.Lock()
	killed := l.killed
	if killed.IsZero() {
		l.killed = time.Now()
	}
	l.mu.Unlock()
	switch {
	case killed.IsZero():
		cgroup, _ := l.readCgroup() // it is known without the settings too
		KillProcesses(cgroup)       // the shim, if it wakes up, records the end
	case time.Since(killed) >= patience && l.process.Alive():
		_ = unix.Kill(l.process.Pid, unix.SIGKILL) // reach finds that it is gone
	}
	return err
}
