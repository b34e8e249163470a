// Package members answers requests about the controllers and the members of the cluster. Members join,
// renew their certificates and leave. The authority and the key of the gossip are replaced.
package members

import (
	"context"
	"log/slog"

	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/history"
	"github.com/rota-hpc/rota/controld/peers"
	"github.com/rota-hpc/rota/controld/replica"
	"github.com/rota-hpc/rota/controld/telemetry"
)

// Handlers answers requests about the cluster and its members.
type Handlers struct {
	Name   string // of this controller
	HTTP   string // host:port at which others reach its API
	Raft   string // and its log
	Gossip string // and its gossip
	Knows  int    // the greatest cluster version that it can apply

	Replica    *replica.Replica
	Peers      *peers.Peers
	History    *history.Store
	Credential *pki.Credential // of this controller
	Touch      *telemetry.Touch
	// Lacking returns the controllers and the other members that the next phase of a replacement of the
	// authority waits for.
	Lacking func(context.Context, *state.View) (controllers, machines []string)
	// AuthorityState says of which replacement this controller has the key, and which authority has issued
	// its certificate.
	AuthorityState func() (key int64, issuer string)
	Log            *slog.Logger

	strangers strangers
}
