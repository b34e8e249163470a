// Package trust has what the replicated state knows of the members of a cluster and of the tokens that
// let machines and pipelines in. It has digests and certificates, and no secret.
package trust

import (
	"errors"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
)

// Trust is what the replicated state knows of the cluster's members: its id, join tokens that were
// given out, and certificates that were revoked. Secrets are not part of it.
type Trust struct {
	// Cluster is the id of the cluster, the same as in its certificates. It comes with the first
	// entry of the log and never changes.
	Cluster string       `json:"cluster,omitempty"`
	Tokens  []JoinToken  `json:"tokens,omitempty"`  // oldest first, [MaxJoinTokens] at most
	Revoked []Revocation `json:"revoked,omitempty"` // by role and name, [MaxRevocations] at most
	// Gossip is how the key of the gossip has changed since the cluster was made; nil: it has not.
	Gossip *GossipKeys `json:"gossip,omitempty"`
	// Authority is the last replacement of the authority that issues certificates; nil: there was none.
	Authority *AuthorityChange `json:"authority,omitempty"`
}

// AuthorityChange is how the authority that issues certificates is replaced, or was the last time.
type AuthorityChange struct {
	Number int64 `json:"number"` // of replacements that were begun
	// certificates of the new authority and the one before; their keys are on the controllers' disks
	Succession string         `json:"succession"`
	Phase      AuthorityPhase `json:"phase,omitempty"`
	Since      model.Instant  `json:"since"` // of Phase
}

// AuthorityPhase is how far a replacement of the authority is.
type AuthorityPhase string

// Phases of a replacement, in this order.
const (
	AuthorityTrusted AuthorityPhase = "trusted" // the new one is trusted beside the old one, and controllers get its key
	AuthorityIssues  AuthorityPhase = "issues"  // it issues certificates, and members get theirs
	AuthorityDone    AuthorityPhase = ""        // the old one is no longer trusted
)

// MaxSuccession bounds the text of a succession, in bytes.
const MaxSuccession = 16 << 10

// GossipKeys are the keys of the gossip that members accept. They send with the first.
type GossipKeys struct {
	Keys  []GossipKey   `json:"keys"`
	Phase GossipPhase   `json:"phase,omitempty"` // of the change to the newest key
	Since model.Instant `json:"since"`           // of Phase
}

// GossipKey names one key of the gossip. Controllers derive it of an authority's key and Text, so that the
// log has no key. Key 0 came with the cluster, and is in the files of its members.
type GossipKey struct {
	Number    int64  `json:"number"`
	Text      string `json:"text,omitempty"`
	Authority string `json:"authority,omitempty"` // fingerprint
}

// GossipPhase is how far a change of the key is.
type GossipPhase string

// Phases of a change, in this order.
const (
	GossipInstalled GossipPhase = "installed" // members accept the new key, and send with the old one
	GossipUsed      GossipPhase = "used"      // members send with the new key, and accept the old one
	GossipDone      GossipPhase = ""          // the old key is dropped
)

// MaxKeyText bounds the text that a key is derived of.
const MaxKeyText = 64

// Newest returns the number of the newest key.
func (g *GossipKeys) Newest() int64 {
	var n int64
	for _, k := range g.Keys {
		n = max(n, k.Number)
	}
	return n
}

// Limits of Trust.
const (
	MaxJoinTokens  = 1000
	MaxRevocations = 10_000
)

// JoinTokenMS is how long a join token is valid, in milliseconds.
const JoinTokenMS = 24 * 60 * 60 * 1000

// JoinToken is a token that lets one machine join.
type JoinToken struct {
	Digest  string        `json:"digest"` // of its secret
	Role    string        `json:"role"`   // that the machine gets
	By      string        `json:"by"`     // user that asked for the token
	Expires model.Instant `json:"expires"`
	// of the machine that has used it
	Name string `json:"name,omitempty"`
	Key  string `json:"key,omitempty"` // digest of its public key
}

// Revocation says that certificates of a role and name below a generation are no longer good.
type Revocation struct {
	Role       string `json:"role"`
	Name       string `json:"name"`
	Generation int64  `json:"generation"`
}

// Generation is that of the certificates of a role and name that are good.
func (t *Trust) Generation(role, name string) int64 {
	for _, r := range t.Revoked {
		if r.Role == role && r.Name == name {
			return r.Generation
		}
	}
	return 0
}

// KnowsToken reports whether a token with a digest was given out in the last 24 hours.
func (t *Trust) KnowsToken(digest string) bool {
	return slices.ContainsFunc(t.Tokens, func(k JoinToken) bool { return k.Digest == digest })
}

// TokenFor returns the index in Tokens of the token with this digest. The machine with this name,
// key and role must be allowed to join with it now. Its error says why this token lets that machine
// not join.
func (t *Trust) TokenFor(digest, role, name, key string, now model.Instant) (int, error) {
	i := slices.IndexFunc(t.Tokens, func(k JoinToken) bool { return k.Digest == digest })
	switch {
	case i < 0:
		return i, ErrNoToken
	case t.Tokens[i].Expires <= now:
		return i, ErrTokenExpired
	case t.Tokens[i].Role != role:
		return i, ErrTokenRole
	case t.Tokens[i].Key != "" && (t.Tokens[i].Key != key || t.Tokens[i].Name != name):
		return i, ErrTokenUsed
	}
	return i, nil
}

// Refusals about members.
var (
	ErrFounded      = errors.New("the log has the id of a cluster already")
	ErrNoToken      = errors.New("this join token is not known to the cluster: make one with rota cluster join-token")
	ErrTokenExpired = errors.New("this join token has expired after 24 hours: make another one with " +
		"rota cluster join-token")
	ErrTokenUsed = errors.New("this join token was used already: each is good for one machine; make another one with " +
		"rota cluster join-token")
	ErrTokenRole = errors.New("this join token is for another role")
	ErrKeyChange = errors.New("the key of the gossip is being changed: wait until that is over (rota cluster)")
	ErrKeyText   = errors.New("a key needs a text of 1 to 64 bytes")
	ErrKeyPhase  = errors.New("the change of the key is in another phase")

	ErrSuccession     = errors.New("a replacement of the authority needs the new authority's certificates")
	ErrAuthority      = errors.New("the authority is being replaced: wait until that is over (rota cluster)")
	ErrAuthorityPhase = errors.New("the replacement of the authority is in another phase (rota cluster)")
)
