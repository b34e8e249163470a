package exchange

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rota-hpc/rota/consensus"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/history"
	"github.com/rota-hpc/rota/controld/peers"
	"github.com/rota-hpc/rota/controld/replica"
	"github.com/rota-hpc/rota/controld/server/audit"
)

// Config is what a service works with.
type Config struct {
	Name       string // of this controller
	HTTP       string // host:port at which others reach its API
	RootJobsAs string // account that the jobs of root run as
	Loopback   bool   // users come by loopback TCP too, see [identity.Guard]

	Credential *pki.Credential // of this controller
	Users      *identity.Users

	Replica *replica.Replica
	Peers   *peers.Peers
	Client  *http.Client   // to other controllers
	History *history.Store // of this machine
	// Fetching reports whether History may lack jobs that another controller is about to be asked for.
	Fetching func() bool
	// NoteGeneration keeps the number of a generation that nodes follow elsewhere; nil: it is not kept.
	NoteGeneration func(number int64) error
	Audit          *audit.Log

	Metrics *prometheus.Registry
	Log     *slog.Logger
}

// Service serves routes. It has what all requests share.
type Service struct {
	Config
	Groups    identity.Groups
	Alive     context.Context // ends when the daemon stops; long polls and streams end with it
	guard     identity.Guard
	bodies    bodyMemory
	requests  userRequests
	processor processorTime
	metrics   requestMetrics
	refusing  refusingNodes
	fresh     atomic.Bool   // this replica has caught up once since it started
	caught    chan struct{} // closed then
}

// NewService returns a service, and registers its metrics. Its long polls and streams end with ctx.
func NewService(ctx context.Context, cfg Config) *Service {
	s := &Service{Config: cfg, Alive: ctx, caught: make(chan struct{}), metrics: newRequestMetrics(cfg.Metrics)}
	s.guard = identity.Guard{Credential: cfg.Credential, Users: cfg.Users, Loopback: cfg.Loopback}
	return s
}

// Stale reports whether no leader is known, so that the answer may be old.
func (x *Exchange) Stale() bool {
	_, is := x.s.stale()
	return is
}

// Stale returns for how long no leader was heard of, and false while there is one.
func (s *Service) stale() (time.Duration, bool) {
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
func (s *Service) missesRecords() bool {
	return s.History.Last() < s.Replica.View().Trimmed() || s.History.Absent() > 0
}

// leaderHTTP returns the leader and where it serves the API. It is false if there is none, or it is
// this controller.
func (s *Service) leaderHTTP() (leader consensus.Member, at string, ok bool) {
	m, ok := s.Replica.Leader()
	if !ok || m.Name == s.Name {
		return m, "", false
	}
	p, ok := s.Peers.Find(m.Name)
	return m, p.HTTP, ok
}
