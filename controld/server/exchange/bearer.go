package exchange

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/trust"
	"github.com/rota-hpc/rota/controld/server/problem"
)

// ScopeNever is the scope of routes that no token may use.
const ScopeNever trust.TokenScope = "none"

// TokenScope returns the scope that a token needs for a route: read for what reads, and all for
// what acts, unless the route says otherwise.
func (rt *Route) TokenScope() trust.TokenScope {
	switch {
	case rt.Token != "":
		return rt.Token
	case rt.Method == http.MethodGet:
		return trust.ScopeRead
	}
	return trust.ScopeAll
}

// covers reports whether a token of a scope may use what needs another one.
func covers(has, needs trust.TokenScope) bool {
	need := slices.Index(trust.TokenScopes, needs)
	return need >= 0 && need <= slices.Index(trust.TokenScopes, has)
}

// badToken refuses a token that nothing can be done with.
func badToken(detail string) error {
	return &api.Problem{Status: http.StatusUnauthorized, Code: api.CodeUnauthorised, Detail: detail,
		Hint: "make another token with `rota token create`, on a machine of the cluster"}
}

// shown reports whether a request shows a token, or anything in its place. Such a request counts by
// its token alone, also if a member vouches for its caller.
func shown(r *http.Request) bool { return len(r.Header.Values("Authorization")) > 0 }

// bearer identifies the caller of a request by its API token. Its error says what to do, and never
// has the secret.
func (s *Service) bearer(r *http.Request) (identity.Caller, error) {
	none := identity.Caller{}
	all := r.Header.Values("Authorization")
	scheme, text, _ := strings.Cut(strings.TrimSpace(all[0]), " ")
	if len(all) != 1 || !strings.EqualFold(scheme, "Bearer") {
		return none, badToken("the header Authorization of this request has no API token, or several: write " +
			"\"Authorization: Bearer TOKEN\" once")
	}
	t, err := api.ParseBearerToken(text)
	if err != nil {
		return none, &api.Problem{Status: http.StatusUnauthorized, Code: api.CodeUnauthorised, Detail: err.Error()}
	}
	if own := s.fingerprint(); len(t.Fingerprint) > 0 && subtle.ConstantTimeCompare(t.Fingerprint, own) != 1 {
		return none, badToken(fmt.Sprintf("%s is of another cluster", t))
	}
	v := s.Replica.View()
	known := v.APIToken(t.ID)
	if err := checkToken(t, known, s.Replica.Now(v)); err != nil {
		return none, err
	}
	user, err := s.present(known.User)
	if err != nil {
		return none, badToken(fmt.Sprintf("%s: %v", t, err))
	}
	return identity.Caller{User: user, Group: identity.Group{GID: known.User.GID, Name: known.Group}, Token: known.ID,
		Scope: string(known.Scope)}, nil
}

// checkToken refuses a token that the cluster does not know, known being nil then, or not any more.
func checkToken(t api.BearerToken, known *trust.APIToken, now model.Instant) error {
	var want string
	if known != nil {
		want = known.Digest
	}
	switch right := subtle.ConstantTimeCompare([]byte(t.Digest()), []byte(want)) == 1; {
	case !right:
		return badToken(fmt.Sprintf("%s is unknown in this cluster, or its secret is wrong", t))
	case known.Revoked != nil:
		return badToken(fmt.Sprintf("%s was revoked", t))
	case known.Expires.At <= now:
		end := api.At(known.Expires.Wall).UTC().Format("2006-01-02 15:04 MST")
		return badToken(fmt.Sprintf("%s expired on %s", t, end))
	}
	return nil
}

// Fingerprint is that of the cluster's authority, which API tokens end with; nil if there is none.
func (s *Service) fingerprint() []byte {
	if s.Credential == nil {
		return nil
	}
	sum := s.Credential.Fingerprint()
	return sum[:]
}

// Fingerprint is that of the cluster's authority, which API tokens end with; nil if there is none.
func (x *Exchange) Fingerprint() []byte { return x.s.fingerprint() }

// present returns a token's user with the groups that it has today. A user that this machine does
// not know is as it was when the token was made.
func (s *Service) present(id model.Identity) (model.Identity, error) {
	now, err := s.Users.ByUID(id.UID)
	switch {
	case err != nil:
		return id, nil
	case now.User != id.User:
		return id, errors.New("its user no longer exists: another user has the user number now")
	}
	return now, nil
}

// authoriseToken refuses a token whose scope does not cover the route, and one that was revoked or
// has expired while a long poll waited.
func (x *Exchange) authoriseToken() error {
	if x.Caller == nil || x.Caller.Token == "" {
		return nil
	}
	v := x.s.Replica.View()
	switch t := v.APIToken(x.Caller.Token); {
	case t == nil || t.Revoked != nil:
		return badToken(fmt.Sprintf("API token %s was revoked", x.Caller.Token))
	case t.Expires.At <= x.s.Replica.Now(v):
		return badToken(fmt.Sprintf("API token %s has expired", x.Caller.Token))
	}
	needs := x.Route.TokenScope()
	if covers(trust.TokenScope(x.Caller.Scope), needs) {
		return nil
	}
	if needs == ScopeNever {
		return problem.Denied("API tokens cannot be used for %s %s: use the socket of a daemon instead",
			x.Route.Method, x.Route.Path)
	}
	return &api.Problem{Status: http.StatusForbidden, Code: api.CodeDenied,
		Detail: fmt.Sprintf("API token %s has scope %s, and %s %s needs scope %s", x.Caller.Token, x.Caller.Scope,
			x.Route.Method, x.Route.Path, needs),
		Hint: fmt.Sprintf("make one with `rota token create --scope %s`", needs)}
}
