package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// GossipKeySize is the number of bytes of a key of the gossip.
const GossipKeySize = 32

// gossipKeysMax is how many keys a member has at a time: the one in use, and those before and after it.
const gossipKeysMax = 3

// NewGossipKey returns a random key for the gossip of a cluster.
func NewGossipKey() []byte {
	key := make([]byte, GossipKeySize)
	rand.Read(key) // never fails
	return key
}

// GossipKeys returns the keys of the gossip that this member accepts. It sends with the first.
func (c *Credential) GossipKeys() [][]byte { return *c.gossip.Load() }

// SetGossipKeys replaces the keys of the gossip, on disk first.
func (c *Credential) SetGossipKeys(keys [][]byte) error {
	if err := checkGossipKeys(keys); err != nil {
		return err
	}
	if slices.EqualFunc(keys, c.GossipKeys(), bytes.Equal) {
		return nil
	}
	if err := write(c.dir, fileGossip, bytes.Join(keys, nil), 0o600); err != nil {
		return err
	}
	c.gossip.Store(&keys)
	return nil
}

func checkGossipKeys(keys [][]byte) error {
	if len(keys) == 0 || len(keys) > gossipKeysMax {
		return fmt.Errorf("%d gossip keys instead of 1 to %d", len(keys), gossipKeysMax)
	}
	for _, k := range keys {
		if len(k) != GossipKeySize {
			return fmt.Errorf("a gossip key has %d bytes instead of %d", len(k), GossipKeySize)
		}
	}
	return nil
}

// splitGossipKeys reads the keys of the gossip as the file has them, one behind the other.
func splitGossipKeys(text []byte) ([][]byte, error) {
	keys := slices.Collect(slices.Chunk(text, GossipKeySize))
	return keys, checkGossipKeys(keys)
}

// DeriveGossipKey returns the key of the gossip that controllers make of an authority's key and a
// random text. The log has only the text, so that no copy of it has the key. The authority is named as by
// [Credential.Anchor]; "": the one that issues certificates. It is false if its key is not here.
func (c *Credential) DeriveGossipKey(authority string, number int64, text string) (key []byte, known bool, err error) {
	a := c.trusted.Load().named(authority)
	if a == nil || a.key == nil {
		return nil, false, nil
	}
	secret, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		return nil, false, err
	}
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "rota gossip key %d %s", number, text)
	return mac.Sum(nil), true, nil
}

// NamedKey is a key of the gossip as the log names it. Key 0 came with the cluster; the others are derived
// of a text.
type NamedKey struct {
	Number    int64
	Text      string
	Authority string // of whose key it is derived
}

// GossipKeysOf returns the keys that the log names. Key 0, or a key of a replaced authority, is the
// key in this controller's file that is not one of the others. A controller that no longer has it
// goes on without it.
func (c *Credential) GossipKeysOf(named []NamedKey) ([][]byte, error) {
	first := -1
	keys := make([][]byte, len(named))
	left := slices.Clone(c.GossipKeys())
	for i, n := range named {
		if n.Number == 0 {
			first = i
			continue
		}
		key, known, err := c.DeriveGossipKey(n.Authority, n.Number, n.Text)
		if err != nil {
			return nil, err
		}
		if !known {
			first = i
			continue
		}
		keys[i] = key
		left = slices.DeleteFunc(left, func(k []byte) bool { return bytes.Equal(k, key) })
	}
	switch {
	case first >= 0 && len(left) > 0:
		keys[first] = left[0]
	case first >= 0:
		keys = slices.Delete(keys, first, first+1)
	}
	return keys, checkGossipKeys(keys)
}

// RememberSeeds writes down gossip addresses of controllers, by which this member finds the cluster
// after a restart.
func (c *Credential) RememberSeeds(seeds []string) error {
	return write(c.dir, fileSeeds, []byte(strings.Join(seeds, "\n")+"\n"), 0o600)
}

// recordContext begins every text that the authority signs which is no certificate. A certificate
// begins with another byte, so that neither passes for the other.
const recordContext = "rota gossip record 1\n"

// SignRecord signs what a controller says of itself, with the authority's key: all members verify it.
func (c *Credential) SignRecord(text []byte) ([]byte, error) {
	a := c.trusted.Load().anchor() // which every member trusts
	if a.key == nil {
		return nil, errors.New("only controllers sign records")
	}
	digest := sha256.Sum256(append([]byte(recordContext), text...))
	return ecdsa.SignASN1(rand.Reader, a.key, digest[:])
}

// VerifyRecord checks the signature of a record.
func (c *Credential) VerifyRecord(text, signature []byte) error {
	digest := sha256.Sum256(append([]byte(recordContext), text...))
	for _, a := range c.trusted.Load().authorities {
		if key, ok := a.Cert.PublicKey.(*ecdsa.PublicKey); ok && ecdsa.VerifyASN1(key, digest[:], signature) {
			return nil
		}
	}
	return errors.New("it is not signed by the cluster's authority")
}

// ClientAny returns how to connect to any member of the cluster.
func (c *Credential) ClientAny() *tls.Config {
	conf := c.Client(Controller)
	conf.VerifyConnection = func(s tls.ConnectionState) error {
		err := c.verifyChain(&s, x509.ExtKeyUsageServerAuth)
		if err == nil {
			_, err = c.Verify(&s)
		}
		return err
	}
	return conf
}

// loadGossip reads the keys of the gossip, and the addresses by which the cluster is found.
func (c *Credential) loadGossip() error {
	path := filepath.Join(c.dir, fileGossip)
	if err := private(path); err != nil {
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	keys, err := splitGossipKeys(text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	c.gossip.Store(&keys)
	seeds, err := os.ReadFile(filepath.Join(c.dir, fileSeeds))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	c.Seeds = strings.Fields(string(seeds))
	_, err = os.Stat(filepath.Join(c.dir, fileFounder))
	c.Founder = err == nil
	return nil
}
