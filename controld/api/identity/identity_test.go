package identity

import (
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/api/pki/pkitest"
	"github.com/rota-hpc/rota/controld/model"
)

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
	if g.Credential != nil {
		l = tls.NewListener(l, g.Credential.Server())
	}
	srv := &http.Server{Handler: h, ConnContext: ConnContext, ErrorLog: log.New(io.Discard, "", 0)}
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
	if c.User.UID != uint32(os.Getuid()) || c.User.GID != uint32(os.Getgid()) || c.Role != "" || c.Machine {
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

// TestLoopbackPeer: plain HTTP on loopback is served in rota dev alone.
func TestLoopbackPeer(t *testing.T) {
	addr, last := whoAmI(t, &Guard{Loopback: true}, "tcp")
	rt := &http.Transport{}
	defer rt.CloseIdleConnections()
	if code, body := do(t, rt, "http://"+addr, "x", nil); code != 200 {
		t.Fatalf("%d %s", code, body)
	}
	if c := last(); c.User.UID != uint32(os.Getuid()) || c.User.User == "" || c.Role != "" {
		t.Errorf("caller is %+v", c)
	}
	other, _ := whoAmI(t, &Guard{}, "tcp")
	if code, body := do(t, rt, "http://"+other, "x", nil); code != http.StatusUnauthorized {
		t.Errorf("without rota dev: %d %s", code, body)
	}
}

// transport connects as a member, or without a certificate.
func transport(t *testing.T, c *pki.Credential, certificate bool) *http.Transport {
	conf := c.Client(pki.Controller)
	if !certificate {
		conf.GetClientCertificate = nil
	}
	rt := &http.Transport{DialTLSContext: pki.Dialer(conf)}
	t.Cleanup(rt.CloseIdleConnections)
	return rt
}

func TestMembersVouchForTheirUsers(t *testing.T) {
	cluster := pkitest.New(t)
	addr, last := whoAmI(t, &Guard{Credential: cluster.First()}, "tcp")
	id := model.Identity{UID: 1234, GID: 5, GIDs: []uint32{6, 7}, User: "ann", Home: "/home/ann"}
	h := http.Header{}
	Vouch(h, id)
	VouchGroup(h, "vision")
	for _, role := range pki.Roles() {
		rt := transport(t, cluster.Member(role, "m1"), true)
		if code, body := do(t, rt, "https://"+addr, "x", h); code != 200 {
			t.Fatalf("%s: %d %s", role, code, body)
		}
		if c := last(); c.User.UID != 1234 || c.User.User != "ann" || !slices.Equal(c.User.GIDs, id.GIDs) || c.Machine ||
			c.Group != (Group{GID: c.User.GID, Name: "vision"}) ||
			c.Role != string(role) || c.From != "m1" {
			t.Errorf("%s: caller is %+v", role, c)
		}
		if code, _ := do(t, rt, "https://"+addr, "x", nil); code != 200 || !last().Machine || last().From != "m1" {
			t.Errorf("%s for itself: %d, %+v", role, code, last())
		}
	}
}

// TestAMemberThatShowsItsCertificateAlone sends no certificate of the authority along, as other
// programs do.
func TestAMemberThatShowsItsCertificateAlone(t *testing.T) {
	cluster := pkitest.New(t)
	addr, last := whoAmI(t, &Guard{Credential: cluster.First()}, "tcp")
	conf := cluster.Member(pki.Node, "n1").Client(pki.Controller)
	whole := conf.GetClientCertificate
	conf.GetClientCertificate = func(r *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		c, err := whole(r)
		if err != nil {
			return nil, err
		}
		alone := *c
		alone.Certificate = c.Certificate[:1]
		return &alone, nil
	}
	rt := &http.Transport{DialTLSContext: pki.Dialer(conf)}
	defer rt.CloseIdleConnections()
	if code, body := do(t, rt, "https://"+addr, "x", nil); code != 200 || last().From != "n1" {
		t.Errorf("%d %s, %+v", code, body, last())
	}
}

// TestStrangersAreRefused: a caller is refused without a certificate, with one of another cluster,
// or with one that was revoked on an open connection. This holds on loopback and as root, too.
func TestStrangersAreRefused(t *testing.T) {
	cluster := pkitest.New(t)
	var revoked atomic.Bool
	cluster.First().SetRevocations(func(pki.Role, string) int64 {
		if revoked.Load() {
			return 1
		}
		return 0
	})
	addr, _ := whoAmI(t, &Guard{Credential: cluster.First()}, "tcp")
	node := cluster.Member(pki.Node, "n1")
	h := http.Header{}
	Vouch(h, model.Identity{UID: 0, User: "root"})
	for what, header := range map[string]http.Header{"for itself": nil, "for root": h} {
		if code, body := do(t, transport(t, node, false), "https://"+addr, "x", header); code != http.StatusUnauthorized {
			t.Errorf("no certificate, %s: %d %s", what, code, body)
		}
	}
	foreign := pkitest.New(t).Member(pki.Node, "n1").Client(pki.Controller)
	foreign.InsecureSkipVerify, foreign.VerifyConnection = true, nil
	rt := &http.Transport{DialTLSContext: pki.Dialer(foreign)}
	defer rt.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := rt.RoundTrip(req); err == nil {
		resp.Body.Close()
		t.Errorf("a member of another cluster: %s", resp.Status)
	} else if !pki.NotSent(err) {
		t.Errorf("a member of another cluster cannot tell that it was refused: %v", err)
	}
	good := transport(t, node, true)
	if code, body := do(t, good, "https://"+addr, "x", nil); code != 200 {
		t.Fatalf("%d %s", code, body)
	}
	revoked.Store(true)
	if code, body := do(t, good, "https://"+addr, "x", nil); code != http.StatusUnauthorized ||
		!strings.Contains(body, "revoked") {
		t.Errorf("revoked meanwhile: %d %s", code, body)
	}
}

func TestAUserMayNotVouch(t *testing.T) {
	addr, _ := whoAmI(t, &Guard{}, "unix")
	rt := &http.Transport{Dial: func(string, string) (net.Conn, error) { return net.Dial("unix", addr) }}
	defer rt.CloseIdleConnections()
	h := http.Header{}
	Vouch(h, model.Identity{UID: 0, User: "root"})
	if code, body := do(t, rt, "http://x/", "", h); code != http.StatusForbidden {
		t.Errorf("%d %s", code, body)
	}
	Unvouch(h)
	if len(h) != 0 {
		t.Errorf("left: %v", h)
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r = r.WithContext(ConnContext(r.Context(), strangerConn{}))
	p := r.Context().Value(connKey{}).(*peerOnce)
	p.once.Do(func() { p.peer = Peer{UID: uint32(os.Getuid()) + 12345, TCP: true} })
	if _, err := (&Guard{Loopback: true}).Caller(r); !errors.Is(err, ErrUnauthorised) {
		t.Errorf("an unknown account: %v", err)
	}
}

// openLink is a link of a controller whose log is open.
func openLink(c *pki.Credential) *Link {
	l := NewLink(c)
	l.SetGeneration(func() (string, bool) { return "0", true })
	return l
}

// TestALinkIsForControllers: only controllers of this cluster get through to the log.
func TestALinkIsForControllers(t *testing.T) {
	cluster := pkitest.New(t)
	addr := echo(t, openLink(cluster.First()))
	for what, c := range map[string]struct {
		from  *pki.Credential
		to    string
		works bool
	}{
		"a controller": {cluster.Member(pki.Controller, "c2"), "first", true},
		"a controller that takes it for another one": {cluster.Member(pki.Controller, "c2"), "c3", false},
		"a node":                          {cluster.Member(pki.Node, "n1"), "first", false},
		"a login node":                    {cluster.Member(pki.Login, "l1"), "first", false},
		"a controller of another cluster": {pkitest.New(t).First(), "first", false},
	} {
		conn, err := openLink(c.from).Dial(t.Context(), c.to, addr)
		if works := err == nil && hears(t, conn); works != c.works {
			t.Errorf("%s: works %t: %v", what, works, err)
		}
	}
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if hears(t, conn) {
		t.Error("a caller without TLS got through")
	}
}

// echo answers on every connection that a link lets in with what it reads, and returns its address.
func echo(t *testing.T, l *Link) string {
	t.Helper()
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { plain.Close() })
	guarded := l.Listen(plain)
	go func() {
		for {
			c, err := guarded.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				io.Copy(c, c) // until it is closed
			}()
		}
	}()
	return plain.Addr().String()
}

// hears says "hello" on a connection and reports whether it came back.
func hears(t *testing.T, c net.Conn) bool {
	t.Helper()
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "hello"); err != nil {
		return false
	}
	b := make([]byte, 5)
	_, err := io.ReadFull(c, b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("the connection stays open and nothing comes")
	}
	return err == nil && string(b) == "hello"
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
		{"127.0.0.1:8081", "0.0.0.0:0", 0, false},       // it listens
	} {
		uid, ok := socketOwner(table, netip.MustParseAddrPort(c.local), netip.MustParseAddrPort(c.remote))
		if uid != c.uid || ok != c.ok {
			t.Errorf("%s to %s: %d, %v", c.local, c.remote, uid, ok)
		}
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
