package pki_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/api/pki/pkitest"
)

// talk has two ends of a connection say something to each other, and returns what each end failed
// with. TLS tells a client of its refusal when it reads.
func talk(t *testing.T, client, server *tls.Config) (there, here error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	done := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			done <- err
			return
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		secure := tls.Server(c, server)
		err = secure.Handshake()
		if err == nil {
			_, err = io.WriteString(secure, "hello")
		}
		done <- err
	}()
	c, err := pki.Dialer(client)(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		return err, <-done
	}
	defer c.Close()
	b := make([]byte, 5)
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	_, err = io.ReadFull(c, b)
	return err, <-done
}

func TestMembersKnowEachOther(t *testing.T) {
	ours, theirs := pkitest.New(t), pkitest.New(t)
	controller, node := ours.Member(pki.Controller, "c2"), ours.Member(pki.Node, "n1")
	login := ours.Member(pki.Login, "l1")
	expired := ours.Expired(pki.Node, "n2", time.Now().Add(-time.Minute))
	for what, c := range map[string]struct {
		client, server *tls.Config
		works          bool
	}{
		"a node at a controller":            {node.Client(pki.Controller), controller.Server(), true},
		"a login node at a controller":      {login.Client(pki.Controller), controller.Server(), true},
		"controllers":                       {controller.Client(pki.Controller), controller.Server(pki.Controller), true},
		"a clock 24 hours behind":           {behind(node.Client(pki.Controller)), behind(controller.Server()), true},
		"a node that poses as a controller": {node.Client(pki.Controller), node.Server(), false},
		"a login node that poses as a node": {controller.Client(pki.Node), login.Server(), false},
		"a node at the log":                 {node.Client(pki.Controller), controller.Server(pki.Controller), false},
		"no certificate at the log":         {anonymous(node), controller.Server(pki.Controller), false},
		"a node of another cluster": {theirs.Member(pki.Node, "n1").Client(pki.Controller), controller.Server(),
			false},
		"a controller of another cluster":       {node.Client(pki.Controller), theirs.First().Server(), false},
		"the same, which takes any":             {node.Client(pki.Controller), greedy(theirs.First()), false},
		"a node of another cluster that trusts": {trusting(theirs.Member(pki.Node, "n1")), controller.Server(), false},
		"an expired node":                       {expired.Client(pki.Controller), controller.Server(), false},
		"an expired controller": {node.Client(pki.Controller),
			ours.Expired(pki.Controller, "c3", time.Now().Add(-time.Minute)).Server(), false},
	} {
		there, here := talk(t, c.client, c.server)
		if works := there == nil && here == nil; works != c.works {
			t.Errorf("%s: works %t: %v; %v", what, works, there, here)
		}
		if there != nil && !pki.NotSent(there) {
			t.Errorf("%s: the client cannot tell that another machine may be asked: %v", what, there)
		}
	}
	if there, here := talk(t, anonymous(node), controller.Server()); there != nil || here != nil {
		t.Errorf("a caller without certificate, which may have a token: %v; %v", there, here)
	}
}

func behind(conf *tls.Config) *tls.Config {
	conf.Time = func() time.Time { return time.Now().Add(-24 * time.Hour) }
	return conf
}

func anonymous(c *pki.Credential) *tls.Config {
	conf := c.Client(pki.Controller)
	conf.GetClientCertificate = nil
	return conf
}

func greedy(c *pki.Credential) *tls.Config {
	conf := c.Server()
	conf.ClientAuth = tls.NoClientCert
	return conf
}

func trusting(c *pki.Credential) *tls.Config {
	conf := c.Client(pki.Controller)
	conf.InsecureSkipVerify, conf.VerifyConnection = true, nil
	return conf
}

func TestAVerifiedMemberMayExpireOrBeRevokedLater(t *testing.T) {
	ours := pkitest.New(t)
	controller, node := ours.First(), ours.Member(pki.Node, "n1")
	shown := func(c *pki.Credential) *tls.ConnectionState {
		cert, err := c.Client(pki.Controller).GetClientCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return &tls.ConnectionState{PeerCertificates: certs(t, cert)}
	}
	if m, err := controller.Verify(shown(node)); err != nil || m.Role != pki.Node || m.Name != "n1" {
		t.Fatalf("%+v, %v", m, err)
	}
	for what, c := range map[string]*tls.ConnectionState{
		"no certificate":  {},
		"another cluster": shown(pkitest.New(t).Member(pki.Node, "n1")),
		"expired since":   shown(ours.Expired(pki.Node, "n1", time.Now().Add(-time.Second))),
	} {
		if _, err := controller.Verify(c); err == nil {
			t.Errorf("%s: it is taken", what)
		}
	}
	controller.SetRevocations(func(r pki.Role, name string) int64 {
		if r == pki.Node && name == "n1" {
			return 1
		}
		return 0
	})
	if _, err := controller.Verify(shown(node)); !errors.Is(err, pki.ErrRevoked) {
		t.Errorf("a revoked certificate: %v", err)
	}
	if _, err := controller.Verify(shown(ours.Member(pki.Node, "n1"))); err != nil {
		t.Errorf("after it has joined again: %v", err)
	}
	if _, err := controller.Verify(shown(ours.Member(pki.Login, "n1"))); err != nil {
		t.Errorf("the same name in another role: %v", err)
	}
	if there, here := talk(t, node.Client(pki.Controller), controller.Server(pki.Node)); there == nil ||
		!errors.Is(here, pki.ErrRevoked) {
		t.Errorf("a new connection with a revoked certificate: %v; %v", there, here)
	}
}

func TestAMachineJoinsWithAToken(t *testing.T) {
	ours, theirs := pkitest.New(t), pkitest.New(t)
	controller := ours.First()
	token, err := pki.ParseToken(" " + controller.NewToken().String() + "\n")
	if err != nil {
		t.Fatal(err)
	}
	if there, here := talk(t, token.Client(), controller.Server()); there != nil || here != nil {
		t.Errorf("the controller of the token: %v; %v", there, here)
	}
	if there, _ := talk(t, token.Client(), theirs.First().Server()); !errors.Is(there, pki.ErrOtherCluster) {
		t.Errorf("a controller of another cluster: %v", there)
	}
	if there, _ := talk(t, token.Client(), ours.Member(pki.Node, "n1").Server()); there == nil {
		t.Error("a node that poses as a controller is taken for one")
	}
	for _, r := range pki.Roles() {
		req, err := pki.NewRequest()
		if err != nil {
			t.Fatal(err)
		}
		grant, err := controller.Grant(req.PEM, r, "m1", []string{"127.0.0.1:7072"})
		if err != nil {
			t.Fatal(err)
		}
		if (grant.CAKey != "") != (r == pki.Controller) {
			t.Errorf("%s gets the authority's key: %t", r, grant.CAKey != "")
		}
		dir := filepath.Join(t.TempDir(), "data", "tls")
		if err := req.Install(dir, grant); err != nil {
			t.Fatal(err)
		}
		got, err := pki.Load(dir)
		if err != nil || got.Member.Role != r || got.Member.Name != "m1" || got.Member.Cluster != controller.Member.Cluster ||
			!slices.EqualFunc(got.GossipKeys(), controller.GossipKeys(), bytes.Equal) ||
			!slices.Equal(got.Seeds, []string{"127.0.0.1:7072"}) {
			t.Errorf("%s: %+v, %v", r, got, err)
		}
	}
}

func TestTokensThatAreNone(t *testing.T) {
	good := pkitest.New(t).First().NewToken().String()
	for _, text := range []string{"", "rota-join", good[:len(good)-1], good + "x", "x" + good, strings.ToUpper(good),
		strings.Replace(good, ".", "..", 1), strings.Replace(good, "rota-join", "rota-api", 1)} {
		if _, err := pki.ParseToken(text); !errors.Is(err, pki.ErrToken) {
			t.Errorf("%q: %v", text, err)
		}
	}
	wrapped := good[:20] + "\n   " + good[20:] + "\t"
	if got, err := pki.ParseToken(wrapped); err != nil || got.String() != good {
		t.Errorf("a token with white space of a terminal: %q, %v", got, err)
	}
}

// TestARequestProvesItsKey signs a request again with another key: the certificate would be for a
// key that the machine does not have.
func TestARequestProvesItsKey(t *testing.T) {
	controller := pkitest.New(t).First()
	req, err := pki.NewRequest()
	if err != nil {
		t.Fatal(err)
	}
	forged := slices.Clone(req.PEM)
	middle := len(forged) - 60
	forged[middle] ^= 1 // in the signature
	for what, text := range map[string][]byte{"forged": forged, "empty": nil, "a certificate": []byte("-----BEGIN " +
		"CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")} {
		if _, err := controller.Grant(text, pki.Node, "n1", nil); err == nil {
			t.Errorf("%s: a certificate was issued", what)
		}
	}
}

func TestOnlyControllersIssueCertificates(t *testing.T) {
	req, err := pki.NewRequest()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pkitest.New(t).Member(pki.Node, "n1").Grant(req.PEM, pki.Controller, "n1", nil); err == nil {
		t.Error("a node has issued a certificate")
	}
}

// TestKeysThatOthersMayRead: a key file or its directory that another account may read is refused,
// with what to do.
func TestKeysThatOthersMayRead(t *testing.T) {
	ours := pkitest.New(t)
	for _, name := range []string{"key.pem", "ca.key", "gossip.key", "."} {
		dir := filepath.Join(t.TempDir(), "tls")
		ours.Issue(dir, pki.Controller, "c2")
		path := filepath.Join(dir, name)
		if err := os.Chmod(path, 0o750); err != nil {
			t.Fatal(err)
		}
		if _, err := pki.Load(dir); err == nil || !strings.Contains(err.Error(), "chmod") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if os.Getuid() == 0 {
		dir := filepath.Join(t.TempDir(), "tls")
		ours.Issue(dir, pki.Controller, "c2")
		if err := os.Chown(filepath.Join(dir, "key.pem"), 65534, 65534); err != nil {
			t.Fatal(err)
		}
		if _, err := pki.Load(dir); err == nil || !strings.Contains(err.Error(), "belongs to uid 65534") {
			t.Errorf("a key of another account: %v", err)
		}
	}
	entries, err := os.ReadDir(filepath.Join(t.TempDir()))
	if err != nil || len(entries) > 0 {
		t.Fatal(err)
	}
}

func TestFilesThatWereChanged(t *testing.T) {
	ours, theirs := pkitest.New(t), pkitest.New(t)
	other := filepath.Join(t.TempDir(), "tls")
	theirs.Issue(other, pki.Controller, "c2")
	for _, name := range []string{"ca.pem", "cert.pem", "key.pem", "ca.key"} {
		dir := filepath.Join(t.TempDir(), "tls")
		ours.Issue(dir, pki.Controller, "c2")
		text, err := os.ReadFile(filepath.Join(other, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := pki.Load(dir); err == nil {
			t.Errorf("%s of another cluster is taken", name)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := pki.Load(dir); err == nil {
			t.Errorf("%s without sense is taken", name)
		}
	}
}

func TestAMemberOfOneClusterDoesNotJoinAnother(t *testing.T) {
	ours, theirs := pkitest.New(t), pkitest.New(t)
	dir := filepath.Join(t.TempDir(), "tls")
	ours.Issue(dir, pki.Node, "n1")
	if err := theirs.First().Issue(dir, pki.Node, "n1", nil); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("a node of another cluster: %v", err)
	}
	if _, err := pki.Init(dir, "n1"); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("init over a node: %v", err)
	}
	ours.Issue(dir, pki.Node, "n2")
	if c, err := pki.Load(dir); err != nil || c.Member.Name != "n2" {
		t.Errorf("joining the same cluster again: %+v, %v", c, err)
	}
}

// TestCertificatesAreRenewedInTime lets 100 days pass: the certificate is renewed at two thirds of
// its life, and while no controller answers it is tried again.
func TestCertificatesAreRenewedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours := pkitest.New(t)
		node := ours.Member(pki.Node, "n1")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		renewed, down := 0, 0
		go func() {
			_ = node.Renew(ctx, slog.New(slog.DiscardHandler), func(_ context.Context, request []byte) ([]byte, error) {
				if renewed == 2 && down < 100 {
					down++
					return nil, errors.New("no controller answers")
				}
				renewed++
				return ours.First().Renewal(request, node.Member)
			})
		}()
		for day := range 100 {
			time.Sleep(24 * time.Hour)
			if left := time.Until(node.Expires()); left < pki.Life/4 {
				t.Fatalf("on day %d the certificate lasts for %s more", day, left)
			}
		}
		if renewed < 4 || renewed > 5 || down != 100 {
			t.Errorf("renewed %d times, tried %d times in vain", renewed, down)
		}
		cancel()
		synctest.Wait()
	})
}

func certs(t *testing.T, c *tls.Certificate) []*x509.Certificate {
	t.Helper()
	var all []*x509.Certificate
	for _, der := range c.Certificate {
		one, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
	return all
}
