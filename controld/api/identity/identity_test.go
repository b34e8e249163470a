package identity

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/model"
)

var testKey = Key("0123456789abcdef0123456789abcdef")

// whoAmI serves a guarded handler that notes its caller.
func whoAmI(t *testing.T, g *Guard, network string) (addr string, last func() Caller) {
	t.Helper()
	var seen Caller
	h := g.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen, _ = CallerOf(r.Context())
		io.Copy(w, r.Body) // the client compares
	}), func(w http.ResponseWriter, _ *http.Request, err error) {
		status := http.StatusUnauthorized
		if errors.Is(err, ErrVouch) {
			status = http.StatusForbidden
		}
		http.Error(w, err.Error(), status)
	})
	listen := "127.0.0.1:0"
	if network == "unix" {
		listen = filepath.Join(t.TempDir(), "s")
	}
	l, err := net.Listen(network, listen)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: h, ConnContext: ConnContext}
	done := make(chan struct{})
	go func() { defer close(done); srv.Serve(l) }()
	t.Cleanup(func() { srv.Close(); <-done })
	return l.Addr().String(), func() Caller { return seen }
}

func do(t *testing.T, rt http.RoundTripper, url, body string, h http.Header) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range h {
		req.Header[k] = v
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestUnixPeer(t *testing.T) {
	addr, last := whoAmI(t, &Guard{}, "unix")
	rt := &http.Transport{Dial: func(string, string) (net.Conn, error) { return net.Dial("unix", addr) }}
	defer rt.CloseIdleConnections()
	if code, body := do(t, rt, "http://x/", "hello", nil); code != 200 || body != "hello" {
		t.Fatalf("%d %s", code, body)
	}
	c := last()
	if c.User.UID != uint32(os.Getuid()) || c.User.GID != uint32(os.Getgid()) || !c.Trusted || c.Machine {
		t.Errorf("caller is %+v", c)
	}
	groups, err := os.Getgroups()
	if err != nil {
		t.Fatal(err)
	}
	var want []uint32
	for _, g := range groups {
		if g != os.Getgid() && !slices.Contains(want, uint32(g)) {
			want = append(want, uint32(g))
		}
	}
	slices.Sort(want)
	if !slices.Equal(slices.Compact(c.User.GIDs), want) {
		t.Errorf("groups are %v, want %v", c.User.GIDs, want)
	}
}

func TestLoopbackPeer(t *testing.T) {
	addr, last := whoAmI(t, &Guard{}, "tcp")
	rt := &http.Transport{}
	defer rt.CloseIdleConnections()
	if code, body := do(t, rt, "http://"+addr, "x", nil); code != 200 {
		t.Fatalf("%d %s", code, body)
	}
	if c := last(); c.User.UID != uint32(os.Getuid()) || c.User.User == "" {
		t.Errorf("caller is %+v", c)
	}
}

func TestVouching(t *testing.T) {
	addr, last := whoAmI(t, &Guard{Key: testKey}, "tcp")
	rt := &http.Transport{}
	defer rt.CloseIdleConnections()
	id := model.Identity{UID: 1234, GID: 5, GIDs: []uint32{6, 7}, User: "ann", Home: "/home/ann"}
	h := http.Header{}
	Vouch(h, id)
	signer := &Signer{Key: testKey, From: "n1", Next: rt}
	for what, via := range map[string]http.RoundTripper{"the daemon's own account": rt, "a machine": signer} {
		if code, body := do(t, via, "http://"+addr, "x", h); code != 200 {
			t.Fatalf("%s: %d %s", what, code, body)
		}
		if c := last(); c.User.UID != 1234 || c.User.User != "ann" || !slices.Equal(c.User.GIDs, id.GIDs) || c.Machine {
			t.Errorf("%s: caller is %+v", what, c)
		}
	}
	if code, _ := do(t, signer, "http://"+addr, "x", nil); code != 200 || !last().Machine || last().From != "n1" {
		t.Errorf("a machine for itself: %d, %+v", code, last())
	}
}

func TestSignatures(t *testing.T) {
	addr, _ := whoAmI(t, &Guard{Key: testKey}, "tcp")
	rt := &http.Transport{}
	defer rt.CloseIdleConnections()
	change := func(f func(*http.Request)) http.RoundTripper {
		return &Signer{Key: testKey, From: "n1", Next: roundTrip(func(r *http.Request) (*http.Response, error) {
			f(r)
			return rt.RoundTrip(r)
		})}
	}
	for what, via := range map[string]http.RoundTripper{
		"another key":    &Signer{Key: Key("another key, long enough"), Next: rt},
		"another path":   change(func(r *http.Request) { r.URL.Path = "/other" }),
		"another query":  change(func(r *http.Request) { r.URL.RawQuery = "a=b" }),
		"another body":   change(func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader("EVIL")) }),
		"another user":   change(func(r *http.Request) { r.Header.Set(headerUID, "0") }),
		"another key id": change(func(r *http.Request) { r.Header.Set("Idempotency-Key", "x") }),
		"an old time":    change(func(r *http.Request) { r.Header.Set(headerTime, "1000") }),
		"no time":        change(func(r *http.Request) { r.Header.Del(headerTime) }),
	} {
		if code, body := do(t, via, "http://"+addr+"/p", "good", nil); code != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", what, code, body)
		}
	}
	var copied http.Header
	first := change(func(r *http.Request) { copied = r.Header.Clone() })
	if code, body := do(t, first, "http://"+addr+"/p", "good", nil); code != 200 || body != "good" {
		t.Fatalf("%d %s", code, body)
	}
	if code, body := do(t, rt, "http://"+addr+"/p", "good", copied); code != http.StatusUnauthorized ||
		!strings.Contains(body, "seen before") {
		t.Errorf("a replay: %d %s", code, body)
	}
	open, _ := whoAmI(t, &Guard{}, "tcp")
	if code, body := do(t, first, "http://"+open+"/p", "good", nil); code != http.StatusUnauthorized {
		t.Errorf("without a key here: %d %s", code, body)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestAStrangerMayNotVouch(t *testing.T) {
	g := &Guard{}
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r = r.WithContext(ConnContext(r.Context(), strangerConn{}))
	p := r.Context().Value(connKey{}).(*peerOnce)
	p.once.Do(func() { p.peer = Peer{UID: uint32(os.Getuid()) + 12345, TCP: true} })
	Vouch(r.Header, model.Identity{UID: 0, User: "root"})
	if _, err := g.Caller(w, r); !errors.Is(err, ErrVouch) {
		t.Errorf("got %v", err)
	}
	Unvouch(r.Header)
	if len(r.Header) != 0 {
		t.Errorf("left: %v", r.Header)
	}
	if _, err := g.Caller(w, r); !errors.Is(err, ErrUnauthorised) {
		t.Errorf("an unknown account: %v", err)
	}
}

type strangerConn struct{ net.Conn }

func TestSocketOwner(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
   1: 0100007F:1F90 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 2 1 0 100 0 0 10 0
   2: 0100007F:D431 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1001        0 3 1 0 100 0 0 10 0
   3: 00000000000000000000000001000000:D431 00000000000000000000000001000000:1F90 01 00000000:00000000 ` +
		`00:00000000 00000000  1002 0 4
   4: 0100007F:D433 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 0 1 0 100 0 0 10 0
   5: 00000000:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1003        0 5 1 0 100 0 0 10 0
`
	for _, c := range []struct {
		local, remote string
		uid           uint32
		ok            bool
	}{
		{"127.0.0.1:54321", "127.0.0.1:8080", 1001, true},
		{"[::1]:54321", "[::1]:8080", 1002, true},
		{"127.0.0.1:54322", "127.0.0.1:8080", 0, false},
		{"127.0.0.2:54321", "127.0.0.1:8080", 0, false},
		{"127.0.0.1:54323", "127.0.0.1:8080", 0, false}, // no process has it any more
		{"127.0.0.1:8081", "0.0.0.0:0", 1003, true},
		{"127.0.0.1:54321", "0.0.0.0:0", 0, false},
	} {
		uid, ok := socketOwner(table, netip.MustParseAddrPort(c.local), netip.MustParseAddrPort(c.remote))
		if uid != c.uid || ok != c.ok {
			t.Errorf("%s to %s: %d, %v", c.local, c.remote, uid, ok)
		}
	}
}

func TestReadKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	for _, c := range []struct {
		text string
		mode os.FileMode
		says string
	}{
		{"short", 0o600, "at least"},
		{"0123456789abcdef0123", 0o644, "chmod"},
		{"  0123456789abcdef0123\n", 0o640, ""},
	} {
		os.Remove(path)
		if err := os.WriteFile(path, []byte(c.text), c.mode); err != nil {
			t.Fatal(err)
		}
		key, err := ReadKey(path)
		if c.says == "" {
			if err != nil || !bytes.Equal(key, []byte("0123456789abcdef0123")) {
				t.Errorf("%q: %q, %v", c.text, key, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v", c.text, err)
		}
	}
	if a, b := testKey.Sum("gossip"), testKey.Sum("other"); len(a) != 32 || bytes.Equal(a, b) || Key(nil).Sum("x") != nil {
		t.Error("keys for different purposes must differ and have 32 bytes")
	}
}

func TestNoncesAreForgottenInTime(t *testing.T) {
	var n nonces
	now := time.Now()
	if err := n.add("a", now); err != nil {
		t.Fatal(err)
	}
	if err := n.add("a", now.Add(2*window+time.Second)); !errors.Is(err, errReplayed) {
		t.Errorf("within the window: %v", err)
	}
	if err := n.add("b", now.Add(5*window)); err != nil {
		t.Fatal(err)
	}
	if err := n.add("a", now.Add(10*window)); err != nil {
		t.Errorf("long after: %v", err)
	}
}

// TestAClosedConnectionIsNobodys closes a connection before it is known whose it is. The kernel
// says root's.
func TestAClosedConnectionIsNobodys(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	there, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	if _, err := io.WriteString(c, "POST /v1/jobs HTTP/1.1\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(there); err != nil { // the end has come, and has been confirmed
		t.Fatal(err)
	}
	for range 100 { // the kernel forgets the socket by and by
		if p, err := peerOfConn(there); err == nil {
			t.Fatalf("it is taken for uid %d's", p.UID)
		}
	}
}

func TestDiagOwner(t *testing.T) {
	for _, listen := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", listen)
		if err != nil {
			t.Logf("skipped %s: %v", listen, err)
			continue
		}
		defer l.Close()
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		local, remote := netip.MustParseAddrPort(c.LocalAddr().String()), netip.MustParseAddrPort(c.RemoteAddr().String())
		uid, err := diagOwner(local, remote)
		if errors.Is(err, syscall.EPROTONOSUPPORT) || errors.Is(err, syscall.ENOENT) {
			t.Skipf("the kernel has no socket monitoring: %v", err)
		}
		if err != nil || uid != uint32(os.Getuid()) {
			t.Errorf("%s: uid %d, %v", listen, uid, err)
		}
		if _, err := diagOwner(netip.AddrPortFrom(local.Addr(), 1), remote); !errors.Is(err, errNoSocket) {
			t.Errorf("%s: no such socket: %v", listen, err)
		}
	}
}
