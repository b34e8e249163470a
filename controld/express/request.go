package express

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// head is what is known of a plain request before it is read.
type head struct {
	line   int   // bytes of the first line
	length int64 // bytes of the body
}

// plain waits for the head of a request, and reports whether it is one of the route's with nothing special about it.
func (p *passage) plain() (head, bool) {
	line := p.server.line()
	for waits := 0; ; waits++ {
		b, _ := p.in.Peek(p.in.Buffered()) // cannot fail: it is there
		if n := min(len(b), len(line)); string(b[:n]) != line[:n] {
			return head{}, false
		}
		if end := bytes.Index(b, []byte("\r\n\r\n")); end >= 0 {
			length, ok := plainFields(b[min(len(line), end):end])
			return head{len(line), length}, ok
		}
		if waits == 0 {
			if !p.allow(time.Now().Add(p.server.HeadTimeout)) {
				return head{}, false
			}
		}
		if _, err := p.in.Peek(len(b) + 1); err != nil {
			return head{}, false // who gets the connection meets the same error, or a head that is too long to be plain
		}
	}
}

// line is the first line of the route's requests.
func (s *Server) line() string { return s.Method + " " + s.Path + " HTTP/1.1\r\n" }

// special are the fields that call for more than reading a body of known length and answering on the same connection.
var special = []string{"Connection", "Expect", "Trailer", "Transfer-Encoding", "Upgrade"}

// plainFields returns the length of the body, and whether the fields of a head say just that and which host is meant, each once, and ask for
// nothing special. What is not well formed is not plain: a http.Server knows what to say to it.
func plainFields(fields []byte) (length int64, ok bool) {
	lengths, hosts := 0, 0
	for line := range bytes.SplitSeq(fields, []byte("\r\n")) {
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || !token(name) || bytes.ContainsFunc(value, control) {
			return 0, false
		}
		switch {
		case oneOf(name, special):
			return 0, false
		case bytes.EqualFold(name, []byte("Host")):
			hosts++
		case bytes.EqualFold(name, []byte("Content-Length")):
			lengths++
			n, err := strconv.ParseUint(string(bytes.TrimSpace(value)), 10, 63)
			if err != nil {
				return 0, false
			}
			length = int64(n)
		}
	}
	return length, lengths == 1 && hosts == 1
}

func control(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// token reports whether b is a token as RFC 9110, 5.6.2, has it.
func token(b []byte) bool {
	for _, c := range b {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && ('0' > c || c > '9') && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return len(b) > 0
}

func oneOf(name []byte, names []string) bool {
	for _, s := range names {
		if len(name) == len(s) && bytes.EqualFold(name, []byte(s)) {
			return true
		}
	}
	return false
}

// common returns a request as all of a connection are, but for their fields and bodies.
func (s *Server) common(c net.Conn) *http.Request {
	return &http.Request{
		Method: s.Method, URL: &url.URL{Path: s.Path}, RequestURI: s.Path, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		RemoteAddr: c.RemoteAddr().String(),
	}
}

// answer reads a plain request and answers it. It reports whether there may be another.
func (p *passage) answer(h head) bool {
	r, err := p.request(h)
	if err != nil {
		return false
	}
	body := &body{io.LimitedReader{R: p.in, N: h.length}}
	r.Body = body
	if h.length > int64(p.in.Buffered()) {
		if !p.allow(time.Now().Add(p.server.BodyTimeout)) {
			return false
		}
	}
	p.reply.reset()
	if !p.handle(&p.reply, r) {
		return false
	}
	whole := body.skip()
	return p.reply.send(p.Conn, whole) == nil && whole
}

// request takes the head of a request from the connection.
func (p *passage) request(h head) (*http.Request, error) {
	if _, err := p.in.Discard(h.line); err != nil {
		return nil, err
	}
	fields, err := p.fields.ReadMIMEHeader()
	if err != nil {
		return nil, err
	}
	r := new(http.Request)
	*r = *p.base
	r.Header, r.ContentLength, r.Host = http.Header(fields), h.length, fields.Get("Host")
	delete(r.Header, "Host") // as of every request that a handler sees
	return r, nil
}

// body is that of a request.
type body struct{ io.LimitedReader }

// Close implements io.Closer.
func (b *body) Close() error { return nil }

// discardMost is how many bytes of a body that the handler left unread are read for it, so that the next request can be. It is what a
// http.Server reads.
const discardMost = 256 << 10

// skip reads what is left, and reports whether it could.
func (b *body) skip() bool {
	if b.N == 0 {
		return true
	}
	if b.N > discardMost {
		return false
	}
	_, err := io.Copy(io.Discard, b)
	return err == nil && b.N == 0
}

// handle has the request answered. A handler that panics loses its connection, not the process.
func (p *passage) handle(w *reply, r *http.Request) (ok bool) {
	defer func() {
		v := recover()
		if err, _ := v.(error); v != nil && !errors.Is(err, http.ErrAbortHandler) {
			p.server.Log.Error("a request made its handler panic", "path", p.server.Path, "panic", v, "stack", string(debug.Stack()))
		}
	}()
	p.server.Handler.ServeHTTP(w, r)
	return true
}
