package server

import (
	"os/user"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/trust"
)

// TestTokensThatAreNotGood: one that has expired, to the millisecond, that was revoked, or whose
// secret is another one. It notices the bugs "the end of a token is not looked at", "a revoked token
// is good until its end", and "a token is known by its id".
func TestTokensThatAreNotGood(t *testing.T) {
	text, other := api.NewBearerToken(nil), api.NewBearerToken(nil)
	known := &trust.APIToken{ID: text.ID, Digest: text.Digest(), Expires: model.Stamp{At: 1000, Wall: 1_700_000_000_000}}
	revoked := *known
	revoked.Revoked = &model.Stamp{At: 5}
	for what, c := range map[string]struct {
		shown api.BearerToken
		known *trust.APIToken
		now   model.Instant
		says  string
	}{
		"good":           {text, known, 999, ""},
		"at its end":     {text, known, 1000, "expired on 2023-11-14 22:13 UTC"},
		"long after":     {text, known, 1 << 40, "expired"},
		"revoked":        {text, &revoked, 10, "was revoked"},
		"another secret": {other, known, 10, "not known"},
		"unknown":        {text, nil, 10, "not known"},
		"no digest":      {text, &trust.APIToken{ID: text.ID, Expires: known.Expires}, 10, "not known"},
	} {
		err := checkToken(c.shown, c.known, c.now)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestATokenEndsWithItsUser: when a user's number belongs to another user now, the token of the old
// one is not the new one's. A user that this machine does not know is as it was.
func TestATokenEndsWithItsUser(t *testing.T) {
	s := &Server{Config: Config{Users: &identity.Users{}}}
	if _, err := user.LookupId("1"); err != nil {
		t.Skip("this machine has no user with number 1")
	}
	if _, err := s.present(model.Identity{UID: 1, User: "someone-else"}); err == nil {
		t.Error("the number of a user is another's now, and the token is good")
	}
	old := model.Identity{UID: 54321, GID: 9, User: "old"}
	if now, err := s.present(old); err != nil || now.User != "old" || now.GID != 9 {
		t.Errorf("%+v, %v", now, err)
	}
}

// TestScopesOfRoutes: a route without a word on tokens is for reading, or for scope all; one that
// makes tokens or ends them is for none. No POST route is for scope read.
func TestScopesOfRoutes(t *testing.T) {
	all := routes()
	for i := range all {
		rt := &all[i]
		needs := rt.tokenScope()
		path := strings.TrimPrefix(rt.Path, "/v1/")
		switch {
		case rt.Method == "GET" && needs != trust.ScopeRead,
			rt.Method == "POST" && strings.HasPrefix(path, "tokens") && needs != scopeNever,
			rt.Method == "POST" && (strings.HasPrefix(path, "jobs") || path == "plan") && needs != trust.ScopeSubmit,
			rt.Method == "POST" && needs == trust.ScopeRead,
			rt.Method == "POST" && strings.HasPrefix(path, "nodes") && needs != trust.ScopeAll:
			t.Errorf("%s %s needs scope %s", rt.Method, rt.Path, needs)
		}
	}
	for _, c := range []struct {
		has, needs trust.TokenScope
		want       bool
	}{
		{"read", "read", true}, {"read", "submit", false}, {"read", "all", false}, {"submit", "read", true},
		{"submit", "submit", true}, {"submit", "all", false}, {"all", "read", true}, {"all", "all", true},
		{"all", scopeNever, false}, {"", "read", false}, {"root", "read", false}, {"all", "", false},
	} {
		if got := covers(c.has, c.needs); got != c.want {
			t.Errorf("scope %q for %q: %t", c.has, c.needs, got)
		}
	}
}
