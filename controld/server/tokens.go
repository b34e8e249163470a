package server

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/trust"
	"github.com/rota-hpc/rota/controld/server/problem"
	"github.com/rota-hpc/rota/jobspec"
)

// createToken answers POST /v1/tokens.
func createToken(x *exchange, req *api.TokenRequest) (*api.CreatedToken, error) {
	user, err := x.tokenUser(req.User)
	if err != nil {
		return nil, err
	}
	days := cmp.Or(req.Days, trust.APITokenDays)
	switch {
	case req.Name != "" && !jobspec.ValidName(req.Name):
		return nil, problem.Invalid("%q is not a name: it has 1 to 63 letters, digits, '.', '_' and '-'", req.Name)
	case req.Scope != "" && !slices.Contains(trust.TokenScopes, req.Scope):
		return nil, problem.Invalid("scope %q: write read, submit or all", req.Scope)
	case days < 1 || days > trust.MaxAPITokenDays:
		return nil, problem.Invalid("a token is valid for 1 to %d days, not %d", trust.MaxAPITokenDays, days)
	case req.Scope == trust.ScopeAll && throughNode(x.caller):
		return nil, problem.Denied("node %s runs jobs, so API tokens with scope all are not made through it: use a login "+
			"node or a controller, or scope read or submit", x.caller.From)
	}
	text := api.NewBearerToken(x.s.fingerprint())
	x.about.object = text.ID
	t, err := proposeFor[*trust.APIToken](x, fsm.CreateAPIToken{ID: text.ID, Name: req.Name, Digest: text.Digest(),
		User: user, By: x.caller.User.User, Scope: cmp.Or(req.Scope, trust.ScopeSubmit), LifeMS: int64(days) * trust.DayMS})
	if err != nil {
		return nil, err
	}
	return &api.CreatedToken{APIToken: x.presentToken(t), Token: text.Text()}, nil
}

// tokenUser returns the user that a new token acts for. A token of root is made by root alone: its
// jobs could run as root.
func (x *exchange) tokenUser(name string) (model.Identity, error) {
	own := x.caller.User
	if name == "" || name == own.User {
		return own, nil
	}
	if !x.may(partTokens) {
		return own, problem.Denied("only admins may make API tokens of other users")
	}
	id, err := x.s.Users.ByName(name)
	switch {
	case err != nil:
		return own, &api.Problem{Status: http.StatusUnprocessableEntity, Code: api.CodeInvalid,
			Detail: fmt.Sprintf("this controller's machine knows no user %q", name)}
	case id.UID == 0:
		return own, problem.Denied("API tokens of root are made by root alone")
	}
	return id, nil
}

// listTokens answers GET /v1/tokens, the last to be made first.
func listTokens(x *exchange) (*api.List[api.APIToken], error) {
	user := x.query.Get("user")
	list := newList[api.APIToken]("TokenList", x.view)
	for _, t := range x.tokens() {
		if user == "" || user == t.User.User {
			list.Items = append(list.Items, x.presentToken(t))
		}
	}
	return list, nil
}

// tokens returns the tokens that the caller may see, the last to be made first.
func (x *exchange) tokens() []*trust.APIToken {
	all := slices.Clone(x.view.APITokens())
	all = slices.DeleteFunc(all, func(t *trust.APIToken) bool { return !x.maySeeToken(t) })
	slices.SortStableFunc(all, func(a, b *trust.APIToken) int { return cmp.Compare(b.Created.At, a.Created.At) })
	return all
}

func (x *exchange) maySeeToken(t *trust.APIToken) bool {
	return t.User.UID == x.caller.User.UID || x.may(partTokens)
}

// revokeToken answers POST /v1/tokens/{id}/revoke. A token of another user is as one that does not
// exist.
func revokeToken(x *exchange) (*api.APIToken, error) {
	id := x.r.PathValue("id")
	x.about.object = id
	if t := x.view.APIToken(id); t == nil || !x.maySeeToken(t) {
		return nil, problem.NotFound("there is no API token %q: `rota token list` shows yours", id)
	}
	t, err := proposeFor[*trust.APIToken](x, fsm.RevokeAPIToken{ID: id})
	if err != nil {
		return nil, err
	}
	out := x.presentToken(t)
	return &out, nil
}

func (x *exchange) presentToken(t *trust.APIToken) api.APIToken {
	state := "valid"
	switch {
	case t.Revoked != nil:
		state = "revoked"
	case t.Expires.At <= x.s.Replica.Now(x.view):
		state = "expired"
	}
	return api.APIToken{ID: t.ID, Name: t.Name, User: t.User.User, By: t.By, Scope: t.Scope, State: state,
		Created: api.At(t.Created.Wall), Expires: api.At(t.Expires.Wall)}
}
