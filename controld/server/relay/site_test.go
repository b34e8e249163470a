package relay

import (
	"slices"
	"testing"

	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/exchange/exchangetest"
)

// site is this room on a site of exchangetest.
type site struct {
	*exchangetest.Site
	*Handlers
}

func siteOn(s *exchangetest.Site) *site {
	h := &Handlers{Replica: s.Leader, Credential: s.Credential, Nodes: s.Site.Nodes, Log: s.Log}
	s.Routes = func() []exchange.Route {
		signal := exchange.Post("/v1/jobs/{id}/signal", "", exchange.PathID) // a route of room jobs
		return append(slices.Concat(h.Routes(), h.FolderRoutes()),
			exchange.Taking(exchange.Route{Operation: signal, Rule: access.ActOnJob}, h.SignalJob))
	}
	return &site{s, h}
}

// newSite is a site with nodes and jobs.
func newSite(t *testing.T) *site {
	t.Helper()
	return siteOn(exchangetest.New(t))
}

// small is a site without jobs and nodes.
func small(t *testing.T) *site {
	t.Helper()
	return siteOn(exchangetest.Small(t))
}
