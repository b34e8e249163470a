package trust

import (
	"encoding/hex"
	"errors"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
)

// APIToken is a token with which a pipeline acts for a user. The state has a digest of its secret
// and never the secret.
type APIToken struct {
	ID     string         `json:"id"`
	Name   string         `json:"name,omitempty"` // for users, such as the name of a pipeline
	Digest string         `json:"digest"`         // SHA-256 of the secret, in hexadecimal digits
	User   model.Identity `json:"user"`           // that it acts for
	// Group is the name of the user's primary group when the token was made, "" if no name was known.
	// Submissions by the token are charged to the account of that group.
	Group   string       `json:"group,omitempty"`
	By      string       `json:"by"` // user that made it
	Scope   TokenScope   `json:"scope"`
	Created model.Stamp  `json:"created"`
	Expires model.Stamp  `json:"expires"`
	Revoked *model.Stamp `json:"revoked,omitempty"` // nil: it is not
}

// TokenScope says what a token is good for.
type TokenScope string

// Scopes of tokens, each with what the one before has.
const (
	ScopeRead   TokenScope = "read"   // read what the user may read as the owner of its jobs
	ScopeSubmit TokenScope = "submit" // submit jobs, and control the user's own
	ScopeAll    TokenScope = "all"    // whatever the user may do, also as coordinator, operator or admin
)

// TokenScopes lists the scopes, the narrowest first.
var TokenScopes = []TokenScope{ScopeRead, ScopeSubmit, ScopeAll}

// Limits of API tokens.
const (
	MaxAPITokens     = 10_000
	MaxAPITokensUser = 100 // of one user
	DayMS            = 24 * 60 * 60 * 1000
	APITokenDays     = 90  // that a token is valid unless it says otherwise
	MaxAPITokenDays  = 365 // that a token is valid at most
	digestBytes      = 32  // of SHA-256
)

// Refusals about API tokens.
var (
	ErrNoAPIToken = errors.New("there is no such API token: rota token list shows yours")
	ErrBadToken   = errors.New("an API token has an unused id, a digest, a user, and scope read, submit or all; it is " +
		"valid for at most 365 days")
)

// WellFormed reports whether a token has all that it must have.
func (t *APIToken) WellFormed() bool {
	digest, err := hex.DecodeString(t.Digest)
	return err == nil && len(digest) == digestBytes && t.ID != "" && len(t.ID) <= 64 && len(t.Name) <= 63 &&
		t.User.User != "" && slices.Contains(TokenScopes, t.Scope)
}
