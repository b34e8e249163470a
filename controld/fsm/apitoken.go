package fsm

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/model"
)

// KindCreateAPIToken is the kind of [CreateAPIToken].
var KindCreateAPIToken = newKind("create-api-token/1")

// CreateAPIToken enters a token with which a pipeline acts for a user. Tokens that have expired are
// dropped. Its result is the *model.APIToken.
type CreateAPIToken struct {
	ID     string           `json:"id"`
	Name   string           `json:"name,omitempty"`
	Digest string           `json:"digest"` // of the secret
	User   model.Identity   `json:"user"`   // that the token acts for
	By     string           `json:"by"`     // user that makes it
	Scope  model.TokenScope `json:"scope"`
	LifeMS int64            `json:"life_ms"` // how long it is valid
}

// Kind implements Command.
func (CreateAPIToken) Kind() Kind { return KindCreateAPIToken }

// apply enters the token.
func (c CreateAPIToken) apply(m *Machine) (any, error) {
	now := m.s.Now()
	t := &model.APIToken{ID: c.ID, Name: c.Name, Digest: c.Digest, User: c.User, By: c.By, Scope: c.Scope, Created: now}
	t.Expires = model.Stamp{At: now.At + model.Instant(c.LifeMS), Wall: now.Wall + model.UnixMS(c.LifeMS)}
	if c.LifeMS <= 0 || c.LifeMS > model.MaxAPITokenDays*model.DayMS || m.v.APIToken(c.ID) != nil || !t.WellFormed() {
		return nil, model.ErrBadToken
	}
	var all, own int64
	for _, o := range m.v.APITokens() {
		switch {
		case o.Expires.At <= now.At:
			continue
		case o.User.UID == c.User.UID:
			own++
		}
		all++
	}
	if err := model.Limit("the number of API tokens in the cluster", all+1, model.MaxAPITokens, ""); err != nil {
		return nil, err
	}
	if err := model.Limit("the number of API tokens of one user", own+1, model.MaxAPITokensUser, ""); err != nil {
		return nil, err
	}
	m.s.DropExpiredTokens()
	m.s.AddAPIToken(t)
	return t, nil
}

// KindRevokeAPIToken is the kind of [RevokeAPIToken].
var KindRevokeAPIToken = newKind("revoke-api-token/1")

// RevokeAPIToken drops a token, and those that have expired.
type RevokeAPIToken struct {
	ID string `json:"id"`
}

// Kind implements Command.
func (RevokeAPIToken) Kind() Kind { return KindRevokeAPIToken }

// apply drops the token.
func (c RevokeAPIToken) apply(m *Machine) (any, error) {
	if m.v.APIToken(c.ID) == nil {
		return nil, fmt.Errorf("token %q: %w", c.ID, model.ErrNoAPIToken)
	}
	m.s.DropAPIToken(c.ID)
	m.s.DropExpiredTokens()
	return nil, nil
}
