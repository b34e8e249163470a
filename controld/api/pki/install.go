package pki

import (
	"crypto/ecdsa"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/controld/api/clock"
)

// Init makes a new cluster in dir: its authority, its gossip key, and the certificate of its first
// controller, whose start makes the log. It returns the cluster's id. A directory of a member is
// refused.
func Init(dir, name string) (cluster string, err error) {
	if err := vacant(dir); err != nil {
		return "", err
	}
	authority, err := NewAuthority(clock.Wall())
	if err != nil {
		return "", err
	}
	first := &Credential{}
	first.trusted.Store(newTrust([]*Authority{authority}, nil))
	first.gossip.Store(&[][]byte{NewGossipKey()})
	if err := first.Issue(dir, Controller, name, nil); err != nil {
		return "", err
	}
	if err := write(dir, fileFounder, nil, 0o600); err != nil {
		return "", err
	}
	return clusterOf(authority.Cert)
}

// vacant refuses a directory that has a credential.
func vacant(dir string) error {
	c, err := Load(dir)
	if errors.Is(err, ErrNoCredential) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s has a credential already: %w", dir, err)
	}
	return fmt.Errorf("this machine is already %s of cluster %s (%s): to leave that cluster, stop the daemon and move "+
		"its data directory away", c.Member, c.Member.Cluster, dir)
}

// Issue makes the credential of another member in dir, with this controller's authority. A machine
// that does not have the authority at hand makes a [Request].
func (c *Credential) Issue(dir string, r Role, name string, seeds []string) error {
	req, err := NewRequest()
	if err != nil {
		return err
	}
	grant, err := c.Grant(req.PEM, r, name, seeds)
	if err != nil {
		return err
	}
	return req.Install(dir, grant)
}

// Request is what a machine asks with to join: a new key, and the proof that it has it.
type Request struct {
	PEM []byte
	key *ecdsa.PrivateKey
}

// NewRequest makes a key and a signing request for it.
func NewRequest() (*Request, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	text, err := signingRequest(key)
	return &Request{PEM: text, key: key}, err
}

// Install writes a grant to dir as the credential of a member. The certificate is written last:
// without it the directory has no credential. A directory of another cluster's member is refused; a
// member of the same cluster gets the new certificate.
func (r *Request) Install(dir string, g *Grant) error {
	t, err := g.read()
	if err != nil {
		return fmt.Errorf("certificate of the cluster: %w", err)
	}
	if old, err := os.ReadFile(filepath.Join(dir, fileCA)); err == nil {
		if before, err := decodeCerts(old); err != nil || !sameCluster(before[0], t.authorities[0].Cert) {
			if err := vacant(dir); err != nil {
				return err
			}
		}
	}
	key, err := encodeKey(r.key)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return err
	}
	for _, name := range []string{fileCert, fileCAKey, fileNext} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	files := []struct{ name, text string }{
		{fileCA, g.CA}, {fileKey, string(key)}, {fileGossip, string(g.GossipKey)},
		{fileSeeds, strings.Join(g.Seeds, "\n") + "\n"}, {fileCert, g.Cert},
	}
	if g.Succession != "" {
		files = slices.Insert(files, 1, struct{ name, text string }{fileNext, g.Succession})
	}
	if g.CAKey != "" {
		files = slices.Insert(files, 1, struct{ name, text string }{fileCAKey, g.CAKey})
	}
	for _, f := range files {
		if err := write(dir, f.name, []byte(f.text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// write replaces a file at once and for good: after a crash it is the old or the new one.
func write(dir, name string, text []byte, mode os.FileMode) error {
	path := filepath.Join(dir, name)
	f, err := os.OpenFile(path+".next", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(path+".next", path); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
