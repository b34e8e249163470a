package container

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// shimLink is the daemon's side of one container: a connection to its shim, and what is known of
// the container. A shim that does not answer, or whose connection is lost, is not taken for dead: the link
// tries to reach it until it answers or its process is gone (reach.go).
type shimLink struct {
	id      ID
	dir     string
	cgroup  string // of the container, if its settings cannot be read
	process Process
	child   *shimProcess // set if this daemon started the shim
	changed func(ID)

	requesting sync.Mutex // held during an order

	mu       sync.Mutex
	current  Status
	conn     *shimConn // the connection; nil: there is none
	silent   time.Time // since when the shim does not answer; zero: it does
	killed   time.Time // when the container of a silent shim was killed; zero: it was not
	detached bool
	endOnce  sync.Once
	stopped  chan struct{} // closed when the link is detached
	settled  chan struct{} // closed when it is known of a container of an earlier daemon how far it has come
	done     chan struct{} // closed when the container has ended
}

// shimConn is one connection to a shim.
type shimConn struct {
	conn   net.Conn
	lines  *bufio.Reader
	answer chan Answer
	over   bool // the connection has ended; the link's mutex guards it
}

func newShimLink(id ID, dir string, process Process, changed func(ID)) *shimLink {
	return &shimLink{
		id: id, dir: dir, process: process, changed: changed, current: Status{ID: id},
		stopped: make(chan struct{}), settled: make(chan struct{}), done: make(chan struct{}),
	}
}

// create orders the shim to create the container and waits until it exists.
func (l *shimLink) create(ctx context.Context, shim *shimProcess, lease time.Time) error {
	l.attach(shim.conn)
	err := l.request(ctx, Order{Op: OpCreate, Dir: l.dir, Lease: bootDeadline(lease)})
	if err != nil {
		l.discard()
	}
	return err
}

// discard ends a container that could not be created.
func (l *shimLink) discard() {
	l.detach()
	_ = unix.Kill(l.process.Pid, unix.SIGKILL) // our own child, not reaped before l.child.done
	<-l.child.done
	if s, err := ReadSettings(l.dir); err == nil {
		_ = sweepCgroup(s.Cgroup) // usually the shim has removed it
	}
	_ = RemoveProcess(l.dir)
}

// attach makes a connection the one over which orders go.
func (l *shimLink) attach(conn net.Conn) *shimConn {
	t := &shimConn{conn: conn, lines: bufio.NewReader(conn), answer: make(chan Answer, 1)}
	l.mu.Lock()
	l.conn = t
	detached := l.detached
	l.mu.Unlock()
	if detached {
		conn.Close()
	}
	go l.read(t)
	return t
}

// read takes answers until the shim reports the end of the container, or its connection ends.
func (l *shimLink) read(t *shimConn) {
	defer t.conn.Close()
	ended := false
	for !ended {
		line, err := t.lines.ReadBytes('\n')
		var a Answer
		if err != nil || json.Unmarshal(line, &a) != nil {
			break
		}
		if ended = a.Exited; ended {
			break
		}
		if a.Error == "" {
			l.updateStatus(a) // in the order in which it was said
		}
		if a.Changed {
			l.changed(l.id)
			continue
		}
		t.answer <- a
	}
	close(t.answer)
	l.lost(t, ended)
}

// lost follows up the end of a connection. Ended says that the shim has reported the end of its container.
func (l *shimLink) lost(t *shimConn, ended bool) {
	l.mu.Lock()
	t.over = true
	dropped, trying := l.detached || l.conn != t, !l.silent.IsZero()
	if !dropped && !ended && !trying {
		l.silent = time.Now()
	}
	l.mu.Unlock()
	switch {
	case dropped:
	case ended:
		l.markEnded()
		l.changed(l.id)
	case !trying:
		l.reach()
	}
}

var errShimGone = errors.New("the shim has ended")

// request sends one order and waits for the answer, which the status shows by then.
func (l *shimLink) request(ctx context.Context, o Order) error {
	l.requesting.Lock()
	defer l.requesting.Unlock()
	l.mu.Lock()
	t := l.conn
	err := l.silentError()
	l.mu.Unlock()
	if err != nil {
		return err
	}
	return l.ask(ctx, t, o)
}

// ask is request over a connection.
func (l *shimLink) ask(ctx context.Context, t *shimConn, o Order) error {
	line, err := json.Marshal(o)
	if err != nil {
		return err
	}
	if end, ok := ctx.Deadline(); ok {
		_ = t.conn.SetWriteDeadline(end) // a shim that hangs reads nothing
	}
	if _, err := t.conn.Write(append(line, '\n')); err != nil {
		t.conn.Close() // half an order is no order
		return errShimGone
	}
	select {
	case a, ok := <-t.answer:
		if !ok {
			return errShimGone
		}
		if a.Error == "" {
			return nil
		}
		err := errors.New(a.Error)
		if a.Final {
			err = Final(err)
		}
		return err
	case <-ctx.Done():
		return l.awaitLate(ctx, t)
	}
}

// lateAnswerPatience is how long an answer is still waited for after its caller has gone.
const lateAnswerPatience = 5 * time.Second

// awaitLate handles an answer that has not come in time. The connection is given up, and the shim is waited
// for over another one: it may be slow, and its container goes on. If the caller has gone away, such as a
// daemon that stops, the link is only detached.
func (l *shimLink) awaitLate(ctx context.Context, t *shimConn) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		timer := time.NewTimer(lateAnswerPatience)
		defer timer.Stop()
		select {
		case a, ok := <-t.answer:
			if ok && a.Error == "" {
				return nil
			}
		case <-timer.C:
			l.detach()
		}
		return context.Cause(ctx)
	}
	t.conn.Close() // a late answer must not be taken for that of the next order
	return fmt.Errorf("the shim did not answer: %w", context.Cause(ctx))
}

// gonePatience is how long it may take to find out that a shim has ended whose connection is closed.
const gonePatience = 2 * time.Second

// send sends an order that is no error for an ended container, where it does nothing.
func (l *shimLink) send(ctx context.Context, o Order) error {
	if l.hasEnded() {
		return nil
	}
	before := l.status().State
	err := l.request(ctx, o)
	if errors.Is(err, errShimGone) {
		select {
		case <-l.done:
			return nil
		case <-time.After(gonePatience):
			return fmt.Errorf("the connection to its shim, process %d, is lost", l.process.Pid)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if err != nil {
		return err
	}
	if l.status().State != before {
		l.changed(l.id)
	}
	return nil
}

func (l *shimLink) updateStatus(a Answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current.State != Exited && l.current.State != Lost {
		l.current.State, l.current.Pid, l.current.Switch, l.current.Save = a.State, a.Pid, a.Switch, a.Save
		l.current.Extern, l.current.Lost = a.Extern, a.Lost
	}
}

func (l *shimLink) status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.current
	if err := l.silentError(); err != nil && s.State != Exited && s.State != Lost {
		s.Silent = err.Error()
	}
	return s
}

func (l *shimLink) hasEnded() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// markEnded finds out how the container ended. Without an exit record the shim was killed, and all
// that is left of the container is killed too.
func (l *shimLink) markEnded() { l.endOnce.Do(l.readOutcome) }

func (l *shimLink) readOutcome() {
	exit, err := ReadExit(l.dir)
	next := Status{ID: l.id, State: Exited, Exit: exit}
	if err != nil {
		next = Status{ID: l.id, State: Lost, Why: lostReason(err)}
		if l.process.Alive() {
			_ = unix.Kill(l.process.Pid, unix.SIGKILL) // it has said that all has ended, and is useless
		}
		cgroup, err := l.readCgroup()
		if err = errors.Join(err, l.sweep(cgroup)); err != nil {
			next.Why += "; " + err.Error()
		}
	}
	l.mu.Lock()
	if exit == nil {
		next.Extern, next.Lost = l.current.Extern, l.current.Lost
	}
	l.current = next
	l.mu.Unlock()
	close(l.done)
}

// readCgroup returns the cgroup of the container.
func (l *shimLink) readCgroup() (string, error) {
	s, err := ReadSettings(l.dir)
	if s.Cgroup == "" {
		s.Cgroup = l.cgroup
	}
	return s.Cgroup, err
}

// sweep ends what is left of a container whose shim has died. It returns only when no process of it is left:
// before that the container has not ended.
func (l *shimLink) sweep(cgroup string) error {
	for {
		err := sweepCgroup(cgroup)
		if err == nil || !populated(cgroup) {
			return err
		}
		select {
		case <-l.stopped:
			return err
		case <-time.After(reachMost):
		}
	}
}

func lostReason(err error) string {
	if errors.Is(err, os.ErrNotExist) {
		return "the shim died without leaving an exit record"
	}
	return err.Error()
}

// detach closes the connection without ending the container.
func (l *shimLink) detach() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.detached {
		return
	}
	l.detached = true
	close(l.stopped)
	if l.conn != nil {
		l.conn.conn.Close()
	}
}
