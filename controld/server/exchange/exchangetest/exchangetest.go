// Package exchangetest has requests for the tests of rooms: to a service on a site of package servertest.
package exchangetest

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/peers"
	"github.com/rota-hpc/rota/controld/replica"
	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/controld/server/audit"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/openapi"
	"github.com/rota-hpc/rota/controld/server/servertest"
)

// Site is a service on a site of servertest, with the routes of the tested room.
type Site struct {
	*servertest.Site
	*exchange.Service
	Routes func() []exchange.Route

	T *testing.T
}

// ServiceOn is a service on a replica.
func ServiceOn(t *testing.T, r *replica.Replica) *exchange.Service {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	return exchange.NewService(t.Context(), exchange.Config{Replica: r, Audit: &audit.Log{Logger: log}, Log: log,
		Metrics: prometheus.NewRegistry()})
}

func on(t *testing.T, s *servertest.Site) *Site {
	t.Helper()
	out := &Site{Site: s, Service: ServiceOn(t, s.Leader), T: t}
	out.Name, out.History, out.Credential = "c1", s.Store, s.Keys
	out.Audit.History = s.Store
	out.Peers, out.Users = &peers.Peers{}, &identity.Users{}
	return out
}

// New is a site with nodes and jobs.
func New(t *testing.T) *Site {
	t.Helper()
	return on(t, servertest.New(t))
}

// Small is a site without jobs and nodes.
func Small(t *testing.T) *Site {
	t.Helper()
	return on(t, servertest.Small(t))
}

// Following is a small controller c9 that does not lead: c1 does, and is another machine.
func Following(t *testing.T) (*Site, *servertest.Other) {
	t.Helper()
	s := Small(t)
	other, known := s.Site.Following()
	s.Name, s.Client, s.Peers = "c9", other.Client(), known
	return s, other
}

// On is a request to a service.
func On(s *exchange.Service, r *http.Request, query url.Values) *exchange.Exchange {
	x := exchange.New(s, &exchange.Route{Operation: openapi.Operation{Method: r.Method, Path: "/v1/x"}},
		httptest.NewRecorder(), r)
	x.Query = query
	if s.Replica != nil {
		x.View = s.Replica.View()
	}
	return x
}

// Ask is a request of a caller to a service without a replica, with the state as it is at first.
func Ask(method, target string, caller *identity.Caller) *exchange.Exchange {
	r := httptest.NewRequest(method, target, nil)
	x := On(&exchange.Service{Config: exchange.Config{Audit: &audit.Log{}}}, r, r.URL.Query())
	x.Caller, x.View = caller, fsm.New(servertest.Config()).View()
	return x
}

// Request is a request of ann by the last route with a path, about {id}.
func (s *Site) Request(path, id, query, body string) *exchange.Exchange {
	s.T.Helper()
	return s.Routed("", path, servertest.Named("ann", 7), id, query, body)
}

// Routed is a request of a caller by the last route with a path and a method, which "" leaves open.
func (s *Site) Routed(method, path string, caller *identity.Caller, id, query, body string) *exchange.Exchange {
	s.T.Helper()
	r := httptest.NewRequestWithContext(s.T.Context(), http.MethodPost, "/v1/x?"+query, strings.NewReader(body))
	x := On(s.Service, r, r.URL.Query())
	x.Caller, x.Roles = caller, access.User
	found := false
	for _, rt := range s.Routes() {
		if rt.Path == path && (method == "" || rt.Method == method) {
			x.Route, found = &rt, true
		}
	}
	if !found {
		s.T.Fatalf("there is no route %s %s", method, path)
	}
	r.Method = x.Route.Method
	x.Request.SetPathValue("id", id)
	return x
}

// Of is a request of a caller about {name}.
func (s *Site) Of(caller *identity.Caller, name string) *exchange.Exchange {
	x := On(s.Service, httptest.NewRequest(http.MethodPost, "/v1/x", nil), url.Values{})
	x.Caller, x.Roles = caller, access.User
	x.Request.SetPathValue("name", name)
	return x
}
