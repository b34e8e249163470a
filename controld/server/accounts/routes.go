package accounts

import (
	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/openapi"
)

// Routes are the routes about accounts.
func (h *Handlers) Routes() []exchange.Route {
	return []exchange.Route{
		exchange.Returning(exchange.Route{Operation: exchange.Poll("/v1/shares", "Holdings and quota of each account",
			exchange.InQuery(openapi.String, "explain")), Rule: access.SeeAccounts.With(access.PartUsage, access.PartAccounts)},
			h.listShares),
	}
}
