// Package express serves the plain requests of one busy route with less than a http.Server does for each, and leaves every other request to one.
//
// A http.Server that answers ten thousand small requests a second spends more on each than on reading and writing it: a goroutine that watches
// for the client to go away, contexts, timers, chunks. A route whose work is not given up when its client goes away needs none of that. So the
// head of each request is looked at before anything is taken from the connection. If it is plainly one of the route's, it is answered here. If it is anything else, or looks unusual in any way, the connection with all it holds goes to the
// http.Server, for good.
package express

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/textproto"
	"sync"
	"time"
)

// Server serves one route. Its fields are set before Listen and not changed afterwards.
type Server struct {
	// Method and Path are the route's.
	Method, Path string
	// Handler answers its requests. It is not told when a client goes away, and cannot flush or hijack.
	Handler http.Handler
	// ConnContext is that of a http.Server.
	ConnContext func(context.Context, net.Conn) context.Context
	// HeadTimeout is how long a client may take for the head of a request, BodyTimeout how long for its body, IdleTimeout how long it may make none.
	HeadTimeout, BodyTimeout, IdleTimeout time.Duration
	// Log is told of handlers that panic.
	Log *slog.Logger

	busy sync.WaitGroup // connections
}

// bufferSize is how much of a connection is looked at. A longer head is not plain.
const bufferSize = 8 << 10

// Listen serves the connections of l until ctx ends or l is closed, and returns a listener for those that have other requests. Errors of l are
// that listener's; closing it closes l.
func (s *Server) Listen(ctx context.Context, l net.Listener) net.Listener {
	r := &rest{Listener: l, from: make(chan accepted), closed: make(chan struct{})}
	go func() {
		for r.next(ctx, s) {
		}
	}()
	return r
}

// Wait waits until the requests that were being answered when the context of Listen ended are answered, or ctx ends.
func (s *Server) Wait(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		s.busy.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// rest is the listener of what is left.
type rest struct {
	net.Listener
	from   chan accepted
	closed chan struct{}
	once   sync.Once
}

// accepted is what Accept returns.
type accepted struct {
	conn net.Conn
	err  error
}

// next accepts a connection and reports whether there may be more. An error waits until somebody asks for it: a http.Server that waits a while
// after one makes this wait too.
func (r *rest) next(ctx context.Context, s *Server) bool {
	c, err := r.Listener.Accept()
	if err != nil {
		r.give(nil, err)
		return !errors.Is(err, net.ErrClosed)
	}
	s.busy.Add(1)
	go func() {
		defer s.busy.Done()
		if p := newPassage(s, c); p.run(ctx) {
			r.give(p.rest(), nil)
		} else {
			c.Close()
		}
	}()
	return true
}

// give hands over a connection or an error.
func (r *rest) give(c net.Conn, err error) {
	select {
	case r.from <- accepted{c, err}:
	case <-r.closed:
		if c != nil {
			c.Close()
		}
	}
}

// Accept implements net.Listener.
func (r *rest) Accept() (net.Conn, error) {
	select {
	case a := <-r.from:
		return a.conn, a.err
	case <-r.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (r *rest) Close() error {
	r.once.Do(func() { close(r.closed) })
	return r.Listener.Close()
}

// passage is a connection while it is looked at.
type passage struct {
	net.Conn
	server *Server
	in     *bufio.Reader
	fields textproto.Reader
	base   *http.Request // what all its requests have in common
	reply  reply
	idle   idleness
	until  time.Time // deadline for reading, zero for none
}

// allow sets the deadline for reading, and reports whether it could.
func (p *passage) allow(until time.Time) bool {
	p.until = until
	return p.SetReadDeadline(until) == nil
}

func newPassage(s *Server, c net.Conn) *passage {
	p := &passage{Conn: c, server: s, in: bufio.NewReaderSize(c, bufferSize), reply: reply{header: http.Header{}}}
	p.fields.R = p.in
	return p
}

// rest returns the connection as it was before it was looked at.
func (p *passage) rest() net.Conn {
	b, _ := p.in.Peek(p.in.Buffered()) // cannot fail: it is there
	return &unread{Conn: p.Conn, seen: bytes.Clone(b)}
}

// unread is a connection of which something has been seen that is still to be read.
type unread struct {
	net.Conn
	seen []byte
}

// NetConn returns the connection itself, as that of a tls.Conn does.
func (u *unread) NetConn() net.Conn { return u.Conn }

// Read implements net.Conn: first what was seen.
func (u *unread) Read(b []byte) (int, error) {
	if len(u.seen) == 0 {
		return u.Conn.Read(b)
	}
	n := copy(b, u.seen)
	if u.seen = u.seen[n:]; len(u.seen) == 0 {
		u.seen = nil // the memory of a long poll
	}
	return n, nil
}

// run answers the route's requests, and reports whether there is another one, which is still unread.
func (p *passage) run(ctx context.Context) (other bool) {
	p.base = p.server.common(p.Conn).WithContext(p.server.ConnContext(context.WithoutCancel(ctx), p.Conn))
	defer context.AfterFunc(ctx, func() { p.idle.end(p.Conn) })()
	timeout := p.server.HeadTimeout // for the first one
	for {
		if !p.await(ctx, timeout) {
			return false
		}
		h, ok := p.plain()
		if !ok {
			return p.allow(time.Time{})
		}
		if !p.answer(h) {
			return false
		}
		timeout = p.server.IdleTimeout
	}
}

// await waits for the beginning of a request.
func (p *passage) await(ctx context.Context, timeout time.Duration) bool {
	if p.in.Buffered() > 0 {
		return true
	}
	// A deadline is moved once half of it has passed: moving it for each of ten thousand requests a second would cost more than it is worth.
	if now := time.Now(); p.until.Sub(now) < timeout/2 {
		if !p.allow(now.Add(timeout)) {
			return false
		}
	}
	p.idle.set(true)
	defer p.idle.set(false)
	if ctx.Err() != nil {
		return false
	}
	_, err := p.in.Peek(1)
	return err == nil
}

// idleness says whether a connection waits for a request. The zero value does not.
type idleness struct {
	mu   sync.Mutex
	idle bool
}

func (i *idleness) set(idle bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.idle = idle
}

// end ends the wait on c. A request that has begun is left alone.
func (i *idleness) end(c net.Conn) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.idle {
		_ = c.SetReadDeadline(time.Unix(1, 0)) // it is closed already
	}
}
