package tokens

import (
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/trust"
	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/servertest"
)

// TestTokensThatAreMade goes through how long they last, for which scopes, and for which users.
func TestTokensThatAreMade(t *testing.T) {
	s := small(t)
	admin, ann := servertest.Named("adm", 5), servertest.Named("ann", 7)
	byNode := &identity.Caller{Role: "node", From: "n1", User: ann.User}
	route := &exchange.Route{Rule: access.ForUsers.With(access.PartTokens)}
	for name, c := range map[string]struct {
		caller *identity.Caller
		roles  access.Role
		req    api.TokenRequest
		days   int64
		code   string
	}{
		"as it is": {ann, access.User, api.TokenRequest{}, trust.APITokenDays, ""},
		"a day":    {ann, access.User, api.TokenRequest{Days: 1, Name: "ci", Scope: trust.ScopeAll}, 1, ""},
		"a year": {ann, access.User, api.TokenRequest{Days: trust.MaxAPITokenDays, User: "ann"},
			trust.MaxAPITokenDays, ""},
		"a day more":        {ann, access.User, api.TokenRequest{Days: trust.MaxAPITokenDays + 1}, 0, api.CodeInvalid},
		"less than a day":   {ann, access.User, api.TokenRequest{Days: -1}, 0, api.CodeInvalid},
		"no name":           {ann, access.User, api.TokenRequest{Name: "a b"}, 0, api.CodeInvalid},
		"an odd scope":      {ann, access.User, api.TokenRequest{Scope: "x"}, 0, api.CodeInvalid},
		"all, by a node":    {byNode, access.User, api.TokenRequest{Scope: trust.ScopeAll}, 0, api.CodeDenied},
		"submit, by a node": {byNode, access.User, api.TokenRequest{Scope: trust.ScopeSubmit}, trust.APITokenDays, ""},
		"for another":       {ann, access.User, api.TokenRequest{User: "bob"}, 0, api.CodeDenied},
		"for another, by admins": {admin, access.User | access.Admin, api.TokenRequest{User: "daemon"}, trust.APITokenDays,
			""},
		"for an unknown one": {admin, access.User | access.Admin, api.TokenRequest{User: "not-there"}, 0,
			api.CodeInvalid},
		"for root, by admins": {admin, access.User | access.Admin, api.TokenRequest{User: "root"}, 0, api.CodeDenied},
	} {
		x := s.Of(c.caller, "")
		x.Route, x.Roles = route, c.roles
		got, err := s.createToken(x, &c.req)
		if servertest.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err == nil && (got.Expires.Sub(got.Created.Time) != time.Duration(c.days)*24*time.Hour || got.State != "valid" ||
			x.About.Object != got.ID || got.Token == "" || got.By != c.caller.User.User || c.req.Scope == "" &&
			got.Scope != trust.ScopeSubmit || c.req.Scope != "" && got.Scope != c.req.Scope || got.Name != c.req.Name) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	list := func(caller *identity.Caller, roles access.Role, user string) (users []string) {
		x := s.Of(caller, "")
		x.Route, x.Roles, x.Query = route, roles, url.Values{"user": {user}}
		got, err := s.listTokens(x)
		if err != nil {
			t.Fatal(err)
		}
		for i, k := range got.Items {
			if users = append(users, k.User); i > 0 && k.Created.After(got.Items[i-1].Created.Time) {
				t.Errorf("token %d is out of order", i)
			}
		}
		slices.Sort(users)
		return slices.Compact(users)
	}
	if a, b, c := list(ann, access.User, ""), list(admin, access.User|access.Admin, ""), list(admin,
		access.User|access.Admin, "daemon"); !slices.Equal(a, []string{"ann"}) ||
		!slices.Equal(b, []string{"ann", "daemon"}) || !slices.Equal(c, []string{"daemon"}) {
		t.Errorf("they see the tokens of %v, %v, %v", a, b, c)
	}
	revoke := func(caller *identity.Caller, roles access.Role, id string) (*api.APIToken, error) {
		x := s.Of(caller, "")
		x.Route, x.Roles = route, roles
		x.Request.SetPathValue("id", id)
		return s.revokeToken(x)
	}
	id := s.Replica.View().APITokens()[0].ID
	for _, c := range []struct {
		caller *identity.Caller
		roles  access.Role
		id     string
		code   string
	}{{servertest.Named("bob", 8), access.User, id, api.CodeNotFound}, {admin, access.User | access.Admin, "x",
		api.CodeNotFound},
		{admin, access.User | access.Admin, id, ""}} {
		if got, err := revoke(c.caller, c.roles, c.id); servertest.CodeOf(err) != c.code || err == nil &&
			got.State != "revoked" {
			t.Errorf("%s revokes %s: %+v, %v", c.caller.User.User, c.id, got, err)
		}
	}
	now := s.Replica.Now(s.Replica.View())
	for at, want := range map[model.Instant]string{now - 1000: "expired", now + 60_000: "valid"} {
		if got := s.presentToken(s.Of(ann, ""), &trust.APIToken{Expires: model.Stamp{At: at}}).State; got != want {
			t.Errorf("a token that ends at %d, now %d, is %s", at, now, got)
		}
	}
}
