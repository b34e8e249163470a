// Package system answers requests about the whole state and about this controller: events, the audit log,
// backups, invariants and health.
package system

import (
	"log/slog"

	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/history"
	"github.com/rota-hpc/rota/controld/peers"
	"github.com/rota-hpc/rota/controld/replica"
	"github.com/rota-hpc/rota/controld/server/audit"
)

// Handlers answers requests about the whole state and this controller.
type Handlers struct {
	Name       string // of this controller
	DataDir    string // has room for backups that are being written
	Replica    *replica.Replica
	Peers      *peers.Peers
	History    *history.Store
	Credential *pki.Credential // its keys go into backups
	Audit      *audit.Log
	Log        *slog.Logger

	backups backups
}
