package exchange

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
	"github.com/rota-hpc/rota/controld/server/openapi"
	"github.com/rota-hpc/rota/controld/server/servertest"
)

// site is a service on a site of servertest.
type site struct {
	*servertest.Site
	*Service
	t *testing.T
}

// serviceOn is a service on a replica.
func serviceOn(t *testing.T, r *replica.Replica) *Service {
	log := slog.New(slog.DiscardHandler)
	return NewService(t.Context(), Config{Replica: r, Audit: &audit.Log{Logger: log}, Log: log,
		Metrics: prometheus.NewRegistry()})
}

func siteOn(t *testing.T, on *servertest.Site) *site {
	s := &site{Site: on, Service: serviceOn(t, on.Leader), t: t}
	s.Name, s.History, s.Credential = "c1", on.Store, on.Keys
	return s
}

// newSite is a site with a node and jobs.
func newSite(t *testing.T) *site {
	t.Helper()
	return siteOn(t, servertest.New(t))
}

// small is a site without jobs and nodes.
func small(t *testing.T) *site {
	t.Helper()
	s := siteOn(t, servertest.Small(t))
	s.Peers, s.Users = &peers.Peers{}, &identity.Users{}
	return s
}

// following is a small controller c9 that does not lead: c1 does, and is another machine.
func following(t *testing.T) (*site, *servertest.Other) {
	t.Helper()
	s := small(t)
	other, known := s.Following()
	s.Name, s.Client, s.Peers = "c9", other.Client(), known
	return s, other
}

// on is a request to a service.
func on(s *Service, r *http.Request, query url.Values) *Exchange {
	x := New(s, &Route{Operation: openapi.Operation{Method: r.Method, Path: "/v1/x"}}, httptest.NewRecorder(), r)
	x.Query = query
	if s.Replica != nil {
		x.View = s.Replica.View()
	}
	return x
}

// ask is a request of a caller, with the state as it is at first.
func ask(method, target string, caller *identity.Caller) *Exchange {
	r := httptest.NewRequest(method, target, nil)
	x := on(&Service{Config: Config{Audit: &audit.Log{}}}, r, r.URL.Query())
	x.Caller, x.View = caller, fsm.New(servertest.Config()).View()
	return x
}

// Request is one of ann to a route, about {id}.
func (s *site) Request(path, id, query, body string) *Exchange {
	r := httptest.NewRequestWithContext(s.t.Context(), http.MethodPost, "/v1/x?"+query, strings.NewReader(body))
	x := on(s.Service, r, r.URL.Query())
	x.Caller, x.Roles = servertest.Named("ann", 7), access.User
	for _, rt := range testRoutes() {
		if rt.Path == path {
			x.Route = &rt
		}
	}
	r.Method = x.Route.Method
	x.Request.SetPathValue("id", id)
	return x
}

// Of is a request of a caller about {name}.
func (s *site) Of(caller *identity.Caller, name string) *Exchange {
	x := on(s.Service, httptest.NewRequest(http.MethodPost, "/v1/x", nil), url.Values{})
	x.Caller, x.Roles = caller, access.User
	x.Request.SetPathValue("name", name)
	return x
}

// Routed is a request of a caller by the route with a method.
func (s *site) Routed(method, path string, caller *identity.Caller, id, body string) *Exchange {
	s.t.Helper()
	x := s.Request(path, id, "", body)
	x.Caller = caller
	for _, rt := range testRoutes() {
		if rt.Path == path && rt.Method == method {
			x.Route = &rt
		}
	}
	return x
}

// testRoutes are routes with the rules of some of the API, whose handlers do nothing.
func testRoutes() []Route {
	done := func(*Exchange) (any, error) { return 1, nil }
	job := func(x *Exchange) (any, error) { return x.FindJob() }
	own := access.ActOnJob
	return []Route{
		{Operation: Poll("/v1/jobs/{id}", "", PathID), Rule: access.SeeJob.With(access.PartDetails), Past: true, Handle: job},
		{Operation: Poll("/v1/jobs", ""), Rule: access.SeeJobs, Handle: done},
		{Operation: Post("/v1/jobs/{id}/requeue", "", PathID), Rule: own, Place: OnLeader, InJob: ItsOwnJob, Handle: done},
		{Operation: Post("/v1/jobs/{id}/cancel", "", PathID), Rule: own, Place: OnLeader, InJob: ItsOwnJob, Handle: done},
		{Operation: Post("/v1/jobs/{id}/hold", "", PathID), Rule: own, Place: OnLeader, InJob: ItsOwnJob, Handle: done},
		{Operation: Get("/v1/jobs/{id}/logs", "", PathID), Rule: own, InJob: ItsOwnJob, Handle: done},
		{Operation: Post("/v1/jobs/{id}/exec", "", PathID), Rule: access.OfOwner, Handle: done},
		{Operation: Poll("/v1/nodes", ""), Rule: access.SeeNodes, Handle: done},
		{Operation: Post("/v1/nodes/{name}/drain", "", PathNode), Rule: access.ForOperators, Place: OnLeader, Handle: done},
		{Operation: Get("/v1/nodes/{name}/allocs", "", PathNode), Rule: access.ForItself, Place: OnLeader, Handle: done},
		{Operation: Get("/metrics", ""), Rule: access.SeeFigures, Handle: done},
	}
}
