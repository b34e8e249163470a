package server

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/server/exchange/exchangetest"
	"github.com/rota-hpc/rota/controld/telemetry"
)

// site is all rooms on a site of exchangetest.
type site struct {
	*exchangetest.Site
	server *Server
}

// newSite is a site with nodes and jobs.
func newSite(t *testing.T) *site {
	t.Helper()
	s := exchangetest.New(t)
	common := s.Service.Config
	common.Metrics = prometheus.NewRegistry()
	contacts := &telemetry.Contacts{}
	contacts.Restart(time.Now())
	all := New(t.Context(), Config{Common: common, Nodes: s.Nodes, Contacts: contacts, Touch: &telemetry.Touch{},
		Samples: &telemetry.Samples{},
		Lacking: func(context.Context, *state.View) ([]string, []string) { return nil, nil }})
	s.Routes = all.rooms.routes
	return &site{s, all}
}

// ask has a route answer a caller about {id} and {name}, with a body that is encoded as JSON.
func (s *site) ask(method, path, query string, caller *identity.Caller, id, name string, body any) (any, error) {
	s.T.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		s.T.Fatal(err)
	}
	x := s.Routed(method, path, caller, id, query, string(text))
	x.Request.SetPathValue("name", name)
	x.Request.SetPathValue("role", "node")
	return x.Route.Handle(x)
}
