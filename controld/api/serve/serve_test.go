package serve

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// patience bounds what a test waits for a server that does not answer.
const patience = 20 * time.Second

// server answers with the body of each request, within the limits that change sets.
func server(t *testing.T, change func(*http.Server)) (addr string, begun *atomic.Int64, stop func() error) {
	t.Helper()
	l, err := TCP("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	begun = new(atomic.Int64)
	srv := NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun.Add(1)
		b, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_, _ = w.Write(b) // the client may be gone
	}), slog.New(slog.DiscardHandler))
	if change != nil {
		change(srv)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Until(ctx, l, srv, patience) }()
	stop = func() error {
		cancel()
		return <-done
	}
	return l.Addr().String(), begun, stop
}

func dial(t *testing.T, addr string) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c, bufio.NewReader(c)
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

func post(fields, body string) string {
	return "POST /v1/jobs HTTP/1.1\r\nHost: here\r\n" + fields + "Content-Length: " + strconv.Itoa(len(body)) +
		"\r\n\r\n" + body
}

// TestStop keeps a connection idle and another in the middle of a request: the one is closed, the
// other is answered first.
func TestStop(t *testing.T) {
	addr, begun, stop := server(t, nil)
	idle, in := dial(t, addr)
	send(t, idle, post("", "{}"))
	if _, err := http.ReadResponse(in, nil); err != nil {
		t.Fatal(err)
	}
	busy, answer := dial(t, addr)
	request := post("", "{}")
	send(t, busy, request[:len(request)-1])
	for begun.Load() < 2 { // its handler is reading the body
		<-time.After(time.Millisecond)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	if _, err := io.Copy(io.Discard, in); err != nil {
		t.Errorf("the idle connection was not closed: %v", err)
	}
	send(t, busy, request[len(request)-1:])
	if resp, err := http.ReadResponse(answer, nil); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("the request in progress: %v, %v", resp, err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

func TestABodyThatDoesNotComeIsNotWaitedForForEver(t *testing.T) {
	addr, _, stop := server(t, func(srv *http.Server) { srv.ReadTimeout = 20 * time.Millisecond })
	c, in := dial(t, addr)
	request := post("", "{}")
	send(t, c, request[:len(request)-1])
	if resp, err := http.ReadResponse(in, nil); err != nil || resp.StatusCode != http.StatusBadRequest {
		t.Fatalf("%v, %v", resp, err)
	}
	if _, err := io.Copy(io.Discard, in); err != nil {
		t.Errorf("the connection stays: %v", err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestALongHeaderIsRefused(t *testing.T) {
	addr, begun, stop := server(t, nil)
	c, in := dial(t, addr)
	_, _ = io.WriteString(c, post("A: "+strings.Repeat("x", 2*maxHeader)+"\r\n", "{}")) // it may be refused before its end
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge || begun.Load() != 0 {
		t.Errorf("%v, %v, handled %d times", resp, err, begun.Load())
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestAPortInUse(t *testing.T) {
	l, err := TCP("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := TCP(l.Addr().String()); !errors.Is(err, syscall.EADDRINUSE) ||
		!strings.Contains(err.Error(), "choose another port") {
		t.Error(err)
	}
}

func TestASocketThatIsThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "rota.sock")
	first, err := Unix(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o666 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := Unix(path); err == nil || !strings.Contains(err.Error(), "another process listens") {
		t.Errorf("of a running daemon: %v", err)
	}
	first.(*limited).Listener.(*net.UnixListener).SetUnlinkOnClose(false)
	first.Close()
	second, err := Unix(path)
	if err != nil {
		t.Fatalf("of a daemon that was killed: %v", err)
	}
	second.Close()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Unix(path); err == nil || !strings.Contains(err.Error(), "is not a socket") {
		t.Errorf("another file: %v", err)
	}
}
