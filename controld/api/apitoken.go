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

// BearerToken is the text of an API token: its id, its secret, and the fingerprint of the cluster's
// authority. A client knows the controllers by that fingerprint. It is shown to the user once.
type BearerToken struct {
	ID          string
	secret      [32]byte
	Fingerprint []byte // SHA-256; empty where the cluster has no authority
}

const bearerPrefix = "rota-api"

// NewBearerToken makes a token of a cluster whose authority has this fingerprint.
func NewBearerToken(fingerprint []byte) BearerToken {
	var id [6]byte
	rand.Read(id[:]) // never fails
	t := BearerToken{ID: hex.EncodeToString(id[:]), Fingerprint: fingerprint}
	rand.Read(t.secret[:])
	return t
}

// Text is the token as it is handed over. Nothing else writes its secret.
func (t BearerToken) Text() string {
	b := base64.RawURLEncoding
	return strings.Join([]string{bearerPrefix, t.ID, b.EncodeToString(t.secret[:]), b.EncodeToString(t.Fingerprint)}, ".")
}

// String names the token without its secret, for messages.
func (t BearerToken) String() string { return "API token " + t.ID }

// GoString is String: a token that is printed with %#v does not show its secret either.
func (t BearerToken) GoString() string { return t.String() }

// Digest is how the state names the secret.
func (t BearerToken) Digest() string {
	sum := sha256.Sum256(t.secret[:])
	return hex.EncodeToString(sum[:])
}

// Errors in the text of a token. The text itself is never part of a message.
var (
	ErrTokenSpace = errors.New("the API token has white space in it, perhaps a line break from copying: paste it as " +
		"one word, as rota token create printed it")
	ErrTokenText = errors.New("this is not an API token: paste the whole word that rota token create printed, " +
		"which begins with rota-api")
)

// ParseBearerToken reads the text of a token. White space around it is dropped. The error is
// [ErrTokenSpace] or [ErrTokenText].
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

// ShowBearer puts a token into the headers of a request.
func ShowBearer(h http.Header, t BearerToken) { h.Set("Authorization", "Bearer "+t.Text()) }

// APIToken is a token with which a pipeline acts for a user, without its secret.
type APIToken struct {
	ID      string           `json:"id"`
	Name    string           `json:"name,omitempty"`
	User    string           `json:"user"` // that it acts for
	By      string           `json:"by"`   // user that made it
	Scope   trust.TokenScope `json:"scope"`
	State   string           `json:"state"` // valid, expired or revoked
	Created *Time            `json:"created"`
	Expires *Time            `json:"expires"`
}

// TokenRequest asks for an API token.
type TokenRequest struct {
	Name  string           `json:"name,omitempty"`
	User  string           `json:"user,omitempty"`  // that it acts for; "": the caller. Others are for admins
	Scope trust.TokenScope `json:"scope,omitempty"` // "": submit
	Days  int              `json:"days,omitempty"`  // that it is valid, at most 365; 0: 90
}

// CreatedToken is a new API token. Its text is shown this one time.
type CreatedToken struct {
	APIToken
	Token string `json:"token"`
}
