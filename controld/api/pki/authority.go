package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"time"
)

// Authority signs the certificates of one cluster.
type Authority struct {
	Cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes the authority of a new cluster, with a random id.
func NewAuthority(now time.Time) (*Authority, error) {
	id := make([]byte, 8)
	rand.Read(id) // never fails
	cluster := hex.EncodeToString(id)
	return newAuthority(cluster, "Rota cluster "+cluster, now)
}

func newAuthority(cluster, name string, now time.Time) (*Authority, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	template := authorityTemplate(cluster, name, now)
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("certificate of the cluster: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	return &Authority{Cert: cert, key: key}, err
}

// authorityTemplate is the certificate of an authority. It may sign that of its successor, and no other
// authority.
func authorityTemplate(cluster, name string, now time.Time) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(authorityLife), IsCA: true, BasicConstraintsValid: true,
		MaxPathLen: 1, KeyUsage: x509.KeyUsageCertSign, URIs: []*url.URL{Member{Cluster: cluster}.uri()},
	}
}

// Sign issues a certificate for the public key of a signing request, in PEM. Of the request only
// the key counts, which it must prove to have: m says which member gets the certificate.
func (a *Authority) Sign(request []byte, m Member, now time.Time) ([]byte, error) {
	block, _ := pem.Decode(request)
	if block == nil || block.Type != pemRequest {
		return nil, errors.New("the signing request is not a PEM certificate request")
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err == nil {
		err = csr.CheckSignature()
	}
	if err != nil {
		return nil, fmt.Errorf("the signing request: %w", err)
	}
	if m.Cluster, err = clusterOf(a.Cert); err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: m.String()},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(Life), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		URIs:        []*url.URL{m.uri()}, DNSNames: []string{host(m.Role, m.Cluster)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.Cert, csr.PublicKey, a.key)
	if err != nil {
		return nil, fmt.Errorf("certificate of %s: %w", m, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemCert, Bytes: der}), nil
}

// Types of PEM blocks.
const (
	pemCert    = "CERTIFICATE"
	pemKey     = "PRIVATE KEY"
	pemRequest = "CERTIFICATE REQUEST"
)

func newKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// serial returns a random number of 120 bits for a certificate.
func serial() *big.Int {
	b := make([]byte, 15)
	rand.Read(b)
	return new(big.Int).SetBytes(b)
}

// signingRequest asks for a certificate of a key, in PEM.
func signingRequest(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return nil, fmt.Errorf("signing request: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemRequest, Bytes: der}), nil
}

// RequestDigest identifies the key of a signing request, so that a machine whose answer was lost
// may ask again with the same token.
func RequestDigest(request []byte) (string, error) {
	block, _ := pem.Decode(request)
	if block == nil || block.Type != pemRequest {
		return "", errors.New("the signing request is not a PEM certificate request")
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return "", fmt.Errorf("the signing request: %w", err)
	}
	sum := sha256.Sum256(csr.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(sum[:]), nil
}

// fingerprint identifies an authority.
func fingerprint(ca *x509.Certificate) [sha256.Size]byte { return sha256.Sum256(ca.Raw) }

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemKey, Bytes: der}), nil
}

func decodeKey(text []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != pemKey {
		return nil, errors.New("not a private key in PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	ec, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("a private key of kind %T", key)
	}
	return ec, nil
}

func encodeCert(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: pemCert, Bytes: c.Raw})
}

func decodeCert(text []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != pemCert {
		return nil, errors.New("not a certificate in PEM")
	}
	return x509.ParseCertificate(block.Bytes)
}
