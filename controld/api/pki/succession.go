package pki

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/rota-hpc/rota/controld/api/clock"
)

// loadAuthority reads the authorities' certificates and, of a controller, their keys. A key without a
// certificate is of an authority that is about to be trusted, or no longer is.
func (c *Credential) loadAuthority() error {
	path := filepath.Join(c.dir, fileCA)
	var told Trusted
	text, err := os.ReadFile(path)
	if err == nil {
		told.CA = string(text)
		text, err = os.ReadFile(filepath.Join(c.dir, fileNext))
		if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		told.Succession = string(text)
	}
	var t *trust
	if err == nil {
		t, err = told.read()
	}
	if err != nil {
		return fmt.Errorf("certificate of the cluster %s: %w", path, err)
	}
	c.trusted.Store(t)
	path = filepath.Join(c.dir, fileCAKey)
	if err := private(path); errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if text, err = os.ReadFile(path); err != nil {
		return err
	}
	if c.keys, err = decodeKeys(text); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if t = t.withKeys(c.keys); t.authorities[0].key == nil {
		return fmt.Errorf("%s is not the key of %s", path, fileCA)
	}
	c.trusted.Store(t)
	return nil
}

// NewSuccessor makes another authority for the cluster, whose key it keeps on disk. No member trusts it yet.
// The text is the succession, which all members may know. Only a controller can do so.
func (c *Credential) NewSuccessor() (succession string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.trusted.Load().anchor()
	if before.key == nil {
		return "", errors.New("only controllers make an authority")
	}
	now := clock.Wall()
	name := fmt.Sprintf("Rota cluster %s since %s", c.Member.Cluster, now.UTC().Format("2006-01-02 15:04:05"))
	next, err := newAuthority(c.Member.Cluster, name, now)
	if err != nil {
		return "", err
	}
	template := authorityTemplate(c.Member.Cluster, name, now)
	template.MaxPathLen, template.MaxPathLenZero = 0, true
	template.NotAfter = before.Cert.NotAfter
	der, err := x509.CreateCertificate(rand.Reader, template, before.Cert, next.Cert.PublicKey, before.key)
	if err != nil {
		return "", fmt.Errorf("certificate across: %w", err)
	}
	across, err := x509.ParseCertificate(der)
	if err != nil {
		return "", err
	}
	made := &step{next.Cert, across, before.Cert}
	return made.text(), c.keepKeys(append(slices.Clone(c.keys), next.key)...)
}

// keepKeys writes the keys of authorities to disk.
func (c *Credential) keepKeys(keys ...*ecdsa.PrivateKey) error {
	text, err := encodeKeys(keys)
	if err != nil {
		return err
	}
	if err := write(c.dir, fileCAKey, text, 0o600); err != nil {
		return err
	}
	c.keys = keys
	return nil
}

// NameOfNext names the new authority of a succession, "" if it is none.
func NameOfNext(succession string) string {
	s, err := readSuccession(succession)
	if err != nil || s == nil {
		return ""
	}
	return nameOf(s.next)
}

// KeyOf returns the key of the authority with this name in PEM, "" if it is not here.
func (c *Credential) KeyOf(name string) (string, error) {
	a := c.trusted.Load().named(name)
	if a == nil || a.key == nil || name == "" {
		return "", nil
	}
	text, err := encodeKey(a.key)
	return string(text), err
}

// AddKey keeps the key of the new authority of a succession, in PEM, that another controller has handed out.
func (c *Credential) AddKey(succession, text string) error {
	s, err := readSuccession(succession)
	if err != nil {
		return err
	}
	k, err := decodeKey([]byte(text))
	if err == nil && (s == nil || !k.PublicKey.Equal(s.next.PublicKey)) {
		err = errors.New("it is another key")
	}
	if err != nil {
		return fmt.Errorf("the key of the new authority: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hasKey(s.next) {
		return nil
	}
	return c.keepKeys(append(slices.Clone(c.keys), k)...)
}

func (c *Credential) hasKey(ca *x509.Certificate) bool {
	return slices.ContainsFunc(c.keys, func(k *ecdsa.PrivateKey) bool { return k.PublicKey.Equal(ca.PublicKey) })
}

// HasKeyOf reports whether the key of the new authority of a succession is on this controller's disk.
func (c *Credential) HasKeyOf(succession string) bool {
	s, err := readSuccession(succession)
	c.mu.Lock()
	defer c.mu.Unlock()
	return err == nil && s != nil && c.hasKey(s.next)
}

// Stage is how far a replacement of the authority is.
type Stage int

// Stages, in this order.
const (
	StageTrusted Stage = iota // the new authority is trusted beside the old one, and issues nothing yet
	StageIssues               // it issues certificates
	StageAlone                // the old one is no longer trusted
)

// Succeed has this controller follow a succession of authorities to a stage. An authority that this
// controller does not trust has no successor here: what was dropped is not trusted again. Members that
// issue certificates renew their own before the old authority goes.
func (c *Credential) Succeed(succession string, stage Stage) error {
	s, err := readSuccession(succession)
	if err != nil || s == nil {
		return err
	}
	now := c.trusted.Load()
	old, next := now.named(nameOf(s.before)), now.named(nameOf(s.next))
	if old == nil {
		if next != nil {
			return nil // it is alone already
		}
		return errors.New("the authority named in the log does not succeed the authority that this controller trusts")
	}
	if next == nil {
		next = &Authority{Cert: s.next}
	}
	to := newTrust([]*Authority{old, next}, s)
	has := c.HasKeyOf(succession)
	if stage >= StageIssues && has {
		to = newTrust([]*Authority{next, old}, s)
	}
	if err := c.follow(to); err != nil || stage < StageIssues || !has {
		return err
	}
	if c.Issuer() != nameOf(s.next) {
		if err := c.RenewWith(func(request []byte) ([]byte, error) { return c.Renewal(request, c.Member) }); err != nil {
			return err
		}
	}
	if stage < StageAlone {
		return nil
	}
	return c.follow(newTrust([]*Authority{next}, s))
}

// Adopt has a member trust what the controllers say, and get a certificate of the authority that issues them now.
// Sign answers a signing request. Nothing is dropped before that. Controllers use [Credential.Succeed] instead.
func (c *Credential) Adopt(told Trusted, sign func(request []byte) ([]byte, error)) error {
	to, err := told.read()
	if err != nil {
		return err
	}
	now := c.trusted.Load()
	if !sameCluster(to.authorities[0].Cert, now.authorities[0].Cert) {
		return errors.New("the authority is of another cluster")
	}
	if told == c.Trusted() && c.Issuer() == nameOf(to.authorities[0].Cert) {
		return nil
	}
	both := slices.Clone(to.authorities)
	for _, a := range now.authorities {
		if to.named(nameOf(a.Cert)) == nil {
			both = append(both, a)
		}
	}
	if err := c.follow(newTrust(both, to.step)); err != nil {
		return err
	}
	if c.Issuer() != nameOf(to.authorities[0].Cert) {
		if err := c.RenewWith(sign); err != nil {
			return fmt.Errorf("a certificate of the new authority: %w", err)
		}
	}
	if issuer := c.Issuer(); to.named(issuer) == nil {
		return errors.New("a controller issued a certificate with an authority that is not trusted here")
	}
	return c.follow(to)
}

// follow replaces what is trusted, on disk first. Keys that no authority needs are dropped last.
func (c *Credential) follow(to *trust) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.trusted.Load()
	to = to.withKeys(c.keys)
	if now.text() == to.text() && now.step.text() == to.step.text() {
		if len(now.keys()) != len(to.keys()) {
			c.trusted.Store(to)
		}
		return nil
	}
	if now.step.text() != to.step.text() {
		if err := write(c.dir, fileNext, []byte(to.step.text()), 0o600); err != nil {
			return err
		}
		c.forgetShown()
	}
	if err := write(c.dir, fileCA, []byte(to.text()), 0o600); err != nil {
		return err
	}
	c.trusted.Store(to)
	if leaf := c.cert.Load(); leaf != nil {
		c.show(leaf.Leaf)
	}
	if kept := to.keys(); len(kept) > 0 && len(to.authorities) < len(now.authorities) {
		return c.keepKeys(kept...)
	}
	return nil
}

// show has new connections show a certificate. Those of the authorities go with it, for machines that know
// only one of them.
func (c *Credential) show(leaf *x509.Certificate) {
	t := c.trusted.Load()
	chain := [][]byte{leaf.Raw}
	if a, err := t.issuerOf(leaf); err == nil {
		chain = append(chain, a.Cert.Raw)
		if t.isNewest(a.Cert) {
			chain = append(chain, t.step.across.Raw, t.step.before.Raw)
		}
	}
	c.cert.Store(&tls.Certificate{Certificate: chain, PrivateKey: c.key, Leaf: leaf})
}
