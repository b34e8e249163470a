package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/controld/api/clock"
)

// trust is what a member trusts at one time. It does not change; another one takes its place.
type trust struct {
	authorities []*Authority // one, and while it is being replaced two; the first issues certificates
	step        *step        // by which the newest authority came; nil: the cluster has its first one
	roots       *x509.CertPool
}

// step says which authority came after which. The certificate across has the new authority's name and
// key, and is signed by the old authority. A machine that knows only the old authority verifies members of
// the new one by it.
type step struct{ next, across, before *x509.Certificate }

// Trusted is what controllers tell members to trust. All of it is public.
type Trusted struct {
	// CA has certificates of authorities in PEM, that one first which issues certificates.
	CA string `json:"ca"`
	// Succession has the certificates of the newest authority, the one across, and that of the authority
	// before, in PEM; "": the authority was never replaced.
	Succession string `json:"succession,omitempty"`
}

func newTrust(authorities []*Authority, step *step) *trust {
	t := &trust{authorities: authorities, step: step, roots: x509.NewCertPool()}
	for _, a := range authorities {
		t.roots.AddCert(a.Cert)
	}
	return t
}

// read returns what t says, without keys.
func (t Trusted) read() (*trust, error) {
	certs, err := decodeCerts([]byte(t.CA))
	if err != nil {
		return nil, err
	}
	var authorities []*Authority
	for _, c := range certs {
		if _, err := clusterOf(c); err != nil {
			return nil, err
		}
		if !sameCluster(c, certs[0]) {
			return nil, errors.New("the authorities belong to different clusters")
		}
		authorities = append(authorities, &Authority{Cert: c})
	}
	step, err := readSuccession(t.Succession)
	if err == nil && step != nil && !sameCluster(step.next, certs[0]) {
		err = errors.New("the succession of authorities belongs to another cluster")
	}
	return newTrust(authorities, step), err
}

// readSuccession reads and verifies a succession; nil for "".
func readSuccession(text string) (*step, error) {
	if text == "" {
		return nil, nil
	}
	certs, err := decodeCerts([]byte(text))
	if err == nil && len(certs) != 3 {
		err = fmt.Errorf("%d certificates instead of 3", len(certs))
	}
	if err != nil {
		return nil, fmt.Errorf("the succession of authorities: %w", err)
	}
	s := &step{certs[0], certs[1], certs[2]}
	for _, c := range certs {
		if _, err := clusterOf(c); err != nil {
			return nil, err
		}
	}
	switch {
	case !sameCluster(s.next, s.before):
		err = errors.New("they belong to different clusters")
	case !sameKey(s.next, s.across):
		err = errors.New("the cross certificate is for another key")
	default:
		err = s.across.CheckSignatureFrom(s.before)
	}
	if err != nil {
		return nil, fmt.Errorf("the succession of authorities: %w", err)
	}
	return s, nil
}

func (s *step) text() string {
	if s == nil {
		return ""
	}
	return string(encodeCert(s.next)) + string(encodeCert(s.across)) + string(encodeCert(s.before))
}

func (t *trust) text() string {
	var b strings.Builder
	for _, a := range t.authorities {
		b.Write(encodeCert(a.Cert))
	}
	return b.String()
}

// anchor is the authority that every member trusts: the old one while it is being replaced.
func (t *trust) anchor() *Authority {
	for _, a := range t.authorities {
		if !t.isNewest(a.Cert) {
			return a
		}
	}
	return t.authorities[0]
}

// isNewest reports whether a certificate is that of an authority that has taken another's place, or does so.
func (t *trust) isNewest(c *x509.Certificate) bool { return t.step != nil && t.step.next.Equal(c) }

// named returns the authority with this fingerprint, nil if it is not trusted.
func (t *trust) named(name string) *Authority {
	if name == "" {
		return t.authorities[0]
	}
	for _, a := range t.authorities {
		if nameOf(a.Cert) == name {
			return a
		}
	}
	return nil
}

// issuerOf returns the trusted authority that has signed a certificate.
func (t *trust) issuerOf(leaf *x509.Certificate) (*Authority, error) {
	var errs []error
	for _, a := range t.authorities {
		err := leaf.CheckSignatureFrom(a.Cert)
		if err == nil {
			return a, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// keys are those of the authorities, of a controller.
func (t *trust) keys() []*ecdsa.PrivateKey {
	var keys []*ecdsa.PrivateKey
	for _, a := range t.authorities {
		if a.key != nil {
			keys = append(keys, a.key)
		}
	}
	return keys
}

// withKeys gives authorities their keys.
func (t *trust) withKeys(keys []*ecdsa.PrivateKey) *trust {
	with := make([]*Authority, len(t.authorities))
	for i, a := range t.authorities {
		with[i] = &Authority{Cert: a.Cert}
		for _, k := range keys {
			if k.PublicKey.Equal(a.Cert.PublicKey) {
				with[i].key = k
			}
		}
	}
	return newTrust(with, t.step)
}

// verdict is what was found of a certificate.
type verdict struct {
	by     *trust // that it was found by
	newest bool   // it is of the newest authority
}

// goodMost bounds the certificates whose verdict is remembered.
const goodMost = 20_000

// verifyChain verifies the certificate at the other end of a connection in its handshake.
func (c *Credential) verifyChain(s *tls.ConnectionState, usage x509.ExtKeyUsage) error {
	if len(s.PeerCertificates) == 0 {
		return errors.New("it sent no certificate")
	}
	between := x509.NewCertPool()
	for _, p := range s.PeerCertificates[1:] {
		between.AddCert(p)
	}
	o := x509.VerifyOptions{Roots: c.trusted.Load().roots, Intermediates: between, CurrentTime: clock.Wall(),
		KeyUsages: []x509.ExtKeyUsage{usage}}
	leaf := s.PeerCertificates[0]
	if m, err := MemberOf(leaf); err == nil && usage == x509.ExtKeyUsageServerAuth {
		o.DNSName = host(m.Role, c.Member.Cluster)
	}
	_, err := leaf.Verify(o)
	var unknown x509.UnknownAuthorityError
	if m, not := MemberOf(leaf); errors.As(err, &unknown) && not == nil && m.Cluster == c.Member.Cluster {
		err = fmt.Errorf("%s: %w: %s: %w", m, errReplaced, joinAgain, err)
	}
	return err
}

// errReplaced says that two machines trust different authorities of one cluster.
var errReplaced = errors.New("the two machines trust different authorities, because the authority was replaced while " +
	"one of them was off")

// wasTrusted reports whether a certificate is of the authority before the one that is trusted now.
func (c *Credential) wasTrusted(s *tls.ConnectionState) bool {
	t := c.trusted.Load()
	return t.step != nil && s.PeerCertificates[0].CheckSignatureFrom(t.step.before) == nil
}

// stillTrusted verifies again which authority has signed the certificate of a member: the authority may have been
// replaced since the handshake. A connection that is older than the member's present certificate stays
// good if that one is for the same key.
func (c *Credential) stillTrusted(m Member, s *tls.ConnectionState) error {
	t, leaf := c.trusted.Load(), s.PeerCertificates[0]
	digest := sha256.Sum256(leaf.Raw)
	found, known := c.good.Load(digest)
	if !known || found.(verdict).by != t {
		between := x509.NewCertPool()
		for _, p := range s.PeerCertificates[1:] {
			between.AddCert(p)
		}
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: t.roots, Intermediates: between, CurrentTime: clock.Wall(),
			KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
			return c.continued(t, m, leaf, err)
		}
		v := verdict{by: t, newest: t.step != nil && leaf.CheckSignatureFrom(t.step.next) == nil}
		c.remember(digest, v)
		found = v
	}
	if t.step == nil {
		return nil
	}
	switch key := sha256.Sum256(leaf.RawSubjectPublicKeyInfo); {
	case found.(verdict).newest:
		c.renewed.Store(m.String(), key)
		c.older.Delete(m.String())
	default:
		if had, ok := c.renewed.Load(m.String()); !ok || had != key {
			c.older.Store(m.String(), m.Generation)
		}
	}
	return nil
}

// continued lets a connection go on although its certificate is of the old authority. The member must have shown
// a certificate of the newest authority for the same key.
func (c *Credential) continued(t *trust, m Member, leaf *x509.Certificate, why error) error {
	key := sha256.Sum256(leaf.RawSubjectPublicKeyInfo)
	if t.step != nil && leaf.CheckSignatureFrom(t.step.before) == nil {
		if had, ok := c.renewed.Load(m.String()); ok && had == key {
			return nil
		}
		return fmt.Errorf("%s: %w, together with the authority that issued it: join again with a new token", m, ErrRevoked)
	}
	return fmt.Errorf("the certificate of %s: %w", m, why)
}

func (c *Credential) remember(digest [sha256.Size]byte, v verdict) {
	n := 0
	c.good.Range(func(any, any) bool { n++; return n < goodMost })
	if n >= goodMost {
		c.good.Clear()
	}
	c.good.Store(digest, v)
}

// Renewed reports whether a member has shown a certificate of the newest authority here.
func (c *Credential) Renewed(r Role, name string) bool {
	_, ok := c.renewed.Load(Member{Role: r, Name: name}.String())
	return ok
}

// Older are the members that have only shown certificates of the authority before the newest here, and
// whose certificates were not revoked since.
func (c *Credential) Older() []Member {
	var list []Member
	c.older.Range(func(text, generation any) bool {
		role, name, _ := strings.Cut(text.(string), " ")
		if generation.(int64) >= c.Generation(Role(role), name) {
			list = append(list, Member{Role: Role(role), Name: name})
		}
		return true
	})
	slices.SortFunc(list, func(a, b Member) int { return strings.Compare(a.String(), b.String()) })
	return list
}

// forgetShown forgets which certificates members have shown: another change of the authority begins.
func (c *Credential) forgetShown() {
	c.renewed.Clear()
	c.older.Clear()
}

// Outdated reports whether a connection was made with a certificate of the authority before the newest,
// while that is being replaced. Its other end should make another one.
func (c *Credential) Outdated(s *tls.ConnectionState) bool {
	if s == nil || len(s.PeerCertificates) == 0 {
		return false
	}
	t := c.trusted.Load()
	return t.step != nil && t.isNewest(t.authorities[0].Cert) &&
		s.PeerCertificates[0].CheckSignatureFrom(t.step.next) != nil
}

// Authority is the one that issues certificates; nil on members that are no controllers.
func (c *Credential) Authority() *Authority {
	if a := c.trusted.Load().authorities[0]; a.key != nil {
		return a
	}
	return nil
}

// Trusted is what this member trusts.
func (c *Credential) Trusted() Trusted {
	t := c.trusted.Load()
	return Trusted{CA: t.text(), Succession: t.step.text()}
}

// TrustVersion changes whenever what is trusted does.
func (c *Credential) TrustVersion() any { return c.trusted.Load() }

// Anchor names the authority that every member trusts: while it is being replaced, the old one.
func (c *Credential) Anchor() string { return nameOf(c.trusted.Load().anchor().Cert) }

// Issuer names the authority that has issued the certificate that this member shows.
func (c *Credential) Issuer() string {
	a, err := c.trusted.Load().issuerOf(c.cert.Load().Leaf)
	if err != nil {
		return ""
	}
	return nameOf(a.Cert)
}

// Authorities is how many authorities this member trusts: two while one is being replaced.
func (c *Credential) Authorities() int { return len(c.trusted.Load().authorities) }

// nameOf names an authority by its fingerprint.
func nameOf(ca *x509.Certificate) string {
	sum := fingerprint(ca)
	return hex.EncodeToString(sum[:16])
}

func sameCluster(a, b *x509.Certificate) bool {
	x, err := clusterOf(a)
	y, err2 := clusterOf(b)
	return err == nil && err2 == nil && x == y
}

func sameKey(a, b *x509.Certificate) bool {
	return bytes.Equal(a.RawSubjectPublicKeyInfo, b.RawSubjectPublicKeyInfo)
}

// decodeCerts reads one certificate or more.
func decodeCerts(text []byte) ([]*x509.Certificate, error) {
	var list []*x509.Certificate
	for rest := bytes.TrimSpace(text); len(rest) > 0 || len(list) == 0; rest = bytes.TrimSpace(rest) {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil || block.Type != pemCert {
			return nil, errors.New("not a certificate in PEM")
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

// decodeKeys reads one key or more.
func decodeKeys(text []byte) ([]*ecdsa.PrivateKey, error) {
	var list []*ecdsa.PrivateKey
	for rest := bytes.TrimSpace(text); len(rest) > 0 || len(list) == 0; rest = bytes.TrimSpace(rest) {
		key, err := decodeKey(rest)
		if err != nil {
			return nil, err
		}
		_, rest = pem.Decode(rest)
		list = append(list, key)
	}
	return list, nil
}

func encodeKeys(keys []*ecdsa.PrivateKey) ([]byte, error) {
	var b []byte
	for _, k := range keys {
		text, err := encodeKey(k)
		if err != nil {
			return nil, err
		}
		b = append(b, text...)
	}
	return b, nil
}
