package fsm

import (
	"slices"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/trust"
)

// KindCreateJoinToken is the kind of [CreateJoinToken].
var KindCreateJoinToken = newKind("create-join-token/1")

// CreateJoinToken enters a token that lets one machine join, for 24 hours. Tokens that have expired
// are dropped. Its result is the trust.JoinToken.
type CreateJoinToken struct {
	Digest string `json:"digest"` // of the secret
	Role   string `json:"role"`   // that the machine will have
	By     string `json:"by"`     // user that asks for it
}

// Kind implements Command.
func (CreateJoinToken) Kind() Kind { return KindCreateJoinToken }

// apply enters the token.
func (c CreateJoinToken) apply(m *Machine) (any, error) {
	now := m.s.At()
	t := *m.v.Trust()
	t.Tokens = slices.DeleteFunc(slices.Clone(t.Tokens), func(k trust.JoinToken) bool { return k.Expires <= now })
	if err := model.Limit("join tokens of the last 24 hours", int64(len(t.Tokens))+1, trust.MaxJoinTokens,
		""); err != nil {
		return nil, err
	}
	token := trust.JoinToken{Digest: c.Digest, Role: c.Role, By: c.By, Expires: now + trust.JoinTokenMS}
	t.Tokens = append(t.Tokens, token)
	m.s.SetTrust(&t)
	return token, nil
}

// KindUseJoinToken is the kind of [UseJoinToken].
var KindUseJoinToken = newKind("use-join-token/1")

// UseJoinToken marks a token as used by a machine that joins. The same machine, known by its key,
// may use it again: the first answer may have been lost.
type UseJoinToken struct {
	Digest string `json:"digest"` // of the secret
	Role   string `json:"role"`   // that the machine wants
	Name   string `json:"name"`   // of the machine
	Key    string `json:"key"`    // digest of its public key
}

// Kind implements Command.
func (UseJoinToken) Kind() Kind { return KindUseJoinToken }

// apply marks the token.
func (c UseJoinToken) apply(m *Machine) (any, error) {
	t := *m.v.Trust()
	i, err := t.TokenFor(c.Digest, c.Role, c.Name, c.Key, m.s.At())
	if err != nil || t.Tokens[i].Key != "" { // the same machine asks again
		return nil, err
	}
	t.Tokens = slices.Clone(t.Tokens)
	t.Tokens[i].Name, t.Tokens[i].Key = c.Name, c.Key
	m.s.SetTrust(&t)
	return nil, nil
}
