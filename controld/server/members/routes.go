package members

import (
	"github.com/rota-hpc/rota/controld/peers"
	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/openapi"
)

// Routes are the routes about the members of the cluster: they join, renew, leave, and replace keys.
func (h *Handlers) Routes() []exchange.Route {
	return []exchange.Route{
		exchange.Returning(exchange.Route{Operation: exchange.Poll("/v1/cluster", "The controllers"),
			Rule: access.Rule{Roles: access.User | access.Members}}, h.getCluster),
		exchange.Returning(exchange.Route{Operation: exchange.Post("/v1/controllers/{name}/remove",
			"Remove the vote of a controller that is gone for good", exchange.InPath("name", "name of the controller")),
			Rule: access.ForAdmins, Place: exchange.OnLeader}, h.removeController),
		exchange.Taking(exchange.Route{Operation: exchange.Post("/v1/join-tokens",
			"Make a token that lets one machine join the cluster"),
			Rule: access.ForAdmins, Place: exchange.OnLeader}, h.createJoinToken),
		exchange.Taking(exchange.Route{Operation: exchange.Post("/v1/join", "A machine joins the cluster with a token"),
			Rule: access.ForAnyone}, h.join),
		exchange.Taking(exchange.Route{Operation: exchange.Post("/v1/certificate", "A member renews its certificate"),
			Rule: access.ForMembers},
			h.renewCertificate),
		exchange.Returning(exchange.Route{Operation: exchange.Post("/v1/members/{role}/{name}/revoke",
			"Revoke the certificates of a member",
			exchange.InPath("role", "node or login"), exchange.InPath("name", "name of the machine")),
			Rule: access.ForAdmins, Place: exchange.OnLeader}, h.revoke),
		exchange.Returning(exchange.Route{Operation: exchange.Post("/v1/gossip-key/rotate", "Replace the gossip key"),
			Rule:  access.ForAdmins,
			Place: exchange.OnLeader}, h.rotateGossipKey),
		exchange.Returning(exchange.Route{Operation: exchange.Get("/v1/authority",
			"The authorities that members must trust"), Rule: access.ForMembers},
			h.getAuthority),
		exchange.Returning(exchange.Route{Operation: exchange.Post("/v1/authority/rotate",
			"Replace the authority that issues certificates"),
			Rule: access.ForAdmins, Place: exchange.OnLeader}, h.replaceAuthority),
		exchange.Returning(exchange.Route{Operation: exchange.Post("/v1/authority/finish",
			"Stop trusting the old authority now, even if machines have no other certificate"),
			Rule: access.ForAdmins, Place: exchange.OnLeader}, h.finishAuthority),
	}
}

// PeerRoutes are the routes by which controllers ask each other what they are.
func (h *Handlers) PeerRoutes() []exchange.Route {
	return []exchange.Route{
		// They have no summary, so that the document of the API leaves them out.
		{Operation: exchange.Get(peers.StatePath, ""), Rule: access.ForControllers, Handle: h.internalState},
		{Operation: exchange.Get(peers.KeyPath, "", exchange.InQuery(openapi.String, "authority")),
			Rule:   access.ForControllers,
			Handle: h.internalAuthorityKey},
	}
}
