package express

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// patience bounds what a test waits for a server that does not answer.
const patience = 20 * time.Second

type peerKey struct{}

func withPeer(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, peerKey{}, c.RemoteAddr().String())
}

// tell answers with what it sees of a request.
func tell(w http.ResponseWriter, r *http.Request) {
	var body []byte
	if r.Header.Get("Skip") == "" {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	if r.Header.Get("Panic") != "" {
		panic(http.ErrAbortHandler)
	}
	names := make([]string, 0, len(r.Header))
	for name, values := range r.Header {
		names = append(names, name+"="+strings.Join(values, "|"))
	}
	slices.Sort(names)
	w.Header().Set("Content-Type", "text/plain")
	if r.Header.Get("Fail") != "" {
		w.WriteHeader(http.StatusTeapot)
	}
	fmt.Fprintf(w, "%s %s %s %s host=%s length=%d %v body=%x known=%v\n", r.Method, r.URL, r.RequestURI, r.Proto, r.Host, r.ContentLength,
		names, sha256.Sum256(body), r.Context().Value(peerKey{}) == r.RemoteAddr)
}

func mux() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("POST /v1/jobs", tell)
	m.HandleFunc("GET /v1/jobs", tell)
	return m
}

// start serves on loopback, with or without a Server in front, and returns the address, how many requests that answered, and what stops both.
func start(t *testing.T, front bool) (addr string, answered *atomic.Int64, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr, answered = l.Addr().String(), new(atomic.Int64)
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{
		Method: "POST", Path: "/v1/jobs", ConnContext: withPeer, HeadTimeout: patience, BodyTimeout: patience, IdleTimeout: patience,
		Log: slog.New(slog.DiscardHandler),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answered.Add(1)
			tell(w, r)
		}),
	}
	if front {
		l = s.Listen(ctx, l)
	}
	srv := &http.Server{Handler: mux(), ConnContext: func(ctx context.Context, c net.Conn) context.Context {
		if p, ok := c.(interface{ NetConn() net.Conn }); ok {
			c = p.NetConn()
		}
		return withPeer(ctx, c)
	}}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	stop = func() {
		cancel()
		grace, end := context.WithTimeout(context.Background(), patience)
		defer end()
		if err := srv.Shutdown(grace); err != nil {
			t.Error(err)
		}
		s.Wait(grace)
		if grace.Err() != nil {
			t.Error("connections were still open")
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}
	return addr, answered, stop
}

// exchange sends bytes in pieces and returns the answers, with what differs from one time to the next left out.
func exchange(t *testing.T, addr string, pieces []string) []string {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	for _, p := range pieces {
		if _, err := io.WriteString(c, p); err != nil {
			break // it has been refused already
		}
	}
	_ = c.(*net.TCPConn).CloseWrite()
	var answers []string
	in := bufio.NewReader(c)
	for {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				answers = append(answers, "no answer")
			}
			return answers // whether the connection ends or is reset depends on what was still to be read
		}
		body, _ := io.ReadAll(resp.Body)
		if resp.Header.Get("Date") == "" && resp.StatusCode < 400 && resp.StatusCode >= 200 {
			t.Error("an answer has no date")
		}
		answers = append(answers, fmt.Sprint(resp.Proto, " ", resp.Status, " ", resp.Header.Get("Content-Type"), " ", resp.ContentLength, " ", resp.Close, " ", string(body)))
	}
}

func post(fields, body string) string {
	return "POST /v1/jobs HTTP/1.1\r\nHost: here\r\n" + fields + "Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
}

func TestAnswersAreThoseOfAnHTTPServer(t *testing.T) {
	get := "GET /v1/jobs?a=b HTTP/1.1\r\nHost: here\r\n\r\n"
	large := strings.Repeat("x", 3*bufferSize)
	cases := map[string]struct {
		pieces []string
		quick  int64 // how many of the requests are plain
	}{
		"one":                       {[]string{post("", "{}")}, 1},
		"fields":                    {[]string{post("idempotency-KEY: a\r\nAccept: x\r\nAccept: y\r\n", "{}")}, 1},
		"nothing in it":             {[]string{post("", "")}, 1},
		"one after the other":       {[]string{post("", "1"), post("", "22"), post("", "333")}, 3},
		"all at once":               {[]string{post("", "1") + post("", "22") + post("", "333")}, 3},
		"byte by byte":              {strings.Split(post("", "{}"), ""), 1},
		"another status":            {[]string{post("Fail: 1\r\n", "{}")}, 1},
		"large body":                {[]string{post("", large), post("", "1")}, 2},
		"unread body":               {[]string{post("Skip: 1\r\n", large), post("", "1")}, 2},
		"unread body, too large":    {[]string{post("Skip: 1\r\n", strings.Repeat("x", discardMost+1)), post("", "1")}, 1},
		"another route":             {[]string{get}, 0},
		"another route later":       {[]string{post("", "1"), get, post("", "22")}, 1},
		"unknown route":             {[]string{"GET /nowhere HTTP/1.1\r\nHost: here\r\n\r\n"}, 0},
		"a path that goes on":       {[]string{"POST /v1/jobs/7 HTTP/1.1\r\nHost: here\r\nContent-Length: 0\r\n\r\n"}, 0},
		"a query":                   {[]string{"POST /v1/jobs?x=1 HTTP/1.1\r\nHost: here\r\nContent-Length: 2\r\n\r\n{}"}, 0},
		"short and old":             {[]string{"GET / HTTP/1.0\r\n\r\n"}, 0},
		"old":                       {[]string{"POST /v1/jobs HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}"}, 0},
		"close":                     {[]string{post("connection: close\r\n", "{}"), post("", "1")}, 0},
		"chunked":                   {[]string{"POST /v1/jobs HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", post("", "1")}, 0},
		"both lengths":              {[]string{post("Transfer-Encoding: chunked\r\n", "0\r\n\r\n")}, 0},
		"expecting":                 {[]string{post("Expect: 100-continue\r\n", "{}")}, 0},
		"no length":                 {[]string{"POST /v1/jobs HTTP/1.1\r\nHost: here\r\n\r\n"}, 0},
		"two lengths":               {[]string{post("Content-Length: 3\r\n", "{}")}, 0},
		"length of another kind":    {[]string{"POST /v1/jobs HTTP/1.1\r\nHost: here\r\nContent-Length: +2\r\n\r\n{}"}, 0},
		"no host":                   {[]string{"POST /v1/jobs HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}"}, 0},
		"two hosts":                 {[]string{post("Host: there\r\n", "{}")}, 0},
		"a field without a colon":   {[]string{post("nonsense\r\n", "{}")}, 0},
		"a field with a space":      {[]string{post("a b: c\r\n", "{}")}, 0},
		"a folded field":            {[]string{post("A: b\r\n c\r\n", "{}")}, 0},
		"a control character":       {[]string{post("A: b\x00c\r\n", "{}")}, 0},
		"a head that is too long":   {[]string{post("A: "+large+"\r\n", "{}")}, 0},
		"half a line":               {[]string{"POST /v1/jo"}, 0},
		"half a head":               {[]string{"POST /v1/jobs HTTP/1.1\r\nHost: here\r\nContent-"}, 0},
		"nothing":                   {nil, 0},
		"not HTTP":                  {[]string{"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"}, 0},
		"a handler that panics":     {[]string{post("Panic: 1\r\n", "{}"), post("", "1")}, 1},
		"line ends of another kind": {[]string{"POST /v1/jobs HTTP/1.1\nHost: here\nContent-Length: 2\n\n{}"}, 0},
	}
	quick, answered, stopQuick := start(t, true)
	defer stopQuick()
	usual, _, stopUsual := start(t, false)
	defer stopUsual()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			before := answered.Load()
			got, want := exchange(t, quick, c.pieces), exchange(t, usual, c.pieces)
			if !slices.Equal(got, want) {
				t.Errorf("answers\n%.500q, of an http.Server\n%.500q", got, want)
			}
			if n := answered.Load() - before; n != c.quick {
				t.Errorf("%d requests were answered quickly, want %d", n, c.quick)
			}
		})
	}
}

// TestStop keeps a connection idle and another in the middle of a request: the one is closed, the other is answered first.
func TestStop(t *testing.T) {
	addr, answered, stop := start(t, true)
	dial := func() (net.Conn, *bufio.Reader) {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(patience))
		return c, bufio.NewReader(c)
	}
	fresh, _ := dial()
	defer fresh.Close()
	idle, in := dial()
	defer idle.Close()
	if _, err := io.WriteString(idle, post("", "{}")); err != nil {
		t.Fatal(err)
	}
	if _, err := http.ReadResponse(in, nil); err != nil {
		t.Fatal(err)
	}
	busy, answer := dial()
	defer busy.Close()
	request := post("", "{}")
	if _, err := io.WriteString(busy, request[:len(request)-1]); err != nil {
		t.Fatal(err)
	}
	for answered.Load() < 2 { // its handler is reading the body
		<-time.After(time.Millisecond)
	}
	stopped := make(chan struct{})
	go func() {
		stop()
		close(stopped)
	}()
	if _, err := idle.Read(make([]byte, 1)); err == nil {
		t.Error("the idle connection was not closed")
	}
	if _, err := fresh.Read(make([]byte, 1)); err == nil {
		t.Error("the connection without a request was not closed")
	}
	if _, err := io.WriteString(busy, request[len(request)-1:]); err != nil {
		t.Fatal(err)
	}
	if resp, err := http.ReadResponse(answer, nil); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("the request in progress: %v, %v", resp, err)
	}
	<-stopped
}

func TestABodyThatDoesNotComeIsNotWaitedForForEver(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{
		Method: "POST", Path: "/v1/jobs", ConnContext: withPeer, HeadTimeout: patience, BodyTimeout: 20 * time.Millisecond, IdleTimeout: patience,
		Log: slog.New(slog.DiscardHandler), Handler: http.HandlerFunc(tell),
	}
	defer s.Listen(t.Context(), l).Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	request := post("", "{}")
	if _, err := io.WriteString(c, request[:len(request)-1]); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(c)
	if resp, err := http.ReadResponse(in, nil); err != nil || resp.StatusCode != http.StatusBadRequest {
		t.Fatalf("%v, %v", resp, err)
	}
	if _, err := io.Copy(io.Discard, in); err != nil {
		t.Errorf("the connection stays: %v", err)
	}
}

// FuzzHead holds what is taken for plain against the standard library.
func FuzzHead(f *testing.F) {
	for _, s := range []string{"Host: a\r\nContent-Length: 2", "Host: a\r\ncontent-length:  7 \r\nX-Y: \tz", "Host:\r\nContent-Length: 0", ": a\r\nHost: b\r\nContent-Length: 1"} {
		f.Add([]byte(s))
	}
	s := &Server{Method: "POST", Path: "/v1/jobs"}
	f.Fuzz(func(t *testing.T, fields []byte) {
		length, ok := plainFields(fields)
		if !ok || bytes.Contains(fields, []byte("\r\n\r\n")) || len(fields) > bufferSize/2 {
			return
		}
		text := s.line() + string(fields) + "\r\n\r\n"
		want, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
		p := newPassage(s, nil)
		p.in.Reset(strings.NewReader(text))
		p.base = &http.Request{}
		got, ours := p.request(head{len(s.line()), length})
		if (err == nil) != (ours == nil) {
			t.Fatalf("%q: the library says %v, the lane %v", fields, err, ours)
		}
		if err != nil {
			return
		}
		if got.ContentLength != want.ContentLength || got.Host != want.Host || fmt.Sprint(got.Header) != fmt.Sprint(want.Header) {
			t.Errorf("%q: %d %q %v, the library reads %d %q %v", fields, got.ContentLength, got.Host, got.Header, want.ContentLength, want.Host, want.Header)
		}
	})
}
