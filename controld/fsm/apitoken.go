package fsm

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/trust"
)

// KindCreateAPIToken is the kind of [CreateAPIToken].
var KindCreateAPIToken = newKind("create-api-token/1")

// CreateAPIToken enters a token with which a pipeline acts for a user. Tokens that have expired are
// dropped, and if the table is full those that were revoked. Its result is the *trust.APIToken.
type CreateAPIToken struct {
	ID     string           `json:"id"`              // public part of the token
	Name   string           `json:"name,omitempty"`  // given by the user
	Digest string           `json:"digest"`          // of the secret
	User   model.Identity   `json:"user"`            // that the token acts for
	Group  string           `json:"group,omitempty"` // name of the user's primary group
	By     string           `json:"by"`              // user that makes it
	Scope  trust.TokenScope `json:"scope"`           // what the token may be used for
	LifeMS int64            `json:"life_ms"`         // how long it is valid
}

// Kind implements Command.
func (CreateAPIToken) Kind() Kind { return KindCreateAPIToken }

// apply enters the token.
func (c CreateAPIToken) apply(m *Machine) (any, error) {
	now := m.s.Now()
	t := &trust.APIToken{ID: c.ID, Name: c.Name, Digest: c.Digest, User: c.User, Group: c.Group, By: c.By,
		Scope: c.Scope, Created: now}
	t.Expires = model.Stamp{At: now.At + model.Instant(c.LifeMS), Wall: now.Wall + model.UnixMS(c.LifeMS)}
	if c.LifeMS <= 0 || c.LifeMS > trust.MaxAPITokenDays*trust.DayMS || m.v.APIToken(c.ID) != nil || !t.WellFormed() {
		return nil, trust.ErrBadToken
	}
	var all, own int64
	for _, o := range m.v.APITokens() {
		if o.Revoked != nil || o.Expires.At <= now.At {
			continue
		}
		if all++; o.User.UID == c.User.UID {
			own++
		}
	}
	if err := model.Limit("the number of API tokens in the cluster", all+1, trust.MaxAPITokens, ""); err != nil {
		return nil, err
	}
	if err := model.Limit("the number of API tokens of one user", own+1, trust.MaxAPITokensUser, ""); err != nil {
		return nil, err
	}
	m.s.DropTokens(func(o *trust.APIToken) bool {
		return o.Expires.At <= now.At || o.Revoked != nil && len(m.v.APITokens()) >= trust.MaxAPITokens
	})
	m.s.AddAPIToken(t)
	return t, nil
}

// KindRevokeAPIToken is the kind of [RevokeAPIToken].
var KindRevokeAPIToken = newKind("revoke-api-token/1")

// RevokeAPIToken marks a token as revoked, until it expires: its users are told what happened. Its
// result is the *trust.APIToken.
type RevokeAPIToken struct {
	ID string `json:"id"` // public part of the token
}

// Kind implements Command.
func (RevokeAPIToken) Kind() Kind { return KindRevokeAPIToken }

// apply drops the token.
func (c RevokeAPIToken) apply(m *Machine) (any, error) {
	old := m.v.APIToken(c.ID)
	switch {
	case old == nil:
		return nil, fmt.Errorf("token %q: %w", c.ID, trust.ErrNoAPIToken)
	case old.Revoked != nil:
		return old, nil
	}
	t, now := *old, m.s.Now()
	t.Revoked = &now
	m.s.DropTokens(func(o *trust.APIToken) bool { return o == old })
	m.s.AddAPIToken(&t)
	return &t, nil
}
