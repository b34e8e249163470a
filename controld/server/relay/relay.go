// Package relay answers requests by passing them on to the daemons of nodes. They are about processes,
// terminals, output, steps, signals and usage of jobs, and about checkpoint folders that nodes keep.
package relay

import (
	"log/slog"
	"net/http"

	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/replica"
)

// Handlers answers requests by what nodes answer.
type Handlers struct {
	Replica    *replica.Replica
	Credential *pki.Credential // tells whether the node answers that was asked
	Nodes      *http.Client    // to nodes
	Log        *slog.Logger
}
