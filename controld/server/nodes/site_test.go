package nodes

import (
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rota-hpc/rota/controld/replica"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/exchange/exchangetest"
	"github.com/rota-hpc/rota/controld/server/servertest"
	"github.com/rota-hpc/rota/controld/telemetry"
)

// site is this room on a site of exchangetest.
type site struct {
	*exchangetest.Site
	*Handlers
}

func siteOn(s *exchangetest.Site) *site {
	h := New(Config{Replica: s.Leader, History: s.History, Contacts: &telemetry.Contacts{}, Touch: &telemetry.Touch{},
		Samples: &telemetry.Samples{}, Log: s.Log}, prometheus.NewRegistry())
	h.Contacts.Restart(time.Now())
	s.Routes = func() []exchange.Route { return slices.Concat(h.Routes(), h.DaemonRoutes()) }
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

// leading is this room on a replica that leads.
func leading(t *testing.T, r *replica.Replica) *site {
	t.Helper()
	return siteOn(&exchangetest.Site{Site: &servertest.Site{Leader: r}, Service: exchangetest.ServiceOn(t, r), T: t})
}
