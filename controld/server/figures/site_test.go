package figures

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rota-hpc/rota/controld/server/exchange/exchangetest"
)

// site is this room on a site of exchangetest.
type site struct {
	*exchangetest.Site
	*Handlers
}

func siteOn(s *exchangetest.Site) *site {
	h := New(prometheus.NewRegistry(), s.Leader)
	s.Routes = h.Routes
	return &site{s, h}
}

// newSite is a site with nodes and jobs.
func newSite(t *testing.T) *site {
	t.Helper()
	return siteOn(exchangetest.New(t))
}
