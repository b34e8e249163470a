package api

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"unicode"

	"github.com/rota-hpc/rota/controld/model/trust"
)

// BearerToken is an API token: its id, its secret, and the fingerprint of the cluster's authority.
// A client recognises the controllers by that fingerprint. The user sees the token's text one time.
type BearerToken struct {
	ID          string
	secret      [32]byte
	Fingerprint []byte // SHA-256; empty if the cluster has no authority
}

const bearerPrefix = "rota-api"

// NewBearerToken creates a token for the cluster whose authority has this fingerprint.
func NewBearerToken(fingerprint []byte) BearerToken {
	var id [6]byte
	rand.Read(id[:]) // rand.Read never fails
	t := BearerToken{ID: hex.EncodeToString(id[:]), Fingerprint: fingerprint}
	rand.Read(t.secret[:])
	return t
}

// Text is the full token for the user. No other method includes the secret.
func (t BearerToken) Text() string {
	b := base64.RawURLEncoding
	return strings.Join([]string{bearerPrefix, t.ID, b.EncodeToString(t.secret[:]), b.EncodeToString(t.Fingerprint)}, ".")
}

// String names the token without its secret, for messages.
func (t BearerToken) String() string { return "API token " + t.ID }

// GoString is String, so that %#v does not print the secret either.
func (t BearerToken) GoString() string { return t.String() }

// Digest identifies the secret in the state.
func (t BearerToken) Digest() string {
	sum := sha256.Sum256(t.secret[:])
	return hex.EncodeToString(sum[:])
}

// Errors in the text of a token. A message never includes the text itself.
var (
	ErrTokenSpace = errors.New("the API token has white space in it, perhaps a line break from copying: paste it as " +
		"one word, as rota token create printed it")
	ErrTokenText = errors.New("this is not an API token: paste the whole word that rota token create printed; it begins " +
		"with rota-api")
)

// ParseBearerToken parses a token. It ignores surrounding white space. The error is [ErrTokenSpace]
// or [ErrTokenText].
func ParseBearerToken(text string) (BearerToken, error) {
	text = strings.TrimSpace(text)
	if strings.ContainsFunc(text, unicode.IsSpace) {
		return BearerToken{}, ErrTokenSpace
	}
	parts := strings.Split(text, ".")
	if len(parts) != 4 || parts[0] != bearerPrefix || len(parts[1]) != 12 {
		return BearerToken{}, ErrTokenText
	}
	if _, err := hex.DecodeString(parts[1]); err != nil {
		return BearerToken{}, ErrTokenText
	}
	b := base64.RawURLEncoding.Strict()
	secret, err := b.DecodeString(parts[2])
	fingerprint, err2 := b.DecodeString(parts[3])
	t := BearerToken{ID: parts[1], Fingerprint: fingerprint}
	if err != nil || err2 != nil || len(secret) != len(t.secret) ||
		len(fingerprint) != 0 && len(fingerprint) != sha256.Size {
		return BearerToken{}, ErrTokenText
	}
	copy(t.secret[:], secret)
	return t, nil
}

// ShowBearer adds a token to the headers of a request.
func ShowBearer(h http.Header, t BearerToken) { h.Set("Authorization", "Bearer "+t.Text()) }

// APIToken is the public part of a token by which a pipeline acts for a user.
type APIToken struct {
	ID      string           `json:"id"`
	Name    string           `json:"name,omitempty"`
	User    string           `json:"user"` // user for which the token acts
	By      string           `json:"by"`   // user that made it
	Scope   trust.TokenScope `json:"scope"`
	State   string           `json:"state"` // valid, expired or revoked
	Created *Time            `json:"created"`
	Expires *Time            `json:"expires"`
}

// TokenRequest requests an API token.
type TokenRequest struct {
	Name  string           `json:"name,omitempty"`
	User  string           `json:"user,omitempty"`  // user for which the token acts; "": the caller. Others are for admins
	Scope trust.TokenScope `json:"scope,omitempty"` // "": submit
	Days  int              `json:"days,omitempty"`  // days of validity, at most 365; 0: 90
}

// CreatedToken is a new API token. Its text is shown only this time.
type CreatedToken struct {
	APIToken
	Token string `json:"token"`
}
