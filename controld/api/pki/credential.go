package pki

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rota-hpc/rota/controld/api/clock"
)

// Files of a member's directory.
const (
	fileCA      = "ca.pem"         // certificates of the cluster's authorities; the first issues certificates
	fileCAKey   = "ca.key"         // their keys, of controllers
	fileNext    = "succession.pem" // how the newest authority came after the one before
	fileCert    = "cert.pem"       // certificate of this member
	fileKey     = "key.pem"        // its key
	fileGossip  = "gossip.key"     // key of the gossip
	fileSeeds   = "seeds"          // gossip addresses of controllers at the time of joining, a line each
	fileFounder = "founder"        // this controller makes the cluster's log when it first starts
)

// Dir is where a daemon keeps what makes it a member, below its data directory.
func Dir(dataDir string) string { return filepath.Join(dataDir, "tls") }

// Grant is what a machine gets when it joins.
type Grant struct {
	Trusted
	Cert      string   `json:"cert"`             // certificate of the member, in PEM
	CAKey     string   `json:"ca_key,omitempty"` // keys of the authorities, for controllers
	GossipKey []byte   `json:"gossip_key"`       // one key after the other
	Seeds     []string `json:"seeds"`            // gossip addresses of controllers
}

// Credential is what one member has on disk, loaded. Its methods may be called from any goroutine.
type Credential struct {
	Member  Member
	Seeds   []string
	Founder bool

	dir     string
	key     *ecdsa.PrivateKey
	mu      sync.Mutex          // held while files and what is trusted change
	keys    []*ecdsa.PrivateKey // of authorities, on disk
	trusted atomic.Pointer[trust]
	renewed sync.Map // digest of the key of a member that has shown a certificate of the newest authority, by name
	older   sync.Map // whether a member has shown none of it, by name
	good    sync.Map // certificates that were verified: the digest's [verdict]
	cert    atomic.Pointer[tls.Certificate]
	revoked atomic.Pointer[func(Role, string) int64]
	gossip  atomic.Pointer[[][]byte] // keys; the first is the one to send with
}

// ErrNoCredential says that a machine has not joined a cluster.
var ErrNoCredential = errors.New("this machine is not a member of a cluster")

// Load reads the credential of a member. Keys that others may read are refused. Errors:
// [ErrNoCredential], and what is wrong with the files.
func Load(dir string) (*Credential, error) {
	if _, err := os.Stat(filepath.Join(dir, fileCert)); errors.Is(err, os.ErrNotExist) {
		return nil, ErrNoCredential
	} else if err != nil {
		return nil, err
	}
	if err := private(dir); err != nil {
		return nil, err
	}
	c := &Credential{dir: dir}
	for _, load := range []func() error{c.loadAuthority, c.loadOwn, c.loadGossip} {
		if err := load(); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *Credential) loadOwn() (err error) {
	if c.key, err = c.readKey(fileKey); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(c.dir, fileCert))
	if err != nil {
		return err
	}
	return c.use(text)
}

// use has new connections show another certificate.
func (c *Credential) use(text []byte) error {
	leaf, err := decodeCert(text)
	if err == nil && !c.key.PublicKey.Equal(leaf.PublicKey) {
		err = errors.New("it was issued for another key")
	}
	if err == nil {
		_, err = c.trusted.Load().issuerOf(leaf)
	}
	if err != nil {
		return fmt.Errorf("certificate of this member in %s: %w", c.dir, err)
	}
	if c.Member, err = MemberOf(leaf); err != nil {
		return err
	}
	c.show(leaf)
	return nil
}

func (c *Credential) readKey(name string) (*ecdsa.PrivateKey, error) {
	path := filepath.Join(c.dir, name)
	if err := private(path); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	key, err := decodeKey(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return key, nil
}

// private refuses a file or directory that other accounts may read, or that belongs to one of them.
func private(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	mode := 0o600
	if info.IsDir() {
		mode = 0o700
	}
	if info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("other accounts have access to %s (mode %04o): if none can have read it, run chmod %04o %s; "+
			"otherwise join again, or make a new cluster", path, info.Mode().Perm(), mode, path)
	}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok && sys.Uid != 0 && sys.Uid != uint32(os.Geteuid()) {
		return fmt.Errorf("%s belongs to uid %d, not to the account of this daemon (uid %d)", path, sys.Uid, os.Geteuid())
	}
	return nil
}

// Founded forgets that this controller is to make the cluster's log: it has.
func (c *Credential) Founded() error {
	c.Founder = false
	err := os.Remove(filepath.Join(c.dir, fileFounder))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// Fingerprint identifies the cluster's authority. While it is being replaced it is that of the old one, which
// every member knows.
func (c *Credential) Fingerprint() [32]byte { return fingerprint(c.trusted.Load().anchor().Cert) }

// NewToken makes a join token of this cluster.
func (c *Credential) NewToken() Token { return NewToken(c.trusted.Load().anchor().Cert) }

// Expires is when the certificate of this member ends.
func (c *Credential) Expires() time.Time { return c.cert.Load().Leaf.NotAfter }

// SetRevocations gives the generation below which certificates of a role and name are revoked.
func (c *Credential) SetRevocations(generation func(Role, string) int64) {
	c.revoked.Store(&generation)
}

// Generation is that of certificates issued now.
func (c *Credential) Generation(r Role, name string) int64 {
	if f := c.revoked.Load(); f != nil {
		return (*f)(r, name)
	}
	return 0
}

// ErrRevoked says that a certificate is no longer good.
var ErrRevoked = errors.New("its certificate was revoked")

// Verify returns the member at the other end of a connection, whose certificate the handshake has
// verified when the connection was made. It checks for changes since then: the certificate may have
// expired or been revoked, or its authority may have been replaced.
func (c *Credential) Verify(s *tls.ConnectionState) (Member, error) {
	if s == nil || len(s.PeerCertificates) == 0 {
		return Member{}, errors.New("it sent no certificate")
	}
	leaf := s.PeerCertificates[0]
	m, err := MemberOf(leaf)
	switch {
	case err != nil:
		return m, err
	case m.Cluster != c.Member.Cluster:
		return m, fmt.Errorf("%s belongs to cluster %s, but this is cluster %s", m, m.Cluster, c.Member.Cluster)
	case m.Generation < c.Generation(m.Role, m.Name):
		return m, fmt.Errorf("%s: %w: have it join again with a new token", m, ErrRevoked)
	case clock.Wall().After(leaf.NotAfter):
		return m, fmt.Errorf("the certificate of %s ended at %s: have it join again with a new token", m,
			leaf.NotAfter.Format(time.RFC3339))
	}
	return m, c.stillTrusted(m, s)
}

// NameOf returns the role and name of the member of this cluster at the other end of a connection.
// The name is "" without a valid certificate.
func (c *Credential) NameOf(s *tls.ConnectionState) string {
	m, err := c.Verify(s)
	if err != nil {
		return ""
	}
	return m.String()
}

// verifyRole is a tls.Config's VerifyConnection: the other end must be a member with one of the
// roles. Without a certificate it may go on only if the handshake did not ask for one.
func (c *Credential) verifyRole(usage x509.ExtKeyUsage, roles ...Role) func(tls.ConnectionState) error {
	return func(s tls.ConnectionState) error {
		if err := c.verifyChain(&s, usage); err != nil {
			return err
		}
		m, err := c.Verify(&s)
		if err != nil {
			return err
		}
		if !slices.Contains(roles, m.Role) {
			return fmt.Errorf("%s has none of the roles %v", m, roles)
		}
		return nil
	}
}

// Client returns how to connect to members of a role.
func (c *Credential) Client(r Role) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: host(r, c.Member.Cluster),
		InsecureSkipVerify:   true, // VerifyConnection verifies: by the authorities that are trusted at that time
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c.cert.Load(), nil },
		VerifyConnection:     c.verifyRole(x509.ExtKeyUsageServerAuth, r), Time: clock.Wall,
	}
}

// ClientOf returns how to connect to the one member of a role that has this name.
func (c *Credential) ClientOf(r Role, name string) *tls.Config {
	conf := c.Client(r)
	conf.VerifyConnection = func(s tls.ConnectionState) error {
		if err := c.verifyChain(&s, x509.ExtKeyUsageServerAuth); err != nil {
			return err
		}
		m, err := c.Verify(&s)
		if err == nil && (m.Role != r || m.Name != name) {
			err = fmt.Errorf("%s answered there instead of %s", m, Member{Role: r, Name: name})
		}
		return err
	}
	return conf
}

// Server returns how to take connections of members with these roles. Without roles, any member may
// connect, and so may callers without a certificate: they can show a token later. So may one with a certificate
// of the authority before: [Credential.Verify] refuses it, so that it hears why.
func (c *Credential) Server(roles ...Role) *tls.Config {
	conf := &tls.Config{
		MinVersion: tls.VersionTLS13, ClientAuth: tls.RequestClientCert,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.cert.Load(), nil },
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 {
				return nil
			}
			if err := c.verifyChain(&s, x509.ExtKeyUsageClientAuth); err != nil && !c.wasTrusted(&s) {
				return err
			}
			return nil
		},
		Time: clock.Wall,
	}
	if len(roles) > 0 {
		conf.ClientAuth = tls.RequireAnyClientCert
		conf.VerifyConnection = c.verifyRole(x509.ExtKeyUsageClientAuth, roles...)
	}
	return conf
}

// Renew replaces the certificate at two thirds of its life, until ctx ends. Sign answers a signing
// request with a new certificate; when it fails it is asked again.
func (c *Credential) Renew(ctx context.Context, log *slog.Logger,
	sign func(ctx context.Context, request []byte) ([]byte, error),
) error {
	for wait := c.renewIn(); ; {
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-t.C:
		}
		err := c.RenewWith(func(request []byte) ([]byte, error) { return sign(ctx, request) })
		if wait = c.renewIn(); err == nil {
			log.Info("certificate renewed", "until", c.Expires().Format(time.RFC3339))
			continue
		}
		wait = renewRetry
		if left := c.Expires().Sub(clock.Wall()); left <= 0 {
			log.Error("the certificate of this member has ended: join again with a new token", "error", err)
		} else {
			log.Warn("cannot renew the certificate; trying again", "left", left.Round(time.Minute), "error", err)
		}
	}
}

// renewRetry is the time between attempts to renew: many fit into the last third of a certificate.
const renewRetry = 10 * time.Minute

// renewIn is how long from now two thirds of the certificate's life are over.
func (c *Credential) renewIn() time.Duration {
	return max(c.Expires().Sub(clock.Wall())-Life/3, 0)
}

// RenewWith replaces the certificate now by what sign makes of a signing request.
func (c *Credential) RenewWith(sign func(request []byte) ([]byte, error)) error {
	request, err := signingRequest(c.key)
	if err != nil {
		return err
	}
	text, err := sign(request)
	if err != nil {
		return err
	}
	leaf, err := decodeCert(text)
	if err != nil {
		return err
	}
	if m, err := MemberOf(leaf); err != nil || m.Role != c.Member.Role || m.Name != c.Member.Name {
		return fmt.Errorf("the new certificate is for %s: %w", m, errors.Join(err, ErrNotMember))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.use(text); err != nil {
		return err
	}
	return write(c.dir, fileCert, text, 0o600)
}

// Renewal signs the request of a member for another certificate, with this controller's authority.
func (c *Credential) Renewal(request []byte, m Member) ([]byte, error) {
	authority := c.trusted.Load().authorities[0]
	if authority.key == nil {
		return nil, errors.New("only controllers issue certificates")
	}
	m.Generation = c.Generation(m.Role, m.Name)
	return authority.Sign(request, m, clock.Wall())
}

// Grant signs the request of a machine that joins.
func (c *Credential) Grant(request []byte, r Role, name string, seeds []string) (*Grant, error) {
	c.mu.Lock() // what is trusted and the keys belong together
	defer c.mu.Unlock()
	cert, err := c.Renewal(request, Member{Role: r, Name: name})
	if err != nil {
		return nil, err
	}
	g := &Grant{Trusted: c.Trusted(), Cert: string(cert), GossipKey: bytes.Join(c.GossipKeys(), nil), Seeds: seeds}
	if r == Controller {
		keys, err := encodeKeys(c.trusted.Load().keys())
		if err != nil {
			return nil, err
		}
		g.CAKey = string(keys)
	}
	return g, nil
}
