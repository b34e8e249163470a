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
// the container.
type shimLink struct {
	id      ID
	dir     string
	process Process
	child   *shimProcess // set if this daemon started the shim
	changed func(ID)

	requesting sync.Mutex // held during an order
	conn       net.Conn
	lines      *bufio.Reader
	answer     chan Answer

	mu       sync.Mutex
	current  Status
	detached bool
	endOnce  sync.Once
	done     chan struct{} // closed when the container has ended
}

func newShimLink(id ID, dir string, process Process, changed func(ID)) *shimLink {
	return &shimLink{
		id: id, dir: dir, process: process, changed: changed, current: Status{ID: id},
		answer: make(chan Answer, 1), done: make(chan struct{}),
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

// dial connects to the shim of a container that exists already.
func (l *shimLink) dial() error {
	dir, err := os.Open(l.dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	conn, err := net.Dial("unix", SocketAddress(dir))
	if err != nil {
		return err
	}
	l.attach(conn)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return l.request(ctx, Order{Op: OpStatus})
}

func (l *shimLink) attach(conn net.Conn) {
	l.conn, l.lines = conn, bufio.NewReader(conn)
	go l.read()
}

// read takes answers until the shim reports the end of the container, or dies.
func (l *shimLink) read() {
	defer l.conn.Close()
	for {
		line, err := l.lines.ReadBytes('\n')
		var a Answer
		if err != nil || json.Unmarshal(line, &a) != nil || a.Exited {
			break
		}
		if a.Error == "" {
			l.updateStatus(a) // in the order in which it was said
		}
		if a.Changed {
			l.changed(l.id)
			continue
		}
		l.answer <- a
	}
	close(l.answer)
	l.mu.Lock()
	dropped := l.detached
	l.mu.Unlock()
	if !dropped {
		l.markEnded()
		l.changed(l.id)
	}
}

var errShimGone = errors.New("the shim has ended")

// request sends one order and waits for the answer, which the status shows by then.
func (l *shimLink) request(ctx context.Context, o Order) error {
	l.requesting.Lock()
	defer l.requesting.Unlock()
	line, err := json.Marshal(o)
	if err != nil {
		return err
	}
	if _, err := l.conn.Write(append(line, '\n')); err != nil {
		return errShimGone
	}
	select {
	case a, ok := <-l.answer:
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
		return l.awaitLate(ctx)
	}
}

// lateAnswerPatience is how long an answer is still waited for after its caller has gone.
const lateAnswerPatience = 5 * time.Second

// awaitLate handles an answer that has not come in time. A shim that does not answer is useless,
// and its container ends with it. But a caller that goes away, such as a daemon that stops, must
// not end a container: then the link is only detached.
func (l *shimLink) awaitLate(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		timer := time.NewTimer(lateAnswerPatience)
		defer timer.Stop()
		select {
		case a, ok := <-l.answer:
			if ok && a.Error == "" {
				return nil
			}
		case <-timer.C:
			l.detach()
		}
		return context.Cause(ctx)
	}
	l.conn.Close() // a late answer must not be taken for that of the next order
	return fmt.Errorf("the shim did not answer: %w", context.Cause(ctx))
}

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
		l.current.Extern = a.Extern
	}
}

func (l *shimLink) status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current
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
			_ = unix.Kill(l.process.Pid, unix.SIGKILL) // it is useless
		}
		s, err := ReadSettings(l.dir)
		if err = errors.Join(err, sweepCgroup(s.Cgroup)); err != nil {
			next.Why += "; " + err.Error()
		}
	}
	l.mu.Lock()
	if exit == nil {
		next.Extern = l.current.Extern
	}
	l.current = next
	l.mu.Unlock()
	close(l.done)
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
	l.detached = true
	l.mu.Unlock()
	if l.conn != nil {
		l.conn.Close()
	}
}
