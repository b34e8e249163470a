package system

import (
	"reflect"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/peers"
	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/openapi"
)

// Routes are the routes about the whole state.
func (h *Handlers) Routes() []exchange.Route {
	saved := exchange.Post("/v1/backup", "Make a backup of the cluster: only for root on this controller, through its "+
		"socket")
	saved.In, saved.Media = reflect.TypeFor[api.BackupRequest](), "application/octet-stream"
	return []exchange.Route{
		{Operation: saved, Rule: access.ForAdmins, Token: exchange.ScopeNever, InJob: exchange.NotInJob,
			Handle: h.writeBackup},
		exchange.Returning(exchange.Route{Operation: exchange.Poll("/v1/events", "Events, oldest first"),
			Rule: access.SeeJobs.With(access.PartEvents, access.PartNodes, access.PartDetails), Ready: eventsReady}, listEvents),
	}
}

// AuditRoutes are the routes about the audit log.
func (h *Handlers) AuditRoutes() []exchange.Route {
	return []exchange.Route{
		exchange.Returning(exchange.Route{Operation: exchange.Get("/v1/audit",
			"Requests that changed something or were refused, the latest first",
			exchange.InQuery(openapi.String, "user"), exchange.InQuery(openapi.Integer, "job", "limit"),
			exchange.InQuery(openapi.Boolean, "denied"),
			exchange.InQuery(openapi.Instant, "since", "until")), Rule: access.ForUsers.With(access.PartAudit),
			InJob: exchange.NotInJob}, h.listAudit),
	}
}

// ProbeRoutes are the routes about the health of this controller.
func (h *Handlers) ProbeRoutes() []exchange.Route {
	return []exchange.Route{
		exchange.Returning(exchange.Route{Operation: exchange.Poll("/v1/check", "The violated invariants of the state"),
			Rule: access.ForUsers}, h.check),
		exchange.Returning(exchange.Route{Operation: exchange.Get("/v1/healthz", "Whether the process answers"),
			Rule: access.ForAnyone}, healthz),
		exchange.Returning(exchange.Route{Operation: exchange.Get("/v1/readyz", "Whether it can accept writes"),
			Rule: access.ForAnyone}, h.readyz),
	}
}

// RecordRoutes are the routes by which controllers read the records of each other.
func (h *Handlers) RecordRoutes() []exchange.Route {
	return []exchange.Route{
		// They have no summary, so that the document of the API leaves them out.
		{Operation: exchange.Get(peers.AuditPath, "", exchange.InQuery(openapi.String, "user"),
			exchange.InQuery(openapi.Integer, "uid", "job", "limit"),
			exchange.InQuery(openapi.Boolean, "denied"), exchange.InQuery(openapi.Instant, "since", "until")),
			Rule: access.ForControllers, Handle: h.internalAudit},
		{Operation: exchange.Get(peers.RecordsPath, "", exchange.InQuery(openapi.Integer, "from", "to")),
			Rule: access.ForControllers, Handle: h.internalRecords},
	}
}
