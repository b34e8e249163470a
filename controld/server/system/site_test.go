package system

import (
	"slices"
	"testing"

	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/exchange/exchangetest"
	"github.com/rota-hpc/rota/controld/server/servertest"
)

// site is this room on a site of exchangetest.
type site struct {
	*exchangetest.Site
	*Handlers
}

func siteOn(s *exchangetest.Site) *site {
	h := &Handlers{Name: s.Name, Replica: s.Leader, Peers: s.Peers, History: s.History, Credential: s.Credential,
		Audit: s.Audit, Log: s.Log}
	s.Routes = func() []exchange.Route {
		return slices.Concat(h.Routes(), h.AuditRoutes(), h.ProbeRoutes(), h.RecordRoutes())
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

// following is a small controller c9 that does not lead: c1 does, and is another machine.
func following(t *testing.T) (*site, *servertest.Other) {
	t.Helper()
	s, other := exchangetest.Following(t)
	return siteOn(s), other
}
