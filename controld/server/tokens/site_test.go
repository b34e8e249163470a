package tokens

import (
	"testing"

	"github.com/rota-hpc/rota/controld/server/exchange/exchangetest"
)

// site is this room on a site of exchangetest.
type site struct {
	*exchangetest.Site
	*Handlers
}

func siteOn(s *exchangetest.Site) *site {
	h := &Handlers{Replica: s.Leader, Users: s.Users, Groups: &s.Groups}
	s.Routes = h.Routes
	return &site{s, h}
}

// small is a site without jobs and nodes.
func small(t *testing.T) *site {
	t.Helper()
	return siteOn(exchangetest.Small(t))
}
