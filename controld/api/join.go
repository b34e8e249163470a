package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/rota-hpc/rota/controld/api/pki"
)

// JoinTokenRequest asks for a join token.
type JoinTokenRequest struct {
	Role string `json:"role"` // of the machine that joins: controller, node or login
}

// JoinToken is a new join token.
type JoinToken struct {
	Token     string `json:"token"`
	Role      string `json:"role"`
	ExpiresIn int64  `json:"expires_in"` // seconds
}

// JoinRequest is what a machine shows to join.
type JoinRequest struct {
	Secret  string `json:"secret"` // of the token
	Role    string `json:"role"`
	Name    string `json:"name"`
	Request string `json:"request"` // certificate signing request, in PEM
}

// CertificateRequest asks for a new certificate in place of the one that the connection shows.
type CertificateRequest struct {
	Request string `json:"request"` // certificate signing request, in PEM
}

// Certificate is a new certificate.
type Certificate struct {
	Cert string `json:"cert"` // in PEM
}

// Revocation says which certificates are good now.
type Revocation struct {
	Role       string `json:"role"`
	Name       string `json:"name"`
	Generation int64  `json:"generation"` // certificates below it are refused
}

// CreateJoinToken asks for a token that lets one machine join.
func (c *Client) CreateJoinToken(ctx context.Context, role string) (*JoinToken, error) {
	return post[JoinToken](ctx, c, call{path: "/v1/join-tokens"}, JoinTokenRequest{Role: role})
}

// Revoke has every certificate refused that a member got so far.
func (c *Client) Revoke(ctx context.Context, role, name string) (*Revocation, error) {
	path := "/v1/members/" + url.PathEscape(role) + "/" + url.PathEscape(name) + "/revoke"
	return post[Revocation](ctx, c, call{path: path}, struct{}{})
}

// GossipKey says how far a change of the key of the gossip is.
type GossipKey struct {
	Number int64  `json:"number"`          // of the newest key; 0: that of the cluster's beginning
	Phase  string `json:"phase,omitempty"` // installed, used, or "": it is the only one
}

// RotateGossipKey begins to replace the key of the gossip.
func (c *Client) RotateGossipKey(ctx context.Context) (*GossipKey, error) {
	return post[GossipKey](ctx, c, call{path: "/v1/gossip-key/rotate"}, struct{}{})
}

// AuthorityChange says how far a replacement of the authority is that issues certificates.
type AuthorityChange struct {
	Number int64 `json:"number"` // of replacements that were begun
	// trusted: the new authority is trusted beside the old one; issues: it issues certificates; "": it is alone
	Phase string `json:"phase,omitempty"`
	// what the next phase waits for, as ROLE/NAME: [MaxLacking] at most
	Lacking []string `json:"lacking,omitempty"`
	More    int      `json:"more,omitempty"` // that wait beyond Lacking
}

// MaxLacking bounds the members that AuthorityChange names.
const MaxLacking = 20

// ReplaceAuthority begins to replace the authority that issues certificates.
func (c *Client) ReplaceAuthority(ctx context.Context) (*AuthorityChange, error) {
	return post[AuthorityChange](ctx, c, call{path: "/v1/authority/rotate"}, struct{}{})
}

// FinishAuthority ends the trust in the old authority, although machines may have no other certificate.
func (c *Client) FinishAuthority(ctx context.Context) (*AuthorityChange, error) {
	return post[AuthorityChange](ctx, c, call{path: "/v1/authority/finish"}, struct{}{})
}

// Authority is what members are to trust, at an index of the state.
type Authority struct {
	pki.Trusted
	Index uint64 `json:"index"`
}

// Authority asks for what members are to trust.
func (c *Client) Authority(ctx context.Context) (*Authority, error) {
	a, _, err := get[Authority](ctx, c, "/v1/authority", nil, Read{})
	return a, err
}

// RenewCertificate gets a new certificate for the member that this client speaks for.
func (c *Client) RenewCertificate(ctx context.Context, request []byte) ([]byte, error) {
	cert, err := post[Certificate](ctx, c, call{path: "/v1/certificate", repeat: true},
		CertificateRequest{Request: string(request)})
	if err != nil {
		return nil, err
	}
	return []byte(cert.Cert), nil
}

// joinTimeout is how long a controller may take to let a machine join.
const joinTimeout = 30 * time.Second

// Join makes a machine a member of the token's cluster. It asks the controller at addr (host:port),
// and writes the certificate and keys to dir.
func Join(ctx context.Context, addr string, token pki.Token, role pki.Role, name, dir string) (*pki.Grant, error) {
	addr = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(addr), "https://"), "/")
	if _, _, err := net.SplitHostPort(addr); err != nil {
		addr = net.JoinHostPort(addr, DefaultPort)
	}
	req, err := pki.NewRequest()
	if err != nil {
		return nil, err
	}
	c, err := DialWith("https://"+addr, Options{TLS: token.Client(), Answer: joinTimeout})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	grant, err := post[pki.Grant](ctx, c, call{path: "/v1/join", repeat: true}, JoinRequest{Secret: token.Secret(),
		Role: string(role), Name: name, Request: string(req.PEM)})
	if errors.Is(err, pki.ErrOtherCluster) {
		return nil, fmt.Errorf("%w (%s): check that the token was made in the cluster of this controller",
			pki.ErrOtherCluster,
			addr)
	}
	if err != nil {
		return nil, fmt.Errorf("join at %s: %w", addr, err)
	}
	return grant, req.Install(dir, grant)
}

// DefaultPort is that of controllers' APIs.
const DefaultPort = "7070"
