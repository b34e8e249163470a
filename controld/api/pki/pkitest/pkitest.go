// Package pkitest makes clusters and their members for tests.
package pkitest

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api/pki"
)

// Cluster is a cluster that exists only as an authority.
type Cluster struct {
	t     testing.TB
	first *pki.Credential
	dir   string
	n     int
}

// New makes a cluster, which goes with the test.
func New(t testing.TB) *Cluster {
	t.Helper()
	dir := t.TempDir()
	if _, err := pki.Init(filepath.Join(dir, "first"), "first"); err != nil {
		t.Fatal(err)
	}
	return &Cluster{t: t, first: load(t, filepath.Join(dir, "first")), dir: dir}
}

func load(t testing.TB, dir string) *pki.Credential {
	t.Helper()
	c, err := pki.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// First is the controller that has made the cluster.
func (c *Cluster) First() *pki.Credential { return c.first }

// Issue writes the credential of a member to dir.
func (c *Cluster) Issue(dir string, r pki.Role, name string) {
	c.t.Helper()
	if err := c.first.Issue(dir, r, name, nil); err != nil {
		c.t.Fatal(err)
	}
}

// Member returns the credential of a member.
func (c *Cluster) Member(r pki.Role, name string) *pki.Credential {
	c.t.Helper()
	c.n++
	dir := filepath.Join(c.dir, string(r)+"-"+name+"-"+string(rune('a'+c.n)))
	c.Issue(dir, r, name)
	return load(c.t, dir)
}

// Expired returns the credential of a member whose certificate has ended at an instant.
func (c *Cluster) Expired(r pki.Role, name string, end time.Time) *pki.Credential {
	c.t.Helper()
	member := c.Member(r, name)
	if err := member.RenewWith(func(request []byte) ([]byte, error) {
		return c.first.Authority().Sign(request, pki.Member{Role: r, Name: name}, end.Add(-pki.Life))
	}); err != nil {
		c.t.Fatal(err)
	}
	return member
}
