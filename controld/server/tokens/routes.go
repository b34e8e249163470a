package tokens

import (
	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/openapi"
)

// Routes are the routes about API tokens.
func (h *Handlers) Routes() []exchange.Route {
	return []exchange.Route{
		exchange.Returning(exchange.Route{Operation: exchange.Poll("/v1/tokens", "API tokens, without their secrets",
			exchange.InQuery(openapi.String, "user")), Rule: access.ForUsers.With(access.PartTokens), InJob: exchange.NotInJob},
			h.listTokens),
		exchange.Taking(exchange.Route{Operation: exchange.Post("/v1/tokens",
			"Make an API token; its text is shown only once"),
			Rule: access.ForUsers.With(access.PartTokens), Place: exchange.OnLeader, Token: exchange.ScopeNever}, h.createToken),
		exchange.Returning(exchange.Route{Operation: exchange.Post("/v1/tokens/{id}/revoke",
			"Revoke an API token",
			exchange.InPath("id", "id of the token")), Rule: access.ForUsers.With(access.PartTokens), Place: exchange.OnLeader,
			Token: exchange.ScopeNever}, h.revokeToken),
	}
}
