// Package server answers the API of the control daemon. It wires the rooms, which have the routes and
// their handlers, to package exchange, which serves routes.
package server

import (
	"context"
	"net/http"

	"github.com/rota-hpc/rota/controld/earlystop"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/server/accounts"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/figures"
	"github.com/rota-hpc/rota/controld/server/jobs"
	"github.com/rota-hpc/rota/controld/server/members"
	"github.com/rota-hpc/rota/controld/server/nodes"
	"github.com/rota-hpc/rota/controld/server/relay"
	"github.com/rota-hpc/rota/controld/server/settings"
	"github.com/rota-hpc/rota/controld/server/system"
	"github.com/rota-hpc/rota/controld/server/tokens"
	"github.com/rota-hpc/rota/controld/telemetry"
)

// Config is what a server works with.
type Config struct {
	Common exchange.Config // of all requests

	Raft   string // host:port at which others reach the log of this controller
	Gossip string // and its gossip
	Knows  int    // the greatest cluster version that it can apply

	AllowRootJobs bool

	// Lacking returns the controllers and the other members that the next phase of a replacement of the
	// authority waits for.
	Lacking func(context.Context, *state.View) (controllers, machines []string)
	// AuthorityState says of which replacement this controller has the key, and which authority has issued
	// its certificate.
	AuthorityState func() (key int64, issuer string)

	Nodes    *http.Client // to nodes
	Contacts *telemetry.Contacts
	Touch    *telemetry.Touch
	Samples  *telemetry.Samples
	Arrays   *earlystop.Arrays

	// DataDir has room for backups that are being written.
	DataDir string
}

// Server answers requests of clients, nodes and other controllers.
type Server struct {
	*exchange.Service
	rooms
	served []exchange.Route
}

// rooms are the handlers of the API.
type rooms struct {
	jobs     *jobs.Handlers
	relay    *relay.Handlers
	nodes    *nodes.Handlers
	accounts *accounts.Handlers
	settings *settings.Handlers
	members  *members.Handlers
	tokens   *tokens.Handlers
	system   *system.Handlers
	figures  *figures.Handlers
}

// New returns a server, and registers its metrics. Its long polls and streams end with ctx. It
// panics if a route has no rule.
func New(ctx context.Context, cfg Config) *Server {
	c := &cfg.Common
	s := &Server{Service: exchange.NewService(ctx, *c)}
	r := &s.rooms
	r.relay = &relay.Handlers{Replica: c.Replica, Credential: c.Credential, Nodes: cfg.Nodes, Log: c.Log}
	r.jobs = &jobs.Handlers{Name: c.Name, Replica: c.Replica, History: c.History, Samples: cfg.Samples, Users: c.Users,
		Groups: &s.Groups, AllowRootJobs: cfg.AllowRootJobs, RootJobsAs: c.RootJobsAs, Signal: r.relay.SignalJob}
	r.nodes = nodes.New(nodes.Config{Replica: c.Replica, History: c.History, Contacts: cfg.Contacts, Touch: cfg.Touch,
		Samples: cfg.Samples, Arrays: cfg.Arrays, Log: c.Log}, c.Metrics)
	r.accounts = &accounts.Handlers{Replica: c.Replica}
	r.settings = &settings.Handlers{Log: c.Log}
	r.members = &members.Handlers{Name: c.Name, HTTP: c.HTTP, Raft: cfg.Raft, Gossip: cfg.Gossip, Knows: cfg.Knows,
		Replica: c.Replica, Peers: c.Peers, History: c.History, Credential: c.Credential, Touch: cfg.Touch,
		Lacking: cfg.Lacking, AuthorityState: cfg.AuthorityState, Log: c.Log}
	r.tokens = &tokens.Handlers{Replica: c.Replica, Users: c.Users, Groups: &s.Groups}
	r.system = &system.Handlers{Name: c.Name, DataDir: cfg.DataDir, Replica: c.Replica, Peers: c.Peers,
		History: c.History, Credential: c.Credential, Audit: c.Audit, Log: c.Log}
	r.figures = figures.New(c.Metrics, c.Replica)
	s.served = r.routes()
	if err := exchange.CheckRules(s.served); err != nil {
		panic(err)
	}
	return s
}

// Handler returns the handler of every route.
func (s *Server) Handler() http.Handler { return s.Service.Handler(s.served) }
