package jobs

import (
	"slices"
	"testing"

	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/exchange/exchangetest"
	"github.com/rota-hpc/rota/controld/telemetry"
)

// site is this room on a site of exchangetest.
type site struct {
	*exchangetest.Site
	*Handlers
}

func siteOn(s *exchangetest.Site) *site {
	h := &Handlers{Name: s.Name, Replica: s.Leader, History: s.History, Samples: &telemetry.Samples{}, Users: s.Users,
		Groups: &s.Groups}
	s.Routes = func() []exchange.Route { return slices.Concat(h.Routes(), h.QueueRoutes()) }
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
