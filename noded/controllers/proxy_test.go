package controllers

import (
	"context"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/api/pki/pkitest"
	"github.com/rota-hpc/rota/controld/member"
	"github.com/rota-hpc/rota/controld/model"
)

// serving returns the address of a server with the credential of a member, which notes requests and
// answers with a body.
func serving(t *testing.T, c *pki.Credential, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.TLS, s.Config.ErrorLog = c.Server(), log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// A request that reaches a controller without a user in it is the node's own and may do anything:
// no client may cause such a request.
func TestTheProxyAlwaysNamesTheUser(t *testing.T) {
	cluster := pkitest.New(t)
	seen := make(chan http.Header, 1)
	controller := serving(t, cluster.First(), func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header.Clone() })
	c := &Controllers{Credential: cluster.Member(pki.Node, "n1"), Static: []string{controller},
		Log: slog.New(slog.DiscardHandler)}
	if err := c.SetPeers(nil); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: c.ProxyHandler(), ConnContext: identity.ConnContext}
	done := make(chan struct{})
	go func() { defer close(done); srv.Serve(l) }()
	defer func() { srv.Close(); <-done }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		Dial: func(string, string) (net.Conn, error) { return net.Dial("unix", path) }}}
	for _, h := range []http.Header{
		{},
		{"Connection": {"Rota-Uid, Rota-Gid, Rota-Gids, Rota-User, Rota-Home"}},
		{"Rota-Uid": {"4711"}, "Rota-User": {"other"}},
		{"Authorization": {"Bearer token"}}, // which counts for the controller, and not this node's word
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://rota/v1/jobs", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header = h
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		got := <-seen
		if token := got.Get("Authorization"); token != h.Get("Authorization") {
			t.Errorf("with %v the controller got %q in place of the token", h, token)
		}
		if got.Get("Rota-Uid") != strconv.Itoa(os.Getuid()) || got.Get("Rota-User") == "" ||
			got.Get("Rota-User") == "other" {
			t.Errorf("with %v the controller got user %q, uid %q", h, got.Get("Rota-User"), got.Get("Rota-Uid"))
		}
	}
}

// TestAFalseControllerIsNotObeyed: a user of this machine listens at the port of a controller that
// was killed, and answers as a controller would: without TLS, with a certificate of its own making,
// with that of a node. Every request goes to the honest controller instead, and nothing of what the
// false one orders is done.
func TestAFalseControllerIsNotObeyed(t *testing.T) {
	cluster := pkitest.New(t)
	evil := func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"index":666}`) }
	plain := httptest.NewServer(http.HandlerFunc(evil))
	defer plain.Close()
	honest := serving(t, cluster.First(), func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"index":7}`)
	})
	for what, at := range map[string]string{
		"without TLS":                     plain.Listener.Addr().String(),
		"a cluster of its own":            serving(t, pkitest.New(t).First(), evil),
		"a node":                          serving(t, cluster.Member(pki.Node, "n2"), evil),
		"a login node":                    serving(t, cluster.Member(pki.Login, "l1"), evil),
		"a controller that expired":       serving(t, cluster.Expired(pki.Controller, "c2", time.Now()), evil),
		"a controller that refuses nodes": serving(t, cluster.Member(pki.Controller, "c3"), refuse(http.StatusUnauthorized)),
		"a controller with a wrong clock": serving(t, cluster.Member(pki.Controller, "c4"), refuse(http.StatusForbidden)),
	} {
		c := &Controllers{Credential: cluster.Member(pki.Node, "n1"), Log: slog.New(slog.DiscardHandler)}
		var peers []member.Peer
		for _, addr := range []string{at, honest} {
			peers = append(peers, member.Peer{Name: addr, Meta: member.Meta{Role: member.Controld, HTTP: addr}})
		}
		if err := c.SetPeers(peers); err != nil {
			t.Fatal(err)
		}
		if got, err := c.Allocs(t.Context(), "n1", "boot", 0, 0, api.Echo{}); err != nil || got.Index != 7 {
			t.Errorf("%s: the node got %+v, %v", what, got, err)
		}
		// The same for what a user sends through this node's socket.
		r := httptest.NewRequest(http.MethodPost, "/v1/jobs", strings.NewReader("{}"))
		r = r.WithContext(context.WithValue(r.Context(), callerKey{}, Caller{User: model.Identity{UID: 1000, User: "ann"}}))
		next := &http.Transport{DialTLSContext: pki.Dialer(c.Credential.Client(pki.Controller))}
		defer next.CloseIdleConnections()
		resp, err := (&anyController{of: c, next: next}).RoundTrip(r)
		if err != nil {
			t.Errorf("%s: a user's request: %v", what, err)
			continue
		}
		if b, err := io.ReadAll(resp.Body); err != nil || string(b) != `{"index":7}` &&
			resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s: a user's request is answered with %s, %v", what, b, err)
		}
		resp.Body.Close()
	}
}

// refuse answers every request with a problem.
func refuse(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		code := api.CodeDenied
		if status == http.StatusUnauthorized {
			code = api.CodeUnauthorised
		}
		api.WriteProblem(w, status, code, "the clocks differ")
	}
}

// TestAHalfSentBodyIsCut: a local user announces a body at the socket and never sends the rest. The
// connection is cut, and nothing of the request reaches a controller.
func TestAHalfSentBodyIsCut(t *testing.T) {
	cluster := pkitest.New(t)
	asked := make(chan struct{}, 1)
	controller := serving(t, cluster.First(), func(http.ResponseWriter, *http.Request) { asked <- struct{}{} })
	c := &Controllers{Credential: cluster.Member(pki.Node, "n1"), Static: []string{controller},
		Log: slog.New(slog.DiscardHandler)}
	if err := c.SetPeers(nil); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: c.ProxyHandler(), ConnContext: identity.ConnContext,
		ReadTimeout: 100 * time.Millisecond}
	done := make(chan struct{})
	go func() { defer close(done); srv.Serve(l) }()
	defer func() { srv.Close(); <-done }()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn,
		"POST /v1/jobs HTTP/1.1\r\nHost: rota\r\nContent-Length: 1000000\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn) // until the daemon closes it
	if err != nil || len(answer) > 0 && !strings.Contains(string(answer), "400") {
		t.Errorf("%s, %v", answer, err)
	}
	select {
	case <-asked:
		t.Error("half a request was passed on")
	default:
	}
}
