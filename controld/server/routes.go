package server

import (
	"encoding/json"
	"slices"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/controld/server/accounts"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/figures"
	"github.com/rota-hpc/rota/controld/server/jobs"
	"github.com/rota-hpc/rota/controld/server/members"
	"github.com/rota-hpc/rota/controld/server/nodes"
	"github.com/rota-hpc/rota/controld/server/openapi"
	"github.com/rota-hpc/rota/controld/server/relay"
	"github.com/rota-hpc/rota/controld/server/settings"
	"github.com/rota-hpc/rota/controld/server/system"
	"github.com/rota-hpc/rota/controld/server/tokens"
)

// routes is the whole API, in the order of the page of permissions.
func (r *rooms) routes() []exchange.Route {
	return slices.Concat(
		r.jobs.Routes(), r.relay.Routes(), r.jobs.QueueRoutes(), r.accounts.Routes(),
		r.nodes.Routes(), r.relay.FolderRoutes(), r.nodes.DaemonRoutes(),
		r.system.Routes(), r.settings.Routes(), r.members.Routes(), r.system.AuditRoutes(), r.tokens.Routes(),
		r.system.ProbeRoutes(), r.figures.Routes(), documentRoutes(), r.members.PeerRoutes(), r.system.RecordRoutes())
}

// described is the whole API for its description: the handlers have nothing to work with.
func described() []exchange.Route {
	r := &rooms{&jobs.Handlers{}, &relay.Handlers{}, &nodes.Handlers{}, &accounts.Handlers{}, &settings.Handlers{},
		&members.Handlers{}, &tokens.Handlers{}, &system.Handlers{}, &figures.Handlers{}}
	return r.routes()
}

// Document describes the API for OpenAPI.
func Document() (*huma.OpenAPI, error) {
	all := described()
	operations := make([]openapi.Operation, len(all))
	for i := range all {
		operations[i] = all[i].Operation
		operations[i].For = all[i].Rule.Roles.String()
	}
	return openapi.Document(operations)
}

// documentRoutes are the routes about the API itself. The document is made once, because strangers may
// ask for it.
func documentRoutes() []exchange.Route {
	document := exchange.Get("/openapi.json", "This document")
	document.Media = "application/json"
	text := sync.OnceValues(func() (json.RawMessage, error) {
		doc, err := Document()
		if err != nil {
			return nil, err
		}
		return json.Marshal(doc)
	})
	return []exchange.Route{{Operation: document, Rule: access.ForAnyone,
		Handle: func(*exchange.Exchange) (any, error) { return text() }}}
}
