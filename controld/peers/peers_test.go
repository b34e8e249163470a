package peers

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/api/pki/pkitest"
	"github.com/rota-hpc/rota/controld/member"
)

// relay passes connections on to an address, and returns its own.
func relay(t *testing.T, to string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			go func() { _, _ = io.Copy(out, in); out.Close() }()
			go func() { _, _ = io.Copy(in, out); in.Close() }()
		}
	}()
	return l.Addr().String()
}

// gossips opens the gossip of a controller that says it serves at an address.
func gossips(t *testing.T, c *pki.Credential, at string, join ...string) *member.List {
	t.Helper()
	l, err := member.Open(member.Config{Name: c.Member.Name, Addr: "127.0.0.1:0", Join: join, Credential: c, Fast: true,
		Meta: member.Meta{Role: member.Controld, HTTP: at, Raft: at, Cluster: c.Member.Cluster}})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- l.Run(t.Context()) }()
	t.Cleanup(func() {
		<-done
		if err := l.Shutdown(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// TestAddressesAreThoseOfTheControllerItself notices a controller that is reached at an address that only
// gossip has for it, such as that of a relay, that stays known as up, or that answers for another one.
func TestAddressesAreThoseOfTheControllerItself(t *testing.T) {
	cluster := pkitest.New(t)
	c1, c2 := cluster.Member(pki.Controller, "c1"), cluster.Member(pki.Controller, "c2")
	c3 := cluster.Member(pki.Controller, "c3")
	var down atomic.Bool
	listening, err := tls.Listen("tcp", "127.0.0.1:0", c2.Server())
	if err != nil {
		t.Fatal(err)
	}
	own := listening.Addr().String()
	server := &http.Server{ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if down.Load() {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			_ = json.NewEncoder(w).Encode(State{Name: "c2", HTTP: own, Raft: "127.0.0.1:2", Gossip: "127.0.0.1:3"})
		})}
	go func() { _ = server.Serve(listening) }()
	t.Cleanup(func() { server.Close() })

	false2, false3 := relay(t, own), relay(t, own)
	list := gossips(t, c1, "127.0.0.1:1")
	gossips(t, c2, false2, list.Addr())
	gossips(t, c3, false3, list.Addr())
	client := &http.Client{Transport: &http.Transport{DialTLSContext: pki.Dialer(c1.Client(pki.Controller))}}
	t.Cleanup(client.CloseIdleConnections)
	file := filepath.Join(t.TempDir(), "peers.json")
	p := New("c1", list, identity.NewLink(c1), client, file, true, slog.New(slog.DiscardHandler))
	go func() { _ = p.Watch(t.Context()) }()
	await := func(what string, ok func() bool) {
		t.Helper()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for end := time.Now().Add(30 * time.Second); !ok(); <-tick.C {
			if time.Now().After(end) {
				t.Fatalf("no %s: %+v", what, p.All())
			}
		}
	}
	await("controller c2", func() bool { _, ok := p.Find("c2"); return ok && len(list.Controllers()) == 2 })
	if m, _ := p.Find("c2"); m.HTTP != own || m.Raft != "127.0.0.1:2" || m.Addr != "127.0.0.1:3" {
		t.Errorf("c2 is known as %+v, and serves at %s", m, own)
	}
	down.Store(true)
	await("notice that c2 is down", func() bool { return len(p.All()) == 0 })
	if at, ok := p.Raft("c2"); !ok || at != "127.0.0.1:2" {
		t.Errorf("its log was last at %q, %v", at, ok)
	}
	if _, ok := p.Raft("c3"); ok {
		t.Error("another controller's answer passes for that of c3")
	}
	again := New("c1", list, identity.NewLink(c1), client, file, true, slog.New(slog.DiscardHandler))
	if at, ok := again.Raft("c2"); !ok || at != "127.0.0.1:2" || len(again.All()) != 0 {
		t.Errorf("after a restart its log is at %q, %v, and up are %v", at, ok, again.All())
	}
	down.Store(false)
	await("controller c2 again", func() bool { return len(p.All()) == 1 })
}
