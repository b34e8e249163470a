// Package server answers the API of the control daemon: its routes, their handlers, and passing
// requests on to the leader.
//
// exchange.go has the steps of a request in order, routes.go the table of routes. Each handler is
// in a file named after its subject.
package server

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rota-hpc/rota/consensus"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/earlystop"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/history"
	"github.com/rota-hpc/rota/controld/peers"
	"github.com/rota-hpc/rota/controld/replica"
	"github.com/rota-hpc/rota/controld/telemetry"
)

// Config is what a server works with.
type Config struct {
	Name   string // of this controller
	HTTP   string // host:port at which others reach its API
	Raft   string // and its log
	Gossip string // and its gossip

	Knows int // the greatest cluster version that it can apply

	AllowRootJobs bool
	RootJobsAs    string // account that the jobs of root run as
	Loopback      bool   // users come by loopback TCP too, see [identity.Guard]

	Credential *pki.Credential // of this controller
	// Lacking returns the controllers and the other members that the next phase of a replacement of the
	// authority waits for.
	Lacking func(context.Context, *state.View) (controllers, machines []string)
	// AuthorityState says of which replacement this controller has the key, and which authority has issued
	// its certificate.
	AuthorityState func() (key int64, issuer string)
	Users          *identity.Users

	Replica *replica.Replica
	Peers   *peers.Peers
	Client  *http.Client   // to other controllers
	Nodes   *http.Client   // to nodes
	History *history.Store // of this machine
	// Fetching reports whether History may lack jobs that another controller is about to be asked for.
	Fetching func() bool
	Contacts *telemetry.Contacts
	Touch    *telemetry.Touch
	Samples  *telemetry.Samples
	Arrays   *earlystop.Arrays

	// AuditFor is how long entries of the audit log are kept, and AuditMost how many at most.
	AuditFor  time.Duration
	AuditMost int64
	// DataDir has room for backups that are being written.
	DataDir string
	// NoteGeneration keeps the number of a generation that nodes follow elsewhere; nil: it is not kept.
	NoteGeneration func(number int64) error

	Metrics *prometheus.Registry
	Log     *slog.Logger
}

// Server answers requests of clients, nodes and other controllers.
type Server struct {
	Config
	routes    []route
	guard     identity.Guard
	groups    identity.Groups
	waiting   waitReasons
	bodies    bodyMemory
	requests  userRequests
	strangers strangers
	processor processorTime
	planning  turns
	metrics   metrics
	audit     auditLog
	document  func() ([]byte, error) // made once, because strangers may ask for it
	refusing  refusingNodes
	backups   backups
	fresh     atomic.Bool     // this replica has caught up once since it started
	caught    chan struct{}   // closed then
	alive     context.Context // ends when the daemon stops; long polls and streams end with it
}

// New returns a server, and registers its metrics. Its long polls and streams end with ctx. It
// panics if a route has no rule.
func New(ctx context.Context, cfg Config) *Server {
	s := &Server{Config: cfg, routes: routes(), alive: ctx, caught: make(chan struct{}),
		document: sync.OnceValues(documentText)}
	if err := checkRules(s.routes); err != nil {
		panic(err)
	}
	s.guard = identity.Guard{Credential: cfg.Credential, Users: cfg.Users, Loopback: cfg.Loopback}
	s.metrics = newMetrics(cfg.Metrics, cfg.Replica)
	return s
}

// stale returns for how long no leader was heard of, and false while there is one.
func (s *Server) stale() (time.Duration, bool) {
	if s.Replica.Leading() {
		return 0, false
	}
	if _, ok := s.Replica.Leader(); ok {
		return 0, false
	}
	last := s.Replica.LastContact()
	if last.IsZero() {
		return time.Second, true
	}
	return max(time.Since(last), time.Second), true
}

// missesRecords reports whether jobs have left the state that are not in the history of this
// machine yet. A controller that is new to the cluster, or was away for long, fetches them for a
// while, and must not deny them meanwhile.
func (s *Server) missesRecords() bool {
	return s.History.Last() < s.Replica.View().Trimmed() || s.History.Absent() > 0
}

// leaderHTTP returns the leader and where it serves the API. It is false if there is none, or it is
// this controller.
func (s *Server) leaderHTTP() (leader consensus.Member, at string, ok bool) {
	m, ok := s.Replica.Leader()
	if !ok || m.Name == s.Name {
		return m, "", false
	}
	p, ok := s.Peers.Find(m.Name)
	return m, p.HTTP, ok
}
