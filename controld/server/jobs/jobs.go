// Package jobs answers requests about jobs: submission, lists, one job and why it waits, changes, plans,
// the queue and the history.
package jobs

import (
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/history"
	"github.com/rota-hpc/rota/controld/replica"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/telemetry"
)

// Handlers answers requests about jobs.
type Handlers struct {
	Name    string // of this controller
	Replica *replica.Replica
	History *history.Store
	Samples *telemetry.Samples

	Users         *identity.Users
	Groups        *identity.Groups
	AllowRootJobs bool
	RootJobsAs    string // account that the jobs of root run as

	// Signal asks the nodes of a job to pass a signal on to its processes.
	Signal func(*exchange.Exchange, *api.SignalRequest) (*api.ControlResponse, error)

	waiting  waitReasons
	planning turns
}
