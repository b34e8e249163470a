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

// link is the daemon's side of one container: a connection to its shim, and what is known of it.
type link struct {
	id      ID
	dir     string
	process Process
	child   *shimProcess // set when this daemon started the shim
	changed func(ID)

	asking sync.Mutex // one order at a time
	conn   net.Conn
	lines  *bufio.Reader
	answer chan Answer

	mu      sync.Mutex
	now     Status
	dropped bool
	end     sync.Once
	done    chan struct{} // closed when the container is over
}

func newLink(id ID, dir string, process Process, changed func(ID)) *link {
	return &link{
		id: id, dir: dir, process: process, changed: changed, now: Status{ID: id},
		answer: make(chan Answer, 1), done: make(chan struct{}),
	}
}

// create orders the shim to make the container and waits until it exists.
func (l *link) create(ctx context.Context, shim *shimProcess, lease time.Time) error {
	l.use(shim.conn)
	answer, err := l.ask(ctx, Order{Op: OpCreate, Dir: l.dir, Lease: bootDeadline(lease)})
	if err != nil {
		l.abandon()
		return err
	}
	l.learn(answer)
	return nil
}

// abandon makes an end of a container that could not be made.
func (l *link) abandon() {
	l.drop()
	_ = unix.Kill(l.process.Pid, unix.SIGKILL) // our own child, not reaped before l.child.done
	<-l.child.done
	if s, err := ReadSettings(l.dir); err == nil {
		_ = sweepCgroup(s.Cgroup) // usually the shim has removed it
	}
	_ = RemoveProcess(l.dir)
}

// dial connects to the shim of a container that exists already.
func (l *link) dial() error {
	dir, err := os.Open(l.dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	conn, err := net.Dial("unix", SocketAddress(dir))
	if err != nil {
		return err
	}
	l.use(conn)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	answer, err := l.ask(ctx, Order{Op: OpStatus})
	if err != nil {
		return err
	}
	l.learn(answer)
	return nil
}

func (l *link) use(conn net.Conn) {
	l.conn, l.lines = conn, bufio.NewReader(conn)
	go l.read()
}

// read takes answers until the shim says that the container has ended, or dies.
func (l *link) read() {
	defer l.conn.Close()
	for {
		line, err := l.lines.ReadBytes('\n')
		var a Answer
		if err != nil || json.Unmarshal(line, &a) != nil || a.Exited {
			break
		}
		l.answer <- a
	}
	close(l.answer)
	l.mu.Lock()
	dropped := l.dropped
	l.mu.Unlock()
	if !dropped {
		l.ended()
		l.changed(l.id)
	}
}

var errShimGone = errors.New("its shim has ended")

// ask sends one order and waits for the answer.
func (l *link) ask(ctx context.Context, o Order) (Answer, error) {
	l.asking.Lock()
	defer l.asking.Unlock()
	line, err := json.Marshal(o)
	if err != nil {
		return Answer{}, err
	}
	if _, err := l.conn.Write(append(line, '\n')); err != nil {
		return Answer{}, errShimGone
	}
	select {
	case a, ok := <-l.answer:
		if !ok {
			return Answer{}, errShimGone
		}
		if a.Error != "" && a.Final {
			return Answer{}, Final(errors.New(a.Error))
		}
		if a.Error != "" {
			return Answer{}, errors.New(a.Error)
		}
		return a, nil
	case <-ctx.Done():
		return l.late(ctx)
	}
}

// patience is how long an answer is waited for once nobody wants it any more.
const patience = 5 * time.Second

// late is for an answer that has not come in time. A shim that does not answer is of no use, and its container ends with it. But a
// caller that merely goes away, such as a daemon that stops, must not end a container: it lets go of it.
func (l *link) late(ctx context.Context) (Answer, error) {
	if errors.Is(ctx.Err(), context.Canceled) {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case a, ok := <-l.answer:
			if ok && a.Error == "" {
				return a, nil
			}
		case <-timer.C:
			l.drop()
		}
		return Answer{}, context.Cause(ctx)
	}
	l.conn.Close() // a late answer must not be taken for another's
	return Answer{}, fmt.Errorf("its shim did not answer: %w", context.Cause(ctx))
}

// order asks for something that has no meaning for an ended container and is no error there.
func (l *link) order(ctx context.Context, o Order) error {
	if l.over() {
		return nil
	}
	before := l.status().State
	answer, err := l.ask(ctx, o)
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
	l.learn(answer)
	if l.status().State != before {
		l.changed(l.id)
	}
	return nil
}

func (l *link) renewed(ctx context.Context, lease time.Time) error {
	return l.order(ctx, Order{Op: OpRenew, Lease: bootDeadline(lease)})
}

func (l *link) learn(a Answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now.State != Exited && l.now.State != Lost {
		l.now.State, l.now.Pid = a.State, a.Pid
	}
}

func (l *link) status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

func (l *link) over() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// ended finds out how the container ended. Without an exit record the shim was killed, and nothing of the container may go on.
func (l *link) ended() { l.end.Do(l.findEnd) }

func (l *link) findEnd() {
	exit, err := ReadExit(l.dir)
	next := Status{ID: l.id, State: Exited, Exit: exit}
	if err != nil {
		next = Status{ID: l.id, State: Lost, Why: lostBecause(err)}
		if l.process.Alive() {
			_ = unix.Kill(l.process.Pid, unix.SIGKILL) // it is of no use any more
		}
		s, err := ReadSettings(l.dir)
		if err = errors.Join(err, sweepCgroup(s.Cgroup)); err != nil {
			next.Why += "; " + err.Error()
		}
	}
	l.mu.Lock()
	l.now = next
	l.mu.Unlock()
	close(l.done)
}

func lostBecause(err error) string {
	if errors.Is(err, os.ErrNotExist) {
		return "the shim died without leaving an exit record"
	}
	return err.Error()
}

// drop lets go of the container.
func (l *link) drop() {
	l.mu.Lock()
	l.dropped = true
	l.mu.Unlock()
	if l.conn != nil {
		l.conn.Close()
	}
}
