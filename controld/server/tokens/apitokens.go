package tokens

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/trust"
	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/problem"
	"github.com/rota-hpc/rota/jobspec"
)

// createToken answers POST /v1/tokens.
func (h *Handlers) createToken(x *exchange.Exchange, req *api.TokenRequest) (*api.CreatedToken, error) {
	user, group, err := h.tokenUser(x, req.User)
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
		return nil, problem.Invalid("a token can be valid for 1 to %d days, not %d", trust.MaxAPITokenDays, days)
	case req.Scope == trust.ScopeAll && exchange.ThroughNode(x.Caller):
		return nil, problem.Denied("node %s runs jobs, so API tokens with scope all cannot be made through it: use a login "+
			"node or a controller, or scope read or submit", x.Caller.From)
	}
	text := api.NewBearerToken(x.Fingerprint())
	x.About.Object = text.ID
	t, err := exchange.ProposeFor[*trust.APIToken](x, fsm.CreateAPIToken{ID: text.ID, Name: req.Name,
		Digest: text.Digest(),
		User:   user, Group: group, By: x.Caller.User.User, Scope: cmp.Or(req.Scope, trust.ScopeSubmit),
		LifeMS: int64(days) * trust.DayMS})
	if err != nil {
		return nil, err
	}
	return &api.CreatedToken{APIToken: h.presentToken(x, t), Token: text.Text()}, nil
}

// tokenUser returns the user that a new token acts for, and the name of its primary group. A token of root is
// made by root alone: its jobs could run as root.
func (h *Handlers) tokenUser(x *exchange.Exchange, name string) (id model.Identity, group string, err error) {
	own := x.Caller.User
	if name == "" || name == own.User {
		return own, cmp.Or(x.Caller.Group.Name, h.Groups.Name(own.GID)), nil
	}
	if !x.May(access.PartTokens) {
		return own, "", problem.Denied("only admins may make API tokens for other users")
	}
	id, err = h.Users.ByName(name)
	switch {
	case err != nil:
		return own, "", &api.Problem{Status: http.StatusUnprocessableEntity, Code: api.CodeInvalid,
			Detail: fmt.Sprintf("user %q is unknown on this controller's machine", name)}
	case id.UID == 0:
		return own, "", problem.Denied("only root may make API tokens for root")
	}
	return id, h.Groups.Name(id.GID), nil
}

// listTokens answers GET /v1/tokens, the last to be made first.
func (h *Handlers) listTokens(x *exchange.Exchange) (*api.List[api.APIToken], error) {
	user := x.Query.Get("user")
	list := exchange.NewList[api.APIToken]("TokenList", x.View)
	for _, t := range tokens(x) {
		if user == "" || user == t.User.User {
			list.Items = append(list.Items, h.presentToken(x, t))
		}
	}
	return list, nil
}

// tokens returns the tokens that the caller may see, the last to be made first.
func tokens(x *exchange.Exchange) []*trust.APIToken {
	all := slices.Clone(x.View.APITokens())
	all = slices.DeleteFunc(all, func(t *trust.APIToken) bool { return !maySeeToken(x, t) })
	slices.SortStableFunc(all, func(a, b *trust.APIToken) int { return cmp.Compare(b.Created.At, a.Created.At) })
	return all
}

func maySeeToken(x *exchange.Exchange, t *trust.APIToken) bool {
	return t.User.UID == x.Caller.User.UID || x.May(access.PartTokens)
}

// revokeToken answers POST /v1/tokens/{id}/revoke. A token of another user is as one that does not
// exist.
func (h *Handlers) revokeToken(x *exchange.Exchange) (*api.APIToken, error) {
	id := x.Request.PathValue("id")
	x.About.Object = id
	if t := x.View.APIToken(id); t == nil || !maySeeToken(x, t) {
		return nil, problem.NotFound("unknown API token %q: `rota token list` shows yours", id)
	}
	t, err := exchange.ProposeFor[*trust.APIToken](x, fsm.RevokeAPIToken{ID: id})
	if err != nil {
		return nil, err
	}
	out := h.presentToken(x, t)
	return &out, nil
}

func (h *Handlers) presentToken(x *exchange.Exchange, t *trust.APIToken) api.APIToken {
	state := "valid"
	switch {
	case t.Revoked != nil:
		state = "revoked"
	case t.Expires.At <= h.Replica.Now(x.View):
		state = "expired"
	}
	return api.APIToken{ID: t.ID, Name: t.Name, User: t.User.User, By: t.By, Scope: t.Scope, State: state,
		Created: api.At(t.Created.Wall), Expires: api.At(t.Expires.Wall)}
}
