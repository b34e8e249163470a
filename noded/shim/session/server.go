package session

import (
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api/stream"
	"github.com/rota-hpc/rota/noded/container"
)

// Bounds of the IO socket.
const (
	requestTimeout = 10 * time.Second // for the first frame of a connection
	// unreadPatience is how long the end of a worker waits for its output to be read before it is recorded.
	unreadPatience = 2 * time.Second
	// comingPatience is the same where a reader is on its way.
	comingPatience = 15 * time.Second
	// lingerTime is how long this process stays after the record for a reader that is not connected.
	lingerTime = time.Minute
	// OutputPatience is how long the rest of the output is waited for after the end of a program.
	OutputPatience = 2 * time.Second
)

// Server answers at the IO socket.
type Server struct {
	Own    *Session         // of the ranks; nil: their output goes to files
	Execs  chan ExecRequest // each gets one answer
	HangUp chan struct{}    // no reader was connected for too long
	Extern Extern           // what processes beside the ranks use

	listener net.Listener
	over     chan struct{} // closed when no more processes are started
	patience time.Duration // with output that was not read

	mu     sync.Mutex
	beside []*Session // of processes beside the ranks
	timer  *time.Timer
}

// ExecRequest asks to start a process beside the ranks.
type ExecRequest struct {
	container.Exec
	answer chan execAnswer
}

// Reply says what became of a request.
func (r ExecRequest) Reply(s *Session, err error) { r.answer <- execAnswer{s, err} }

type execAnswer struct {
	session *Session
	err     error
}

// NewServer returns the server of a worker with these settings.
func NewServer(s container.Settings) *Server {
	o := &Server{Execs: make(chan ExecRequest), HangUp: make(chan struct{}, 1), over: make(chan struct{}),
		patience: unreadPatience, Extern: Extern{News: make(chan struct{}, 1)}}
	if s.IO != nil {
		o.Own = New(s.IO.Drop, nil)
		if after := time.Duration(s.IO.HangUpMS) * time.Millisecond; after > 0 {
			o.Own.left = func() { o.hangUpAfter(after) }
			o.hangUpAfter(after) // it may never come
			o.Own.awaited, o.patience = true, max(unreadPatience, min(after, comingPatience))
		}
	}
	return o
}

// hangUpAfter has the worker hung up unless a reader is connected by then.
func (o *Server) hangUpAfter(d time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.timer != nil {
		o.timer.Stop()
	}
	o.timer = time.AfterFunc(d, func() {
		if !o.Own.connected() {
			select {
			case o.HangUp <- struct{}{}:
			default:
			}
		}
	})
}

// Listen opens the socket.
func (o *Server) Listen(dir string) error {
	l, err := container.ListenIO(dir)
	if err != nil {
		return err
	}
	o.listener = l
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go o.serve(conn)
		}
	}()
	return nil
}

// serve answers a connection.
func (o *Server) serve(conn net.Conn) {
	c := stream.New(conn)
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(requestTimeout)) // a socket can have one
	r, err := container.ReadIORequest(c)
	_ = conn.SetReadDeadline(time.Time{})
	switch {
	case err != nil:
	case r.Exec != nil:
		err = o.serveExec(c, *r.Exec)
	case o.Own == nil:
		err = errors.New("the output of this worker goes to files, and it accepts no input")
	default:
		if err = o.Own.Attach(c, r.Attach.From); !errors.Is(err, errNotKept) {
			err = nil // its reader is gone
		}
	}
	if err != nil { // its reader may be gone
		_ = c.WriteJSON(stream.End, stream.AllTasks, stream.StepEnd{StepTaskExit: stream.StepTaskExit{Code: 125},
			Why: err.Error()})
	}
}

// serveExec starts a process and stays with it.
func (o *Server) serveExec(c *stream.Conn, e container.Exec) error {
	r := ExecRequest{e, make(chan execAnswer, 1)}
	select {
	case o.Execs <- r:
	case <-o.over:
		return ErrEnded
	}
	a := <-r.answer
	if a.err != nil {
		return a.err
	}
	_ = a.session.Attach(c, 0) // it has ended, or its reader is gone
	a.session.HangUp()
	a.session.signal(stream.AllTasks, unix.SIGHUP)
	o.mu.Lock()
	o.beside = slices.DeleteFunc(o.beside, func(s *Session) bool { return s == a.session })
	o.mu.Unlock()
	return nil
}

// ErrEnded is why no more processes are started.
var ErrEnded = errors.New("the worker has ended")

// Add counts a process beside the ranks, until its reader is gone.
func (o *Server) Add(s *Session) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.beside = append(o.beside, s)
}

// Processes returns how many processes beside the ranks have a reader.
func (o *Server) Processes() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.beside)
}

// sessions lists those that have something to be read.
func (o *Server) sessions() []*Session {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := slices.Clone(o.beside)
	if o.Own != nil {
		list = append(list, o.Own)
	}
	return list
}

// Others lists the sessions of processes beside the ranks.
func (o *Server) Others() []*Session {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.beside)
}

// AwaitRead waits for a while until the output of a worker that has ended was read.
func (o *Server) AwaitRead() {
	close(o.over)
	late := time.After(o.patience)
	for _, s := range o.sessions() {
		if s.over(0) {
			continue
		}
		select {
		case <-s.read:
		case <-late:
			return
		}
	}
}

// Linger waits for readers: for those that are connected until they have read everything, and for a
// while for one that may come back.
func (o *Server) Linger() {
	gone := time.Now()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for _, s := range o.sessions() {
		for !s.over(time.Since(gone)) {
			select {
			case <-s.read:
			case <-tick.C:
				if s.connected() {
					gone = time.Now()
				}
			}
		}
	}
	o.Close()
}

// Close takes no more connections.
func (o *Server) Close() {
	if o.listener != nil {
		_ = o.listener.Close() // the process ends
	}
}

// over reports whether a session is not waited for any more: it was read, or it is without a reader for
// too long.
func (s *Session) over(gone time.Duration) bool {
	select {
	case <-s.read:
		return true
	default:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reader == nil && (s.drop && !s.awaited || s.closed || gone >= lingerTime)
}
