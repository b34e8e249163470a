package exchange

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/api/pki/pkitest"
	"github.com/rota-hpc/rota/controld/server/servertest"
)

// TestAStreamEndsWithItsCertificate notices a stream that goes on after the certificate of the member that
// vouches for its user was revoked. It also notices a stream that ends because a certificate has merely
// expired.
func TestAStreamEndsWithItsCertificate(t *testing.T) {
	ours := pkitest.New(t)
	s := &Service{Config: Config{Credential: ours.First(), Log: slog.New(slog.DiscardHandler)}}
	var revoked atomic.Bool
	s.Credential.SetRevocations(func(r pki.Role, name string) int64 {
		if revoked.Load() && r == pki.Login && name == "l1" {
			return 1
		}
		return 0
	})
	open := func(c *pki.Credential) context.Context {
		cert, err := c.Client(pki.Controller).GetClientCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(cert.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		x := ask("GET", "/v1/x", servertest.Named("ann", 7))
		x.s, x.Request.TLS = s, &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}
		ctx, cancel := x.WhileCredentialHolds(t.Context())
		t.Cleanup(cancel)
		return ctx
	}
	past := time.Now().Add(-time.Second)
	lapsed, expired := open(ours.Expired(pki.Login, "l1", past)), open(ours.Expired(pki.Login, "l2", past))
	good, other := open(ours.Member(pki.Login, "l1")), open(ours.Member(pki.Login, "l2"))
	for range 2 { // it was asked in between
		select {
		case <-good.Done():
			t.Fatal("a stream ends although its certificate holds")
		case <-time.After(lapseEvery):
		}
	}
	revoked.Store(true)
	for what, ctx := range map[string]context.Context{"its certificate": good, "its expired certificate": lapsed} {
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Second): // a second on a quiet machine
			t.Errorf("a stream goes on although %s was revoked", what)
		}
	}
	if err := errors.Join(expired.Err(), other.Err()); err != nil {
		t.Errorf("another stream has ended: %v", err)
	}
}
