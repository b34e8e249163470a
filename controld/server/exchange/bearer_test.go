package exchange

import (
	"errors"
	"os/user"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/trust"
	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/controld/server/servertest"
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
		"another secret": {other, known, 10, "unknown in this cluster"},
		"unknown":        {text, nil, 10, "unknown in this cluster"},
		"no digest":      {text, &trust.APIToken{ID: text.ID, Expires: known.Expires}, 10, "unknown in this cluster"},
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
	s := &Service{Config: Config{Users: &identity.Users{}}}
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

// TestWhatTokensMayUse: routes of their scope, until they are revoked.
func TestWhatTokensMayUse(t *testing.T) {
	s := small(t)
	ann := servertest.Named("ann", 7)
	made := func() *trust.APIToken {
		text := api.NewBearerToken(nil)
		return s.Do(fsm.CreateAPIToken{ID: text.ID, Digest: text.Digest(), User: ann.User, By: "ann", Scope: trust.ScopeAll,
			LifeMS: trust.DayMS}).(*trust.APIToken)
	}
	good, id := made(), made().ID
	s.Do(fsm.RevokeAPIToken{ID: id})
	route := &Route{Rule: access.ForUsers}
	for name, c := range map[string]struct {
		token, scope string
		method       string
		needs        trust.TokenScope
		status       int // 0: it may
	}{"no token": {"", "", "POST", ScopeNever, 0}, "reads": {good.ID, "submit", "GET", "", 0}, "acts": {good.ID,
		"submit", "POST", "", 403},
		"submits": {good.ID, "submit", "POST", trust.ScopeSubmit, 0}, "acts with all": {good.ID, "all", "POST", "", 0},
		"makes one": {good.ID, "all", "POST", ScopeNever, 403}, "revoked": {id, "all", "GET", "", 401}, "unknown": {"x",
			"all", "GET", "", 401}} {
		x := s.Of(&identity.Caller{User: ann.User, Token: c.token, Scope: c.scope}, "")
		own := *route
		own.Token, own.Method = c.needs, c.method
		x.Route = &own
		err := x.authoriseToken()
		var p *api.Problem
		if errors.As(err, &p); (p == nil) != (c.status == 0) || p != nil && p.Status != c.status {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.Of(nil, "").authoriseToken(); err != nil {
		t.Errorf("a stranger's token: %v", err)
	}
}
