package api

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/api/pki/pkitest"
)

// TestAMachineJoins asks a controller to join as an operator's command does: with an address as
// typed, and again when the first answer is lost. It ends with a certificate on disk, or with a
// message that says what to do.
func TestAMachineJoins(t *testing.T) {
	ours := pkitest.New(t).First()
	token := ours.NewToken()
	var mu sync.Mutex
	var asked []JoinRequest
	var losses int // answers that get lost
	begin := func(lost int) {
		mu.Lock()
		defer mu.Unlock()
		asked, losses = nil, lost
	}
	requests := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(asked)
	}
	answer := func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		var req JoinRequest
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil || r.Method+" "+r.RequestURI != "POST /v1/join" {
			t.Errorf("%s %s: %v", r.Method, r.RequestURI, err)
		}
		asked = append(asked, req)
		if losses > 0 {
			losses--
			panic(http.ErrAbortHandler)
		}
		if req.Secret != token.Secret() {
			WriteProblem(w, http.StatusForbidden, CodeDenied, "the token is used up")
			return
		}
		grant, err := ours.Grant([]byte(req.Request), pki.Role(req.Role), req.Name, []string{"192.0.2.1:7072"})
		if err != nil {
			t.Error(err)
		}
		if err := json.NewEncoder(w).Encode(grant); err != nil {
			t.Error(err)
		}
	}
	addr := secured(t, ours.Server(), answer)
	for i, typed := range []string{addr, "https://" + addr, " https://" + addr + "/ \n"} {
		begin(min(i, 1))
		dir := filepath.Join(t.TempDir(), "tls")
		grant, err := Join(t.Context(), typed, token, pki.Node, "gpu1", dir)
		if err != nil {
			t.Fatalf("%q: %v", typed, err)
		}
		got, err := pki.Load(dir)
		if err != nil || got.Member.Role != pki.Node || got.Member.Name != "gpu1" ||
			!slices.Equal(grant.Seeds, []string{"192.0.2.1:7072"}) {
			t.Errorf("%q: %+v with the seeds %q, %v", typed, got, grant.Seeds, err)
		}
		if n := requests(); n != 1+min(i, 1) {
			t.Errorf("%q: %d requests", typed, n)
		}
	}
	dir := filepath.Join(t.TempDir(), "tls")
	if _, err := Join(t.Context(), addr, ours.NewToken(), pki.Node, "gpu1", dir); err == nil ||
		!strings.HasPrefix(err.Error(), "join at "+addr+": ") || !strings.Contains(err.Error(), "the token is used up") {
		t.Errorf("a token that is refused: %v", err)
	}
	begin(0)
	theirs := pkitest.New(t).First().NewToken()
	if _, err := Join(t.Context(), addr, theirs, pki.Node, "gpu1", dir); !errors.Is(err, pki.ErrOtherCluster) ||
		!strings.Contains(err.Error(), "("+addr+"): check that the token") || requests() > 0 {
		t.Errorf("a token of another cluster: %v after %d requests", err, requests())
	}
	if _, err := pki.Load(dir); err == nil {
		t.Error("a machine that was refused has a certificate")
	}
	gone, stop := context.WithCancel(t.Context())
	stop()
	if _, err := Join(gone, "192.0.2.1", token, pki.Node, "gpu1", dir); !errors.Is(err, context.Canceled) ||
		!strings.Contains(err.Error(), "join at 192.0.2.1:7070: ") {
		t.Errorf("an address without a port: %v", err)
	}
}

// secured serves with TLS and returns the address.
func secured(t *testing.T, conf *tls.Config, answer http.HandlerFunc) string {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", conf)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, l, answer)
	return l.Addr().String()
}

// serve answers on a listener until the test ends.
func serve(t *testing.T, l net.Listener, answer http.HandlerFunc) *http.Server {
	s := &http.Server{Handler: answer}
	done := make(chan error)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return s
}

// TestTheSocketOfTheMachine asks a daemon by its socket, and drops the connection afterwards.
func TestTheSocketOfTheMachine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rota.sock")
	for _, addr := range []string{"unix:" + path, "unix://" + path} {
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		closed := make(chan net.Conn, 1)
		s := &http.Server{Handler: http.HandlerFunc(submitted), ConnState: func(c net.Conn, now http.ConnState) {
			if now == http.StateClosed {
				closed <- c
			}
		}}
		go s.Serve(l)
		defer s.Close()
		c := dialTest(t, addr, Options{})
		for range 3 {
			if err := submit(c, t.Context()); err != nil {
				t.Fatalf("%s: %v", addr, err)
			}
		}
		if len(closed) > 0 {
			t.Errorf("%s: a connection is used once", addr)
		}
		c.Close()
		<-closed
		s.Close()
	}
}

// TestACertificateIsRenewed hands out what the controller has signed, and nothing with a refusal.
func TestACertificateIsRenewed(t *testing.T) {
	addr, _ := answers(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"cert":"new"}`) },
		problem(403, CodeDenied))
	c := dialTest(t, addr, Options{})
	if cert, err := c.RenewCertificate(t.Context(), []byte("csr")); err != nil || string(cert) != "new" {
		t.Errorf("%q, %v", cert, err)
	}
	if cert, err := c.RenewCertificate(t.Context(), []byte("csr")); err == nil || cert != nil {
		t.Errorf("a refusal: %q, %v", cert, err)
	}
}
