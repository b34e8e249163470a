// Package pki holds the parts of membership in a cluster: the certificate authority, a certificate
// for each member, the gossip key, and join tokens.
//
// A cluster has one authority, made by `rota-controld init`. Its certificate carries the cluster's
// id. Each member has a certificate that names the cluster, its role and its name. It is valid for
// 30 days and renewed at two thirds of that time. Every controller has the authority's key, so that
// each of them can let machines join and renew their certificates. [Authority] signs, [Credential]
// is what one member has on disk and how it makes and takes connections, and [Token] lets a machine
// join.
package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Role is what a member of a cluster may do.
type Role string

// Roles. A login node passes requests of its users on, and runs nothing.
const (
	Controller Role = "controller"
	Node       Role = "node"
	Login      Role = "login"
)

// Roles are all of them.
func Roles() []Role { return []Role{Controller, Node, Login} }

// Valid reports whether r is a role.
func (r Role) Valid() bool { return r == Controller || r == Node || r == Login }

// Member is a machine of a cluster, as its certificate names it.
type Member struct {
	Cluster string // the cluster's id
	Role    Role
	Name    string
	// Generation is the number of times that certificates of this role and name had been revoked
	// when this one was issued.
	Generation int64
}

// Lifetimes.
const (
	authorityLife = 10 * 365 * 24 * time.Hour
	// Life is how long a certificate of a member lasts.
	Life = 30 * 24 * time.Hour
	// backdate lets machines work together whose clocks differ by hours.
	backdate = 25 * time.Hour
)

// scheme of the URI that names a member in its certificate.
const scheme = "rota"

// uri returns the name of a member as it stands in a certificate.
func (m Member) uri() *url.URL {
	u := &url.URL{Scheme: scheme, Host: m.Cluster}
	if m.Role != "" {
		u.Path = "/" + string(m.Role) + "/" + m.Name
		u.RawQuery = "generation=" + strconv.FormatInt(m.Generation, 10)
	}
	return u
}

// String names a member for messages.
func (m Member) String() string { return string(m.Role) + " " + m.Name }

// host is the name by which a connection finds a member of a role: which of them answers does not
// matter to TLS.
func host(r Role, cluster string) string { return string(r) + "." + cluster + ".rota" }

// ErrNotMember says that a certificate is not one of a member.
var ErrNotMember = errors.New("the certificate does not name a member of a cluster")

// MemberOf reads the member that a certificate names. It does not verify the certificate.
func MemberOf(c *x509.Certificate) (Member, error) {
	if len(c.URIs) != 1 || c.URIs[0].Scheme != scheme {
		return Member{}, ErrNotMember
	}
	u := c.URIs[0]
	role, name, ok := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	m := Member{Cluster: u.Host, Role: Role(role), Name: name}
	generation, err := strconv.ParseInt(u.Query().Get("generation"), 10, 64)
	if !ok || !m.Role.Valid() || name == "" || m.Cluster == "" || err != nil {
		return Member{}, fmt.Errorf("%w: %s", ErrNotMember, u)
	}
	m.Generation = generation
	return m, nil
}

// clusterOf reads the cluster's id from the authority's certificate.
func clusterOf(ca *x509.Certificate) (string, error) {
	if len(ca.URIs) != 1 || ca.URIs[0].Scheme != scheme || ca.URIs[0].Host == "" || !ca.IsCA {
		return "", errors.New("the certificate does not belong to a cluster's authority")
	}
	return ca.URIs[0].Host, nil
}
