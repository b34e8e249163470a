package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api/stream"
)

// echo answers with a stream that sends back what it gets, behind the request's body, until its input
// ends.
func echo(t *testing.T) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set(HeaderCluster, "c-1")
		c, err := AcceptStream(r.Context(), w, r)
		if err != nil {
			return
		}
		defer c.Close()
		if err := c.Write(stream.Frame{Kind: stream.Begun, Task: stream.AllTasks, Data: body}); err != nil {
			t.Error(err)
		}
		for {
			f, err := c.Read()
			switch {
			case err != nil:
				return
			case f.Kind == stream.StdinEnd:
				_ = c.WriteJSON(stream.End, stream.AllTasks, StepEnd{StepTaskExit: StepTaskExit{Code: 7}})
				return
			}
			if err := c.Write(stream.Frame{Kind: stream.Stdout, Task: f.Task, Data: f.Data}); err != nil {
				return
			}
		}
	})
}

// serveAt answers requests on a listener until the test ends, with times for requests and answers. It
// returns which deadline its last connection has.
func serveAt(t *testing.T, l net.Listener, h http.Handler) (deadline func() time.Time) {
	watched := &watchedListener{Listener: l}
	srv := &http.Server{Handler: h, ReadTimeout: time.Minute, WriteTimeout: time.Minute}
	go func() { _ = srv.Serve(watched) }()
	t.Cleanup(func() { srv.Close() })
	return func() time.Time { return watched.last.Load().latest() }
}

// watchedListener notes its last connection.
type watchedListener struct {
	net.Listener
	last atomic.Pointer[watchedConn]
}

func (l *watchedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	w := &watchedConn{Conn: c}
	l.last.Store(w)
	return w, err
}

// watchedConn notes its deadlines.
type watchedConn struct {
	net.Conn
	read, write atomic.Pointer[time.Time]
}

func (c *watchedConn) SetReadDeadline(t time.Time) error {
	c.read.Store(&t)
	return c.Conn.SetReadDeadline(t)
}

func (c *watchedConn) SetWriteDeadline(t time.Time) error {
	c.write.Store(&t)
	return c.Conn.SetWriteDeadline(t)
}

func (c *watchedConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *watchedConn) latest() time.Time {
	last := time.Time{}
	for _, at := range []*time.Time{c.read.Load(), c.write.Load()} {
		if at != nil && at.After(last) {
			last = *at
		}
	}
	return last
}

func listen(t *testing.T, network, addr string) net.Listener {
	l, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// passing passes requests for streams on to another address by [PassStream].
func passing(t *testing.T, to string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		req, err := http.NewRequestWithContext(r.Context(), r.Method, to+r.URL.Path, bytes.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		RequestStream(req)
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err == nil {
			err = PassStream(r.Context(), w, resp)
		}
		if err != nil {
			t.Error(err)
		}
	})
}

func TestStreamsGoEveryWay(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	deadlines := []func() time.Time{serveAt(t, listen(t, "unix", socket), echo(t))}
	plain := listen(t, "tcp", "127.0.0.1:0")
	deadlines = append(deadlines, serveAt(t, plain, echo(t)))
	direct := "http://" + plain.Addr().String()
	target, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	reverse := listen(t, "tcp", "127.0.0.1:0") // as a node passes requests of its users on
	deadlines = append(deadlines, serveAt(t, reverse, httputil.NewSingleHostReverseProxy(target)))
	pass := listen(t, "tcp", "127.0.0.1:0")
	deadlines = append(deadlines, serveAt(t, pass, passing(t, direct)))
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		WriteProblem(w, http.StatusServiceUnavailable, CodeNoLeader, "none leads")
	}))
	defer refusing.Close()
	for name, addr := range map[string]string{"unix": "unix:" + socket, "plain": direct,
		"reverse proxy": "http://" + reverse.Addr().String(), "passed on": "http://" + pass.Addr().String(),
		"another controller": refusing.URL + "," + direct} {
		t.Run(name, func(t *testing.T) {
			client, err := Dial(addr)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			c, err := client.Stream(t.Context(), "/v1/steps", StepAttach{From: []int64{3}})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if f, err := c.Read(); err != nil || string(f.Data) != `{"from":[3]}` {
				t.Fatalf("%q, %v", f.Data, err)
			}
			const rounds = 200
			data := bytes.Repeat([]byte("0123456789abcdef"), 4096)
			go func() {
				for i := range rounds {
					if err := c.Write(stream.Frame{Kind: stream.Stdin, Task: uint32(i), Data: data}); err != nil {
						t.Error(err)
					}
				}
				_ = c.Write(stream.Frame{Kind: stream.StdinEnd}) // the answer tells
			}()
			for i := range rounds {
				if f, err := c.Read(); err != nil || f.Task != uint32(i) || !bytes.Equal(f.Data, data) {
					t.Fatalf("frame %d: %q %d with %d bytes, %v", i, f.Kind, f.Task, len(f.Data), err)
				}
			}
			if f, err := c.Read(); err != nil || f.Kind != stream.End || string(f.Data) != `{"code":7}` {
				t.Errorf("%q %q, %v", f.Kind, f.Data, err)
			}
			if f, err := c.Read(); !errors.Is(err, io.EOF) {
				t.Errorf("behind the last frame: %+v, %v", f, err)
			}
		})
	}
	for i, deadline := range deadlines {
		if at := deadline(); !at.IsZero() {
			t.Errorf("server %d ends its stream at %v", i, at)
		}
	}
}

func TestAStreamEndsWithItsContext(t *testing.T) {
	srv := httptest.NewServer(echo(t))
	defer srv.Close()
	client, err := Dial(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c, err := client.Stream(ctx, "/v1/steps", struct{}{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(); err != nil {
		t.Fatal(err)
	}
	cancel()
	if f, err := c.Read(); err == nil {
		t.Errorf("%+v", f)
	}
}

func TestRequestsThatGetNoStream(t *testing.T) {
	srv := httptest.NewServer(echo(t))
	defer srv.Close()
	resp, err := http.Post(srv.URL, "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusUpgradeRequired || resp.Header.Get("Upgrade") != stream.Protocol {
		t.Errorf("%s with %v", resp.Status, resp.Header)
	}
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "{}") // the client tells
	}))
	defer plain.Close()
	denying := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		WriteProblem(w, http.StatusForbidden, CodeDenied, "it is not yours")
	}))
	defer denying.Close()
	for addr, want := range map[string]string{plain.URL: "instead of opening a stream", denying.URL: "it is not yours"} {
		client, err := Dial(addr)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Stream(t.Context(), "/v1/steps", struct{}{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
