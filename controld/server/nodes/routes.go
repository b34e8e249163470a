package nodes

import (
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/openapi"
)

// Routes are the routes for users and operators.
func (h *Handlers) Routes() []exchange.Route {
	return []exchange.Route{
		exchange.Returning(exchange.Route{Operation: exchange.Poll("/v1/nodes", "List nodes"),
			Rule: access.SeeNodes.With(access.PartJobs)}, h.listNodes),
		exchange.Taking(exchange.Route{Operation: exchange.Post("/v1/nodes/{name}/drain", "Drain a node: it gets no new jobs",
			exchange.PathNode),
			Rule: access.ForOperators, Place: exchange.OnLeader}, setNode(model.NodeDrained)),
		exchange.Taking(exchange.Route{Operation: exchange.Post("/v1/nodes/{name}/resume", "Resume a drained node",
			exchange.PathNode),
			Rule: access.ForOperators, Place: exchange.OnLeader}, setNode(model.NodeUp)),
		exchange.Taking(exchange.Route{Operation: exchange.Post("/v1/nodes/confirm-dead",
			"Confirm that nothing runs any more on nodes that are down"),
			Rule: access.ForOperators, Place: exchange.OnLeader}, h.confirmDead),
	}
}

// DaemonRoutes are the routes for the daemons of nodes.
func (h *Handlers) DaemonRoutes() []exchange.Route {
	return []exchange.Route{
		exchange.Taking(exchange.Route{Operation: exchange.Post("/v1/nodes/{name}/register", "A node registers its inventory",
			exchange.PathNode),
			Rule: access.ForItself, Place: exchange.OnLeader, Quiet: true}, h.register),
		exchange.Returning(exchange.Route{Operation: exchange.Get("/v1/nodes/{name}/allocs",
			"Workers and steps that should exist on a node", exchange.PathNode,
			exchange.InQuery(openapi.String, "boot_id", "sent", "witnesses"), exchange.InQuery(openapi.Duration, "wait"),
			exchange.InQuery(openapi.Integer, "after")), Rule: access.ForItself, Place: exchange.OnLeader}, h.allocs),
		exchange.Returning(exchange.Route{Operation: exchange.Get("/v1/nodes/{name}/generation",
			"The generation of the cluster, for a node to follow",
			exchange.PathNode, exchange.InQuery(openapi.String, "boot_id")), Rule: access.ForItself, Place: exchange.OnLeader},
			h.getGeneration),
		exchange.Taking(exchange.Route{Operation: exchange.Post("/v1/nodes/{name}/generation",
			"A node follows the generation of the cluster", exchange.PathNode),
			Rule: access.ForItself, Place: exchange.OnLeader}, h.acceptGeneration),
		exchange.Taking(exchange.Route{Operation: exchange.Post("/v1/nodes/{name}/report",
			"A node reports what has changed on it", exchange.PathNode),
			Rule: access.ForItself, Place: exchange.OnLeader, Quiet: true}, h.report),
		exchange.Returning(exchange.Route{Operation: exchange.Get("/v1/nodes/{name}/checkpoints/{id}",
			"Whether a node may send the folder of a worker to another one", exchange.PathNode,
			exchange.InPath("id", "the folder: job.attempt.worker"), exchange.InQuery(openapi.String, "boot_id", "for")),
			Rule: access.ForItself, Place: exchange.OnLeader}, h.mayCopyCheckpoint),
		exchange.Taking(exchange.Route{Operation: exchange.Post("/v1/nodes/{name}/checkpoints",
			"Which folders on a node are no longer needed", exchange.PathNode),
			Rule: access.ForItself, Place: exchange.OnLeader, Quiet: true}, h.dropCheckpoints),
	}
}
