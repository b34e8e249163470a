package settings

import (
	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/controld/server/exchange"
)

// Routes are the routes about the configuration, and about pauses of the scheduler.
func (h *Handlers) Routes() []exchange.Route {
	return []exchange.Route{
		exchange.Returning(exchange.Route{Operation: exchange.Poll("/v1/config", "The replicated configuration"),
			Rule: access.SeeAccounts.With(access.PartAccounts)}, getConfig),
		exchange.Taking(exchange.Route{Operation: exchange.Post("/v1/config",
			"Put another configuration in force, as a new version"),
			Rule: access.ForAdmins, Place: exchange.OnLeader}, h.setConfig),
		exchange.Taking(exchange.Route{Operation: exchange.Post("/v1/config/rollback",
			"Put an old version of the configuration in force again"),
			Rule: access.ForAdmins, Place: exchange.OnLeader}, h.rollBackConfig),
		exchange.Returning(exchange.Route{Operation: exchange.Poll("/v1/config/versions",
			"Versions of the configuration, the one in force first"),
			Rule: access.ForOperators}, listConfigVersions),
		exchange.Returning(exchange.Route{Operation: exchange.Poll("/v1/sched", "The pauses and the dry run of the "+
			"scheduler"),
			Rule: access.ForUsers}, getSched),
		exchange.Taking(exchange.Route{Operation: exchange.Post("/v1/sched",
			"Pause or resume a part of scheduling, or turn the dry run on or off"),
			Rule: access.ForOperators, Place: exchange.OnLeader}, h.steer),
		exchange.Returning(exchange.Route{Operation: exchange.Poll("/v1/sched/displacements",
			"Displacements that a dry run has recorded"),
			Rule: access.ForOperators}, listDisplacements),
	}
}
