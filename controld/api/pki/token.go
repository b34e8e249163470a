package pki

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/rota-hpc/rota/controld/api/clock"
)

// TokenLife is how long a join token is valid, in hours.
const TokenLife = 24

// Token lets one machine join a cluster. It has a secret that is good once, and the fingerprint of
// the cluster's authority, by which the machine knows the cluster.
type Token struct {
	secret      [16]byte
	fingerprint [sha256.Size]byte
}

const tokenPrefix = "rota-join"

// NewToken makes a token for the cluster of an authority.
func NewToken(ca *x509.Certificate) Token {
	t := Token{fingerprint: fingerprint(ca)}
	rand.Read(t.secret[:]) // never fails
	return t
}

// String is the token as it is handed over.
func (t Token) String() string {
	b := base64.RawURLEncoding
	return tokenPrefix + "." + b.EncodeToString(t.secret[:]) + "." + b.EncodeToString(t.fingerprint[:])
}

// ErrToken says that a text is not a join token.
var ErrToken = errors.New("this is not a join token: paste the whole line that `rota cluster join-token` printed")

// ParseToken reads a token. White space in it, as comes with pasting, is dropped.
func ParseToken(text string) (Token, error) {
	text = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, text)
	var t Token
	parts := strings.Split(text, ".")
	if len(parts) != 3 || parts[0] != tokenPrefix {
		return t, ErrToken
	}
	for i, into := range [][]byte{t.secret[:], t.fingerprint[:]} {
		b, err := base64.RawURLEncoding.Strict().DecodeString(parts[i+1])
		if err != nil || len(b) != len(into) {
			return t, ErrToken
		}
		copy(into, b)
	}
	return t, nil
}

// Secret is what the machine that joins shows, in hexadecimal digits.
func (t Token) Secret() string { return hex.EncodeToString(t.secret[:]) }

// SecretDigest is how the log names a secret, which itself never gets there.
func SecretDigest(secret string) string {
	sum := sha256.Sum256([]byte("rota join " + secret))
	return hex.EncodeToString(sum[:])
}

// ErrOtherCluster says that the machine at an address is not of the cluster that a token names.
var ErrOtherCluster = errors.New("the token and the controller at this address belong to different clusters")

// Client returns how to connect to a controller of the token's cluster before this machine has a
// certificate. The controller shows the authority's certificate, whose fingerprint the token has.
func (t Token) Client() *tls.Config { return PinnedClient(t.fingerprint) }

// PinnedClient returns how to connect to a controller of the cluster whose authority has this
// fingerprint, without a certificate.
func PinnedClient(want [sha256.Size]byte) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true, // VerifyConnection verifies: the authority is known by its fingerprint alone
		VerifyConnection: func(s tls.ConnectionState) error {
			i := slices.IndexFunc(s.PeerCertificates, func(c *x509.Certificate) bool {
				got := fingerprint(c)
				return subtle.ConstantTimeCompare(got[:], want[:]) == 1
			})
			if i < 0 {
				return ErrOtherCluster
			}
			ca := s.PeerCertificates[i]
			cluster, err := clusterOf(ca)
			if err != nil {
				return err
			}
			roots, between := x509.NewCertPool(), x509.NewCertPool()
			roots.AddCert(ca)
			for _, c := range s.PeerCertificates[1:] { // the authority may have a successor, see [step]
				between.AddCert(c)
			}
			_, err = s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between,
				DNSName: host(Controller, cluster), CurrentTime: clock.Wall()})
			if err != nil {
				return fmt.Errorf("the certificate of the controller: %w", err)
			}
			return nil
		},
	}
}
